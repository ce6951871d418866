//! Moments that durations from outside lead to.

use std::time::Duration;

use tokio::time::Instant;

/// A time that represents never where a clock cannot represent so late a moment.
pub(crate) const NEVER: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// Returns the moment this much later; thirty years later if that is beyond the clock's range.
pub(crate) fn later(at: Instant, wait: Duration) -> Instant {
    at.checked_add(wait).unwrap_or_else(|| at + NEVER)
}
