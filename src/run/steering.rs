//! Messages that are sent to a run in progress.

use std::sync::Arc;

use crate::message::Message;

/// A message that is sent to the model during the run.
#[derive(Clone, Debug)]
pub(crate) struct SteeredMessage {
    /// The caller's id. A message with an id that the session has had is not stored again.
    pub(crate) id: Option<Arc<str>>,
    pub(crate) message: Message,
}

impl From<Message> for SteeredMessage {
    fn from(message: Message) -> Self {
        Self { id: None, message }
    }
}
