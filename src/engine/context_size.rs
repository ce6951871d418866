//! The size of the next request, and the ids under which the reader saw its messages.

use std::sync::Arc;

use uuid::Uuid;

use crate::message::{Message, Messages, TokenCounter};
use crate::model::Compaction;
use crate::usage::{Usage, total};

/// The token count of the next request: the count the provider reported for the last one, plus an
/// estimate of the messages added since.
#[derive(Debug, Default)]
pub(super) struct ContextSize {
    tokens: u64,
    /// True once the provider has reported a count, which includes system prompt and tools.
    pub(super) reported: bool,
    /// The token count when a compaction last failed. A compaction that failed a turn ago mostly
    /// fails again, and costs time and money each time.
    pub(super) failed_at: Option<u64>,
}

impl ContextSize {
    pub(super) fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Counts what is sent of a history, when nothing better is known.
    pub(super) fn restart(
        &mut self,
        counter: &dyn TokenCounter,
        messages: &Messages,
        compaction: Option<&Compaction>,
    ) {
        let summary = compaction.map_or(0, |made| counter.count_text(&made.summary));
        let covered_count = compaction.map_or(0, |made| made.through_message);
        let tail = messages.iter().skip(covered_count);
        let tail = tail.map(|message| counter.count_message(message));
        self.tokens = total(tail.chain([summary]));
        self.reported = false;
        self.failed_at = None;
    }

    pub(super) fn add(&mut self, counter: &dyn TokenCounter, messages: &[Arc<Message>]) {
        let added_tokens = messages
            .iter()
            .map(|message| counter.count_message(message));
        self.tokens = total(added_tokens.chain([self.tokens]));
    }

    /// Sets the count to the one the provider reported, which covers the whole request.
    pub(super) fn report(&mut self, usage: &Usage) {
        if usage.context_tokens() > 0 {
            self.tokens = usage.context_tokens();
            self.reported = true;
        }
    }
}

/// The ids under which messages of the history were emitted, by position.
#[derive(Debug, Default)]
pub(super) struct ShownMessages(Vec<(usize, Uuid)>);

impl ShownMessages {
    /// The last `count` messages of a history of `len` were shown as one message.
    pub(super) fn note(&mut self, len: usize, count: usize, id: Uuid) {
        self.0.push((len.saturating_sub(count), id));
    }

    /// The ids of what stands at `from` or later, in order.
    pub(super) fn since(&self, from: usize) -> Vec<Uuid> {
        let ids = self.0.iter().filter(|(at, _)| *at >= from);
        ids.map(|(_, id)| *id).collect()
    }
}
