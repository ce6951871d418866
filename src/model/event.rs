//! The events of a model's stream.

use std::sync::Arc;

use crate::message::{Part, ToolCall};
use crate::usage::Usage;

use super::card::ModelCard;
use super::stop_reason::StopReason;

/// One event of a model's stream.
///
/// A well-formed stream begins with `Start` and ends with `Stop`; a stream that ends without `Stop`
/// counts as truncated. `Warning` may occur anywhere after `Start`.
///
/// `Text` is both emitted to readers and stored in the history. `Thinking`, `ToolCallStart` and
/// `ToolCallDelta` are only emitted. A complete `Part` or `ToolCall` follows them and is stored, so
/// an incomplete call never reaches the history.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ModelEvent {
    /// The response begins.
    Start(Box<ResponseHead>),
    /// A piece of text; adjacent pieces form one part.
    Text(String),
    /// A piece of the model's reasoning, for readers.
    Thinking(String),
    /// The beginning of a tool call, for readers.
    ToolCallStart {
        /// The index of the call within the response, for parallel streams.
        index: u32,
        /// The call's id.
        id: Arc<str>,
        /// The tool's name.
        name: Arc<str>,
    },
    /// A piece of a call's arguments, for readers.
    ToolCallDelta {
        /// The index of the call.
        index: u32,
        /// The next piece of JSON text.
        json: String,
    },
    /// A complete call, for the history.
    ToolCall(ToolCall),
    /// A complete part for the history, such as thinking with its signature or a block in the
    /// provider's own format. A text part replaces the pieces of text directly before it.
    Part(Part),
    /// The end of the previous part: the next text starts a new part.
    PartEnd,
    /// The usage so far. Each event replaces the previous usage.
    Usage(Usage),
    /// The response begins again and supersedes the output so far, because another model has taken
    /// over.
    Restart,
    /// A warning for readers of the run, which is not part of the response.
    Warning(String),
    /// The response is complete.
    Stop {
        /// The reason, if the provider reported one.
        reason: Option<StopReason>,
        /// The stop sequence that was generated.
        sequence: Option<Arc<str>>,
    },
}

impl ModelEvent {
    /// Creates a `Stop` with this reason.
    pub fn stop(reason: StopReason) -> Self {
        Self::Stop {
            reason: Some(reason),
            sequence: None,
        }
    }
}

/// The metadata at the beginning of a response.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ResponseHead {
    /// The provider's id of the response; empty if it has none.
    pub id: Arc<str>,
    /// The model that answers, as the provider names it; empty if it was not reported.
    pub model: Arc<str>,
    /// The provider's id of the request, from its headers.
    pub request_id: Option<Arc<str>>,
    /// The model that answers, if it is not the requested model but, for example, the next model of
    /// a fallback. The usage is recorded for this model.
    pub answered_by: Option<Box<ModelCard>>,
}

impl ResponseHead {
    /// Creates a head with an id and a model.
    pub fn new(id: impl Into<Arc<str>>, model: impl Into<Arc<str>>) -> Self {
        Self {
            id: id.into(),
            model: model.into(),
            request_id: None,
            answered_by: None,
        }
    }
}
