//! The chunks of a stream, as JSON. Each is a response with only the next parts.
//!
//! Format: the Gemini API reference, "GenerateContentResponse" and "Content".

use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::json::Str;
use super::super::lenient::{Count, List, Object, Text};
use super::grounding::Grounding;
use super::usage::WireUsage;

/// The name of the wire format, and the tag of its blocks.
pub(super) const PROVIDER: &str = "gemini";

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct WireChunk<'a> {
    #[serde(borrow)]
    pub(super) candidates: List<WireCandidate<'a>>,
    #[serde(borrow)]
    pub(super) prompt_feedback: Object<Feedback<'a>>,
    pub(super) usage_metadata: Object<WireUsage>,
    #[serde(borrow)]
    pub(super) model_version: Text<'a>,
    #[serde(borrow)]
    pub(super) response_id: Text<'a>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
}

/// The verdict of a filter on the prompt.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Feedback<'a> {
    #[serde(borrow)]
    pub(super) block_reason: Text<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct WireCandidate<'a> {
    pub(super) index: Count,
    #[serde(borrow)]
    pub(super) content: Object<WireContent<'a>>,
    #[serde(borrow)]
    pub(super) grounding_metadata: Object<Grounding<'a>>,
    #[serde(borrow)]
    pub(super) finish_reason: Text<'a>,
    #[serde(borrow)]
    pub(super) finish_message: Text<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct WireContent<'a> {
    #[serde(borrow)]
    pub(super) parts: List<WirePart<'a>>,
}

/// The fields of texts and calls. A part without them is of another kind.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct WirePart<'a> {
    #[serde(borrow)]
    pub(super) text: Option<Str<'a>>,
    /// Marks a text as a summary of the model's thoughts.
    pub(super) thought: Option<bool>,
    #[serde(borrow)]
    pub(super) thought_signature: Text<'a>,
    #[serde(borrow)]
    pub(super) function_call: Option<FunctionCall<'a>>,
}

impl WirePart<'_> {
    /// Returns the text of a part that has no other field.
    pub(super) fn plain_text(&self) -> Option<&str> {
        let has_more = self.thought.is_some()
            || !self.thought_signature.is_empty()
            || self.function_call.is_some();
        let text = self.text.as_ref().filter(|_| !has_more)?;
        Some(&text.0)
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct FunctionCall<'a> {
    #[serde(borrow)]
    pub(super) id: Text<'a>,
    #[serde(borrow)]
    pub(super) name: Text<'a>,
    #[serde(borrow)]
    pub(super) args: Option<&'a RawValue>,
    /// Pieces of the arguments, instead of `args`.
    #[serde(borrow)]
    partial_args: Option<&'a RawValue>,
    will_continue: Option<bool>,
}

impl FunctionCall<'_> {
    /// Returns `true` if the arguments are streamed, which the server does only on request.
    pub(super) fn is_partial(&self) -> bool {
        self.partial_args.is_some() || self.will_continue == Some(true)
    }
}
