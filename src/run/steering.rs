//! Messages that are sent to a run in progress.

use std::sync::Arc;

use crate::message::{Message, message_size};

/// The maximum number of messages from handles that wait for the next turn.
const MAX_WAITING: usize = 256;

/// The maximum size of the messages that wait for the next turn, in bytes. A larger message is
/// accepted if no other waits; the limit of the history applies to it later.
const MAX_WAITING_BYTES: usize = 24 * 1024 * 1024;

/// A message that is sent to the model during the run.
#[derive(Clone, Debug)]
pub(crate) struct SteeredMessage {
    /// The caller's id. A message with an id that the session has had is not stored again.
    pub(crate) id: Option<Arc<str>>,
    pub(crate) message: Message,
    /// The approximate size of the message in bytes.
    size: usize,
}

/// The reason why a run does not accept a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SteerRefusal {
    /// No turn follows that would read it.
    Ended,
    /// Too many messages wait for the next turn, or they are too large together.
    Full,
}

impl SteeredMessage {
    pub(crate) fn new(id: Option<Arc<str>>, message: Message) -> Self {
        let size = message_size(&message);
        Self { id, message, size }
    }

    /// Returns the approximate size of the message in bytes.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Returns `true` if the message may wait together with `waiting`.
    pub(super) fn fits(&self, waiting: &[Self]) -> bool {
        let sizes = waiting.iter().map(|steered| steered.size);
        let waiting_bytes = sizes.fold(0, usize::saturating_add);
        waiting.is_empty()
            || waiting.len() < MAX_WAITING
                && waiting_bytes.saturating_add(self.size) <= MAX_WAITING_BYTES
    }
}

impl From<Message> for SteeredMessage {
    fn from(message: Message) -> Self {
        Self::new(None, message)
    }
}
