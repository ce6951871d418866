//! The token counts of an answer.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::usage::Usage;

use super::super::lenient::{Count, Object};

/// The counts so far; each report replaces the previous report.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct WireUsage {
    prompt_token_count: Count,
    cached_content_token_count: Count,
    candidates_token_count: Count,
    thoughts_token_count: Count,
    tool_use_prompt_token_count: Count,
}

/// Returns the counts in JSON text; `None` if it is no object.
pub(super) fn read(json: &str) -> serde_json::Result<Option<Usage>> {
    let counts: Object<WireUsage> = serde_json::from_str(json)?;
    Ok(counts.0.map(Usage::from))
}

/// The JSON text of the counts in a chunk.
pub(super) fn text_in(chunk: &str) -> Option<&str> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Counted<'a> {
        #[serde(borrow)]
        usage_metadata: &'a RawValue,
    }

    let counted: Counted<'_> = serde_json::from_str(chunk).ok()?;
    Some(counted.usage_metadata.get())
}

impl From<WireUsage> for Usage {
    /// The cached tokens are part of the prompt's in the API, and the thoughts are not part of the
    /// candidates'; in [`Usage`] it is the other way round.
    fn from(counts: WireUsage) -> Self {
        let cached = counts.cached_content_token_count.get();
        let prompt = counts.prompt_token_count.get().saturating_sub(cached);
        let input = prompt.saturating_add(counts.tool_use_prompt_token_count.get());
        let thoughts = counts.thoughts_token_count.get();
        let output = counts.candidates_token_count.get().saturating_add(thoughts);
        let mut usage = Self::new(input, output).with_cache(cached, 0);
        usage.reasoning_tokens = thoughts;
        usage
    }
}
