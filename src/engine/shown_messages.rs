//! The ids under which the reader saw messages of the history.

use uuid::Uuid;

/// The ids under which messages of the history were emitted, by position.
#[derive(Debug, Default)]
pub(super) struct ShownMessages(Vec<(usize, Uuid)>);

impl ShownMessages {
    /// The last `count` messages of a history of `len` were shown as one message.
    pub(super) fn note(&mut self, len: usize, count: usize, id: Uuid) {
        self.0.push((len.saturating_sub(count), id));
    }

    /// Returns the ids of what stands at `from` or later, in order.
    pub(super) fn since(&self, from: usize) -> Vec<Uuid> {
        self.0
            .iter()
            .filter(|(at, _)| *at >= from)
            .map(|(_, id)| *id)
            .collect()
    }
}
