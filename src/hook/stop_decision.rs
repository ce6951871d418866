//! The decision of hooks about the end of a run.

use crate::message::Message;

/// The decision that [`before_stop`](super::Hook::before_stop) returns.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum StopDecision {
    /// The run ends, unless another hook continues it.
    Stop,
    /// The run continues with this message for the model. If it would take the history over its
    /// [limit](crate::AgentBuilder::max_history_bytes), the run ends with
    /// [`RequestTooLarge`](crate::ErrorKind::RequestTooLarge) instead.
    Continue(Message),
}

impl StopDecision {
    /// Continues the run with `message`.
    pub fn continue_with(message: impl Into<Message>) -> Self {
        Self::Continue(message.into())
    }
}
