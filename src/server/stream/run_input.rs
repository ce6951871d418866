//! The input of a run, as requests have it.

use std::sync::Arc;

use crate::message::{Message, Messages};

/// The input of a run, with the ids that the client gave to its messages.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunInput {
    pub(crate) messages: Vec<(Arc<str>, Arc<Message>)>,
    /// The id of the last message, if it has one: an input that is sent twice is stored once.
    pub(crate) input_id: Option<Arc<str>>,
}

impl RunInput {
    pub(super) fn new(messages: impl IntoIterator<Item = (Arc<str>, Message)>) -> Self {
        let messages: Vec<_> = messages
            .into_iter()
            .map(|(id, message)| (id, Arc::new(message)))
            .collect();
        let last_id = messages.last().map(|(id, _)| id.clone());
        Self {
            messages,
            input_id: last_id.filter(|id| !id.is_empty()),
        }
    }

    /// Returns the messages without their ids.
    pub(crate) fn to_messages(&self) -> Messages {
        self.messages
            .iter()
            .map(|(_, message)| message.clone())
            .collect()
    }
}
