//! The events of a model's stream.

use std::sync::Arc;

use crate::message::{Part, ToolCall};
use crate::usage::Usage;

use super::card::ModelCard;
use super::stop_reason::StopReason;

/// One event of a model's stream.
///
/// A well-formed stream is `Start`, then any other events, then `Stop` as the last event; a stream
/// that ends without `Stop` counts as truncated. `Text` is both shown and stored. `Thinking` and
/// the two `ToolCall` deltas are only shown; the version to store arrives as one whole `Part` or
/// `ToolCall` when the piece is complete, so an incomplete call never reaches the history.
/// `Warning` may stand anywhere after `Start`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ModelEvent {
    /// The response begins.
    Start(Box<ResponseHead>),
    /// A piece of text; adjacent pieces form one part.
    Text(String),
    /// A piece of the model's reasoning, to show.
    Thinking(String),
    /// A tool call begins, to show.
    ToolCallStart {
        /// The index of the call within the response, for parallel streams.
        index: u32,
        /// The call's id.
        id: Arc<str>,
        /// The tool's name.
        name: Arc<str>,
    },
    /// A piece of a call's arguments, to show.
    ToolCallDelta {
        /// The index of the call.
        index: u32,
        /// The next piece of JSON text.
        json: String,
    },
    /// A whole call, to be stored.
    ToolCall(ToolCall),
    /// A whole part, to be stored: thinking with its signature, a provider's own block. A whole
    /// text replaces the pieces of text directly before it.
    Part(Part),
    /// The part before is complete; the next text starts a part of its own.
    PartEnd,
    /// Usage so far. Each event replaces the previous usage.
    Usage(Usage),
    /// The output so far is superseded and the response begins again: a fallback took over.
    Restart,
    /// A notice for the user of the run. Not part of the answer.
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
    /// The provider's id of the response; empty when it gives none.
    pub id: Arc<str>,
    /// The model that answers, as the provider names it; empty when it was not reported.
    pub model: Arc<str>,
    /// The provider's id of the request, from its headers.
    pub request_id: Option<Arc<str>>,
    /// The model that answers, if it is another than the requested model, such as the next model of
    /// a fallback. The usage is recorded under its name.
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
