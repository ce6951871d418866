//! The times and tokens of the writes of a store.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The clock and the token counter shared by all sessions of a store.
#[derive(Debug, Default)]
pub(super) struct Clock {
    /// The newest time that was returned, in milliseconds since the Unix epoch.
    last_time: AtomicU64,
    /// The newest fencing token.
    last_token: AtomicU64,
}

impl Clock {
    /// Returns a time, at least `after`. Unless `after` is in the future, no other write of this
    /// store has the same time, so that lists have an order.
    pub(super) fn next_time(&self, after: u64) -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX));
        let next = |last: u64| now.max(last.saturating_add(1));
        let last = self
            .last_time
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |last| Some(next(last)));
        // A session with a time in the future must not move the times of the others.
        last.map_or(now, next).max(after)
    }

    /// Returns a token greater than `after` and than all that were returned before.
    pub(super) fn next_token(&self, after: u64) -> u64 {
        let next = |last: u64| last.max(after).saturating_add(1);
        let last = self
            .last_token
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |last| Some(next(last)));
        last.map_or(after, next)
    }
}

/// Returns the time of a record; `None` if this system's clock cannot represent it.
pub(super) fn system_time(at: u64) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_millis(at))
}
