//! The turns in which lists read long parts of logs.

use std::sync::{Mutex, MutexGuard, TryLockError};
use std::thread::sleep;
use std::time::Duration;

use crate::error::Result;
use crate::util::Cancellation;

use super::list::check_not_cancelled;

/// The number of bytes of a log that may be read without a turn.
pub(super) const SHORT_READ: u64 = 1024 * 1024;

/// The interval at which a waiting read checks for its turn and for cancellation.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The turns of the lists of a store: one list at a time has a long part of a log in memory, which
/// may be as long as the longest record.
///
/// A list that is dropped keeps its turn until the present call of the log returns:
/// [`Log::tail`](super::log::Log::tail) takes no cancellation.
#[derive(Default)]
pub(super) struct LongReads(Mutex<()>);

impl LongReads {
    /// Waits for a turn, which ends when the guard is dropped. Blocks this thread. The work of a
    /// turn must not wait for another turn.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled) once `cancellation` is
    /// cancelled.
    pub(super) fn wait(&self, cancellation: &Cancellation) -> Result<MutexGuard<'_, ()>> {
        self.wait_with(cancellation, || sleep(POLL_INTERVAL))
    }

    /// Waits like [`wait`](Self::wait), with a `pause` between two checks.
    fn wait_with(
        &self,
        cancellation: &Cancellation,
        mut pause: impl FnMut(),
    ) -> Result<MutexGuard<'_, ()>> {
        loop {
            check_not_cancelled(cancellation)?;
            match self.0.try_lock() {
                Ok(turn) => return Ok(turn),
                Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => pause(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn wait_ends_with_the_other_turn_or_when_it_is_cancelled() {
        let long_reads = LongReads::default();
        let cancellation = Cancellation::default();
        let mut other_turn = Some(long_reads.wait(&cancellation).unwrap());
        let outcome = long_reads.wait_with(&cancellation, || drop(other_turn.take()));
        let _turn = outcome.unwrap();

        let outcome = long_reads.wait_with(&cancellation, || cancellation.cancel());
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Cancelled);
    }
}
