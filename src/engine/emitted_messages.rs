//! The ids under which messages of the history were emitted.

use uuid::Uuid;

/// The ids under which messages of the history were emitted, each with the position of its first
/// message.
#[derive(Debug, Default)]
pub(super) struct EmittedMessages(Vec<(usize, Uuid)>);

impl EmittedMessages {
    /// Records that the last `count` messages of a history of `len` messages were emitted as one
    /// message.
    pub(super) fn record(&mut self, len: usize, count: usize, id: Uuid) {
        self.0.push((len.saturating_sub(count), id));
    }

    /// Returns the ids of the messages from position `start` on, in order.
    pub(super) fn since(&self, start: usize) -> Vec<Uuid> {
        self.0
            .iter()
            .filter(|(position, _)| *position >= start)
            .map(|(_, id)| *id)
            .collect()
    }
}
