//! The events of the stream and the response in them, as JSON.
//!
//! Strings are borrowed unless they have escapes. A field of another type reads as absent if its
//! type here is one of the module `lenient`; for a list, another type is an error.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::model::StopReason;

use super::super::lenient::{Count, Object, Text};
use super::usage::{ToolUsage, WireUsage};

/// A piece of text, of arguments or of reasoning.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct DeltaEvent<'a> {
    #[serde(borrow)]
    pub(super) sequence_number: Option<&'a RawValue>,
    pub(super) output_index: Count,
    pub(super) content_index: Count,
    pub(super) summary_index: Count,
    #[serde(borrow)]
    pub(super) delta: Text<'a>,
}

/// The place of a delta.
#[derive(Clone, Copy)]
pub(super) struct DeltaPlace {
    pub(super) kind: DeltaKind,
    pub(super) output_index: Option<u64>,
    pub(super) content_index: u64,
    pub(super) summary_index: u64,
}

impl DeltaEvent<'_> {
    pub(super) fn place(&self, kind: DeltaKind) -> DeltaPlace {
        DeltaPlace {
            kind,
            output_index: self.output_index.0,
            content_index: self.content_index.get(),
            summary_index: self.summary_index.get(),
        }
    }
}

/// The kinds of deltas that are emitted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum DeltaKind {
    Text,
    Arguments,
    Reasoning,
}

impl DeltaKind {
    /// Returns the kind of an event; `None` if it is not a delta that is emitted.
    pub(super) fn of(event: &str) -> Option<Self> {
        match event {
            "response.output_text.delta" | "response.refusal.delta" => Some(Self::Text),
            "response.function_call_arguments.delta" => Some(Self::Arguments),
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                Some(Self::Reasoning)
            }
            _ => None,
        }
    }
}

/// An output item that begins or ends.
#[derive(Deserialize)]
pub(super) struct ItemEvent<'a> {
    #[serde(default)]
    pub(super) output_index: Count,
    #[serde(borrow)]
    pub(super) item: &'a RawValue,
}

/// The event that has the response: the first and the last one.
#[derive(Deserialize)]
pub(super) struct ResponseEvent<'a> {
    #[serde(borrow)]
    pub(super) response: WireResponse<'a>,
}

/// The response: complete in the last event and in a document, incomplete in the first event.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct WireResponse<'a> {
    #[serde(borrow)]
    pub(super) id: Text<'a>,
    #[serde(borrow)]
    pub(super) model: Text<'a>,
    #[serde(borrow)]
    pub(super) status: Text<'a>,
    #[serde(borrow)]
    pub(super) output: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    pub(super) incomplete_details: Object<IncompleteDetails<'a>>,
    /// The reasoning that the server left out of the request.
    #[serde(borrow)]
    pub(super) input_transformations: Option<&'a RawValue>,
    pub(super) usage: Object<WireUsage>,
    pub(super) tool_usage: Object<ToolUsage>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct IncompleteDetails<'a> {
    #[serde(borrow)]
    reason: Text<'a>,
}

impl IncompleteDetails<'_> {
    pub(super) fn stop_reason(&self) -> StopReason {
        match &*self.reason.0 {
            "max_output_tokens" => StopReason::MaxTokens,
            "content_filter" => StopReason::Refusal,
            "" => StopReason::Other("incomplete".into()),
            other => StopReason::Other(other.into()),
        }
    }
}

/// The fields of an output item that are read.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct WireItem<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
    #[serde(borrow)]
    pub(super) status: Text<'a>,
    #[serde(borrow)]
    pub(super) call_id: Text<'a>,
    #[serde(borrow)]
    pub(super) name: Text<'a>,
    #[serde(borrow)]
    pub(super) arguments: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) summary: Option<Vec<WireText<'a>>>,
    /// The parts of a message, or the texts of reasoning.
    #[serde(borrow)]
    pub(super) content: Option<Vec<WireText<'a>>>,
}

/// A part of a message or of reasoning.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct WireText<'a> {
    #[serde(borrow)]
    pub(super) text: Text<'a>,
    #[serde(borrow)]
    pub(super) refusal: Text<'a>,
}

/// The type of an event whose SSE event has no name.
#[derive(Deserialize)]
pub(super) struct Kind<'a> {
    #[serde(borrow, rename = "type", default)]
    pub(super) kind: Text<'a>,
}
