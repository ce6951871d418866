//! The stream's events, as JSON.
//!
//! Deltas are frequent and have a small struct of their own; all other events share one. Fields
//! that an event does not have are `None`, and strings are borrowed unless they have escapes.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::Result;
use crate::usage::{Usage, UsageDetails};

use super::super::json::{RawText, Str};
use super::super::lenient::{Count, Object};

/// The SSE event and the JSON type of deltas.
pub(super) const BLOCK_DELTA: &str = "content_block_delta";

#[derive(Deserialize)]
pub(super) struct BlockDelta<'a> {
    pub(super) index: u32,
    #[serde(borrow)]
    pub(super) delta: WireDelta<'a>,
}

#[derive(Deserialize)]
pub(super) struct WireDelta<'a> {
    #[serde(borrow)]
    pub(super) text: Option<RawText<'a>>,
    #[serde(borrow)]
    pub(super) partial_json: Option<RawText<'a>>,
    #[serde(borrow)]
    pub(super) thinking: Option<RawText<'a>>,
    #[serde(borrow)]
    pub(super) signature: Option<Str<'a>>,
}

/// Any event but a delta.
#[derive(Deserialize)]
pub(super) struct WireEvent<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Str<'a>,
    pub(super) index: Option<u32>,
    #[serde(borrow)]
    pub(super) delta: Option<Ending<'a>>,
    #[serde(borrow)]
    pub(super) content_block: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) message: Option<WireMessage<'a>>,
    pub(super) usage: Option<WireUsage>,
}

/// The fields that `message_delta` adds, and that a whole message has.
#[derive(Deserialize)]
pub(super) struct Ending<'a> {
    #[serde(borrow)]
    pub(super) stop_reason: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) stop_sequence: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(super) stop_details: Object<StopDetails<'a>>,
    /// The container of hosted tools: `{"id": "..", "expires_at": ".."}`.
    #[serde(borrow)]
    pub(super) container: Option<&'a RawValue>,
    /// The thinking that the server left out of the request.
    #[serde(borrow)]
    pub(super) input_transformations: Option<&'a RawValue>,
}

/// The details of a refusal.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct StopDetails<'a> {
    #[serde(borrow)]
    pub(super) category: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) explanation: Option<Str<'a>>,
}

impl StopDetails<'_> {
    /// Returns the warning about a refusal; `None` without a detail.
    pub(super) fn refusal(&self) -> Option<String> {
        let category = self.category.as_deref().filter(|text| !text.is_empty());
        let explanation = self.explanation.as_deref();
        Some(
            match (category, explanation.filter(|text| !text.is_empty())) {
                (Some(category), Some(text)) => format!("the model refused ({category}): {text}"),
                (Some(category), None) => format!("the model refused ({category})"),
                (None, Some(text)) => format!("the model refused: {text}"),
                (None, None) => return None,
            },
        )
    }
}

/// A whole message, or the empty message that `message_start` announces.
#[derive(Deserialize)]
pub(super) struct WireMessage<'a> {
    #[serde(borrow)]
    pub(super) id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) model: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) content: Option<Vec<&'a RawValue>>,
    pub(super) usage: Option<WireUsage>,
    #[serde(borrow)]
    pub(super) input_transformations: Option<&'a RawValue>,
}

/// The beginning of a block, or a whole one.
#[derive(Deserialize)]
pub(super) struct WireBlock<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Str<'a>,
    #[serde(borrow)]
    pub(super) id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) name: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) text: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) thinking: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) input: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) citations: Option<&'a RawValue>,
}

/// The token counts so far. A count that an event omits has not changed.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct WireUsage {
    input_tokens: Count,
    output_tokens: Count,
    cache_read_input_tokens: Count,
    cache_creation_input_tokens: Count,
    #[serde(flatten)]
    details: UsageDetails,
}

impl WireUsage {
    /// Replaces the counts that are reported. Later counts include the earlier ones.
    pub(super) fn update(self, usage: &mut Usage) {
        let put = |slot: &mut u64, count: Count| {
            if let Some(count) = count.0 {
                *slot = count;
            }
        };

        put(&mut usage.input_tokens, self.input_tokens);
        put(&mut usage.output_tokens, self.output_tokens);
        put(&mut usage.cache_read_tokens, self.cache_read_input_tokens);
        put(
            &mut usage.cache_write_tokens,
            self.cache_creation_input_tokens,
        );
        self.details.apply(usage);
    }
}

/// Returns the JSON of the delta of an event.
pub(super) fn raw_delta(data: &str) -> Result<&RawValue> {
    #[derive(Deserialize)]
    struct Raw<'a> {
        #[serde(borrow)]
        delta: &'a RawValue,
    }
    Ok(serde_json::from_str::<Raw<'_>>(data)?.delta)
}

/// Returns the citation in a delta; `None` in a delta of another kind.
pub(super) fn citation(data: &str) -> Result<Option<&RawValue>> {
    #[derive(Deserialize)]
    struct Raw<'a> {
        #[serde(borrow)]
        citation: Option<&'a RawValue>,
    }
    Ok(serde_json::from_str::<Raw<'_>>(raw_delta(data)?.get())?.citation)
}

/// Returns `true` if `data` is a JSON object with a type that is not decoded.
pub(super) fn is_unknown_event(data: &str) -> bool {
    #[derive(Deserialize)]
    struct Kind {
        #[serde(rename = "type")]
        kind: String,
    }

    serde_json::from_str::<Kind>(data).is_ok_and(|event| {
        !matches!(
            &*event.kind,
            BLOCK_DELTA
                | "content_block_start"
                | "content_block_stop"
                | "message_start"
                | "message_delta"
                | "message_stop"
                | "error"
        )
    })
}
