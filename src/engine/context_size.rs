//! The size of the next request.

use std::sync::Arc;

use crate::message::{Messages, TokenCounter, count};
use crate::model::Compaction;
use crate::usage::{Usage, total};

/// The token count of the next request: the count the provider reported for the last one, plus an
/// estimate of the messages added since.
///
/// Messages are estimated by [`update`](Self::update), not when they are added: few runs need the
/// count after every message, and runs without a compactor never need it.
#[derive(Debug, Default)]
pub(super) struct ContextSize {
    tokens: u64,
    /// The number of messages at the beginning of the history that `tokens` covers.
    counted_len: usize,
    /// The part of `tokens` that the provider reported, system prompt and tools included; 0 if it
    /// has reported nothing.
    reported_tokens: u64,
    /// True once the model has failed to count the tokens of a request, or does not count any.
    is_uncountable: bool,
    /// The token count when a compaction last failed or had nothing to shorten. A repetition would
    /// most likely fail again, and costs time and money.
    pub(super) failed_at_tokens: Option<u64>,
}

impl ContextSize {
    pub(super) fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Restarts the count after the history was replaced. The next request begins with the summary,
    /// if there is one.
    pub(super) fn restart(&mut self, counter: &dyn TokenCounter, compaction: Option<&Compaction>) {
        *self = Self::default();
        if let Some(compaction) = compaction {
            self.tokens = counter.count_text(&compaction.summary);
            self.counted_len = compaction.through_message;
        }
    }

    /// Adds an estimate of the messages of the history that are not counted yet.
    pub(super) async fn update(&mut self, counter: &Arc<dyn TokenCounter>, messages: &Messages) {
        let added_messages = messages.as_slice().get(self.counted_len..);
        let added_tokens = count(counter, added_messages.unwrap_or_default()).await;
        self.tokens = total([self.tokens, added_tokens]);
        self.counted_len = messages.len();
    }

    /// Sets the count to the tokens that the provider reported for the whole request, which had
    /// `len` messages of the history.
    pub(super) fn report(&mut self, usage: &Usage, len: usize) {
        self.set(usage.context_tokens(), len);
    }

    /// Sets the count to the tokens that the model counted in the next request, which has `len`
    /// messages of the history. With `None`, the model did not count and is not asked again for
    /// this history.
    pub(super) fn count(&mut self, tokens: Option<u64>, len: usize) {
        self.is_uncountable = tokens.is_none();
        self.set(tokens.unwrap_or_default(), len);
    }

    /// Allows counts again, because another model is used from now on.
    pub(super) fn change_model(&mut self) {
        self.is_uncountable = false;
    }

    fn set(&mut self, tokens: u64, len: usize) {
        if tokens > 0 {
            self.tokens = tokens;
            self.counted_len = len;
            self.reported_tokens = tokens;
        }
    }

    /// Returns `true` if the provider has reported a count, which includes system prompt and tools.
    pub(super) fn is_reported(&self) -> bool {
        self.reported_tokens > 0
    }

    /// Returns `true` if a count by the model could differ much from [`tokens`](Self::tokens): more
    /// than a tenth of them is estimated. A model that did not count is not asked again.
    pub(super) fn is_worth_counting(&self) -> bool {
        let reported_tenths = self.reported_tokens.saturating_mul(10);
        !self.is_uncountable && reported_tenths < self.tokens.saturating_mul(9)
    }

    /// Returns the likely minimum and maximum of the exact number of tokens. `total` is the
    /// reported number plus the estimated one; the exact number of the estimated tokens may be a
    /// fifth lower or a quarter higher.
    pub(super) fn range(&self, total: u64) -> (u64, u64) {
        let estimated_tokens = total.saturating_sub(self.reported_tokens);
        let low = total.saturating_sub(estimated_tokens / 5);
        (low, total.saturating_add(estimated_tokens / 4))
    }
}
