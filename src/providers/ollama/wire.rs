//! The lines of a chat stream.
//!
//! Format: Ollama's API documentation, "Generate a chat completion".

use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::chat::Function;
use super::super::lenient::{Count, List, Text};

/// The name of the wire format, and the tag of its blocks.
pub(super) const PROVIDER: &str = "ollama";

/// A line of the stream.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct WireLine<'a> {
    #[serde(borrow)]
    pub(super) model: Text<'a>,
    /// The time of the line. The time of the first line replaces the id that a response lacks.
    #[serde(borrow)]
    pub(super) created_at: Text<'a>,
    #[serde(borrow)]
    pub(super) message: Option<WireAnswer<'a>>,
    pub(super) done: bool,
    #[serde(borrow)]
    pub(super) done_reason: Text<'a>,
    pub(super) prompt_eval_count: Count,
    pub(super) eval_count: Count,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
}

/// The message in a line: a piece of the answer.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct WireAnswer<'a> {
    #[serde(borrow)]
    pub(super) content: Text<'a>,
    #[serde(borrow)]
    pub(super) thinking: Text<'a>,
    #[serde(borrow)]
    pub(super) tool_calls: List<WireCall<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct WireCall<'a> {
    #[serde(borrow)]
    pub(super) id: Text<'a>,
    #[serde(borrow)]
    pub(super) function: Option<Function<'a>>,
}
