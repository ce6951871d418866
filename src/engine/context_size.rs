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
    /// The part of `tokens` that the provider reported, system prompt and tools included; 0 if it
    /// has reported nothing.
    reported_tokens: u64,
    /// True once the model has failed to count the tokens of a request, or does not count any.
    is_uncountable: bool,
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
        let summary_tokens =
            compaction.map_or(0, |compaction| counter.count_text(&compaction.summary));
        let covered_count = compaction.map_or(0, |compaction| compaction.through_message);
        let tail = messages.iter().skip(covered_count);
        let tail_tokens = tail.map(|message| counter.count_message(message));
        self.tokens = total(tail_tokens.chain([summary_tokens]));
        self.reported_tokens = 0;
        self.is_uncountable = false;
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
        self.set(usage.context_tokens());
    }

    /// Sets the count to the one that the model made of the next request; `None` if it made none,
    /// and is not to be asked again for this history.
    pub(super) fn count(&mut self, tokens: Option<u64>) {
        self.is_uncountable = tokens.is_none();
        self.set(tokens.unwrap_or_default());
    }

    /// Forgets that the model did not count, because another one takes its place.
    pub(super) fn change_model(&mut self) {
        self.is_uncountable = false;
    }

    fn set(&mut self, tokens: u64) {
        if tokens > 0 {
            self.tokens = tokens;
            self.reported_tokens = tokens;
        }
    }

    /// True if the provider has reported a count, which includes system prompt and tools.
    pub(super) fn is_reported(&self) -> bool {
        self.reported_tokens > 0
    }

    /// Returns `true` if a count by the model could differ much from [`tokens`](Self::tokens): more
    /// than a tenth of them is estimated. A model that did not count is not asked again.
    pub(super) fn is_worth_counting(&self) -> bool {
        let reported_tenths = self.reported_tokens.saturating_mul(10);
        !self.is_uncountable && reported_tenths < self.tokens.saturating_mul(9)
    }

    /// The fewest and the most tokens that `total` is likely to be in truth: those of them that
    /// were estimated may be a fifth fewer or a quarter more.
    pub(super) fn range(&self, total: u64) -> (u64, u64) {
        let estimated_tokens = total.saturating_sub(self.reported_tokens);
        let low = total.saturating_sub(estimated_tokens / 5);
        (low, total.saturating_add(estimated_tokens / 4))
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
