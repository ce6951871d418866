//! The bound on the work of a statement.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::Connection;

/// The maximum number of steps of SQLite's virtual machine in one call of the store. It takes about
/// a hundred million per second.
const MAX_STEPS: u64 = 500_000_000;

/// The number of steps between two looks at the bound.
const INTERVAL: u16 = 1_000;

/// The steps that the current call of a connection may still make.
#[derive(Clone)]
pub(super) struct Steps {
    remaining: Arc<AtomicU64>,
    max: u64,
}

impl Steps {
    /// Bounds the statements of a connection: a statement that exceeds the bound is interrupted.
    pub(super) fn bound(connection: &mut Connection) -> rusqlite::Result<Self> {
        let steps = Self {
            remaining: Arc::new(AtomicU64::new(MAX_STEPS)),
            max: MAX_STEPS,
        };

        let remaining = steps.remaining.clone();
        let interval = u64::from(INTERVAL);
        let is_over = move || {
            let take = |steps: u64| steps.checked_sub(interval);
            remaining
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
                .is_err()
        };

        connection.progress_handler(i32::from(INTERVAL), Some(is_over))?;
        Ok(steps)
    }

    /// Lets a statement make the fewest steps that can be bounded, until the next call begins: a
    /// look at about 140 rows.
    pub(super) fn allow_few(&self) {
        self.remaining.store(0, Ordering::Relaxed);
    }

    /// Begins the next call.
    pub(super) fn begin(&self) {
        self.remaining.store(self.max, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(super) fn set_max(&mut self, max: u64) {
        self.max = max;
    }
}
