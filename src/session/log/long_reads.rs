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
        loop {
            check_not_cancelled(cancellation)?;
            match self.0.try_lock() {
                Ok(turn) => return Ok(turn),
                Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => sleep(POLL_INTERVAL),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn wait_for_a_turn_ends_when_it_is_cancelled() {
        let long_reads = LongReads::default();
        let cancellation = Cancellation::default();
        let turn = long_reads.wait(&cancellation).unwrap();
        thread::scope(|scope| {
            let waiter = scope.spawn(|| long_reads.wait(&cancellation).map(drop));
            cancellation.cancel();
            let error = waiter.join().unwrap().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Cancelled);
        });
        drop(turn);
        assert!(long_reads.wait(&Cancellation::default()).is_ok());
    }
}
