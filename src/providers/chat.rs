//! The common parts of Chat Completions and Ollama's chat API, and texts that all providers send.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::error::Result;
use crate::message::{Message, Part, ProviderBlock};
use crate::model::{Stability, SystemPrompt, ToolDefinition};
use crate::util::hash::fnv1a;
use crate::util::text::floor_char_boundary;

use super::json::{write, write_text};
use super::lenient::Text;

/// The separator of texts that are joined.
pub(super) const GAP: &str = "\n\n";

/// The text of a message without content, which servers would refuse.
pub(super) const EMPTY: &str = "(empty)";

/// Returns a call's id in at most `max_bytes`: the id of another provider may be longer than an API
/// accepts. A longer id is cut and ends in the sixteen digits of its hash, so that ids that differ
/// stay different.
pub(super) fn short_id(id: &str, max_bytes: usize) -> Cow<'_, str> {
    if id.len() <= max_bytes {
        return id.into();
    }
    let max_start = max_bytes.saturating_sub("_0123456789abcdef".len());
    let end = floor_char_boundary(id, max_start);
    format!("{}_{:016x}", &id[..end], fnv1a([id.as_bytes()])).into()
}

/// The function of a call, in a stream.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Function<'a> {
    #[serde(borrow)]
    pub(super) name: Text<'a>,
    /// The arguments: an object, or a string with its text or with a piece of it.
    #[serde(borrow)]
    pub(super) arguments: Option<&'a RawValue>,
}

/// Appends the system prompt as a message, or nothing if there is none. The messages in `lifted`,
/// the system messages at the beginning of the request, belong to it.
pub(super) fn write_system(
    system: &SystemPrompt,
    lifted: &[Arc<Message>],
    out: &mut Vec<u8>,
) -> Result<()> {
    let texts: Vec<Cow<'_, str>> = [system.text_of(Stability::Stable).into()]
        .into_iter()
        .chain(lifted.iter().map(|message| message.text()))
        .chain([system.text_of(Stability::Volatile).into()])
        .filter(|text| !text.is_empty())
        .collect();
    if texts.is_empty() {
        return Ok(());
    }

    out.extend_from_slice(b"{\"role\":\"system\",\"content\":");
    write_text(out, &texts.join(GAP))?;
    out.push(b'}');
    Ok(())
}

/// Returns a system message inside a history as text of the user; `None` for an empty message.
pub(super) fn system_text(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| format!("<system>\n{text}\n</system>"))
}

/// Appends the array of tools.
pub(super) fn write_tools(tools: &[ToolDefinition], out: &mut Vec<u8>) -> Result<()> {
    #[derive(Serialize)]
    struct Function<'a> {
        name: &'a str,
        description: &'a str,
        parameters: &'a serde_json::Value,
    }

    #[derive(Serialize)]
    struct Tool<'a> {
        r#type: &'static str,
        function: Function<'a>,
    }

    let tools: Vec<_> = tools
        .iter()
        .map(|tool| Tool {
            r#type: "function",
            function: Function {
                name: &tool.name,
                description: &tool.description,
                parameters: &tool.parameters,
            },
        })
        .collect();
    write(out, &tools)
}

/// Returns reasoning under the field that it arrived in, so that it can be sent back.
pub(super) fn reasoning_part(provider: &str, field: &str, text: &str) -> Result<Part> {
    let mut raw = format!("{{\"{field}\":").into_bytes();
    write(&mut raw, text)?;
    raw.push(b'}');
    let raw: Box<RawValue> = serde_json::from_slice(&raw)?;
    Ok(Part::Thinking(ProviderBlock::new(provider, raw)))
}
