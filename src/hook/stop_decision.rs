//! The decision of hooks about the end of a run.

use crate::message::Message;

/// The decision that [`before_stop`](super::Hook::before_stop) returns.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum StopDecision {
    /// The run may end.
    Stop,
    /// The run continues with this message.
    GoOn(Message),
}

impl StopDecision {
    /// The run continues with this message.
    pub fn go_on(message: impl Into<Message>) -> Self {
        Self::GoOn(message.into())
    }
}
