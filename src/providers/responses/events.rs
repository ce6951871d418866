//! The events of the stream and the response in them, as JSON.
//!
//! Strings are borrowed unless they hold escapes. A field of another type reads as absent.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::model::StopReason;

use super::super::lenient::{Count, Object, Text};
use super::usage::{ToolUsage, WireUsage};

/// A piece of text, of arguments or of reasoning.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct DeltaEvent<'a> {
    pub(super) output_index: Count,
    pub(super) content_index: Count,
    pub(super) summary_index: Count,
    #[serde(borrow)]
    pub(super) delta: Text<'a>,
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
    pub(super) response: Response<'a>,
}

/// The response, whole or so far.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Response<'a> {
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

/// An output item, as far as it is read.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Item<'a> {
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
    pub(super) summary: Option<Vec<Piece<'a>>>,
    /// The parts of a message, or the texts of reasoning.
    #[serde(borrow)]
    pub(super) content: Option<Vec<Piece<'a>>>,
}

/// A part of a message or of reasoning.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Piece<'a> {
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
