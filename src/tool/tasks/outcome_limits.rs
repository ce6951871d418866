//! The limits of the outcomes of background tasks.

use std::ops::RangeInclusive;

use crate::util::blocking::blocking_if_large;
use crate::util::byte_pool::PoolShare;
use crate::util::json_size::escaped_len;
use crate::util::secret::redact_text;
use crate::util::text::cut_bytes;

use super::entry::TaskOutcome;

/// The limits of the texts of a run's outcomes.
#[derive(Debug)]
pub(super) struct OutcomeLimits {
    /// The limit of one outcome in bytes: the minimum, if the pool is full, and the maximum.
    bytes: RangeInclusive<usize>,
    /// The memory of the outcomes that are not in the history yet.
    share: PoolShare,
    used: usize,
}

impl OutcomeLimits {
    pub(super) fn new(bytes: RangeInclusive<usize>, share: PoolShare) -> Self {
        Self {
            bytes,
            share,
            used: 0,
        }
    }

    /// Returns the limit of the next outcome. A quarter of the pool is left for responses.
    pub(super) fn max_bytes(&self) -> usize {
        let pool = self.share.pool();
        let room = (pool.max_bytes() / 4 * 3).saturating_sub(pool.used());
        room.min(*self.bytes.end()).max(*self.bytes.start())
    }

    /// Counts an outcome until it is in the history.
    pub(super) fn add(&mut self, outcome: &TaskOutcome) {
        let size = outcome.text().map_or(0, escaped_len);
        self.used = self.used.saturating_add(size);
        self.share.set(self.used);
    }

    /// Returns the size of the outcomes that are not in the history yet, in bytes.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// Subtracts `bytes` of outcomes that are now in the history.
    pub(super) fn release(&mut self, bytes: usize) {
        self.used = self.used.saturating_sub(bytes);
        self.share.set(self.used);
    }
}

/// Returns the outcome with its text redacted and cut to `max_bytes`.
pub(super) async fn cleaned(outcome: TaskOutcome, max_bytes: Option<usize>) -> TaskOutcome {
    let len = outcome.text().map_or(0, str::len);
    blocking_if_large(len, move || clean(outcome, max_bytes))
        .await
        .unwrap_or_else(|error| TaskOutcome::Failed(error.to_string()))
}

fn clean(mut outcome: TaskOutcome, max_bytes: Option<usize>) -> TaskOutcome {
    if let TaskOutcome::Completed(text) | TaskOutcome::Failed(text) = &mut outcome {
        // Redacted before the cut, which could leave a part of a key.
        redact_text(text);
        if let Some(max_bytes) = max_bytes {
            let size = escaped_len(text);
            cut_bytes(text, size, max_bytes, max_bytes);
        }
    }

    outcome
}
