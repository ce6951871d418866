//! The chat that a run belongs to.

use std::sync::Arc;

/// The chat that a run belongs to, as a value of the run
/// ([`Session::with`](crate::Session::with)).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Conversation {
    /// The channel, such as `telegram`.
    pub channel: Arc<str>,
    /// The id of the chat in the channel.
    pub chat_id: Arc<str>,
    /// The id of the sender, if the chat has several.
    pub sender_id: Option<Arc<str>>,
}

impl Conversation {
    /// Creates a chat of a channel.
    pub fn new(channel: impl Into<Arc<str>>, chat_id: impl Into<Arc<str>>) -> Self {
        Self {
            channel: channel.into(),
            chat_id: chat_id.into(),
            sender_id: None,
        }
    }

    /// Sets the sender.
    #[must_use]
    pub fn with_sender(mut self, id: impl Into<Arc<str>>) -> Self {
        self.sender_id = Some(id.into());
        self
    }
}
