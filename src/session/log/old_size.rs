//! The search for sessions that were last written long ago.

use std::time::Duration;

use crate::error::{ErrorKind, Result};
use crate::util::Cancellation;

use super::clock::system_time;
use super::fold::LogFold;
use super::log::Log;
use super::shared::LogShared;

impl<L: Log> LogShared<L> {
    /// Returns the size of the log of a session whose last write is older than `age`. Returns
    /// `None` if it is not, or if the session cannot be read.
    pub(super) fn old_size(
        &self,
        id: &str,
        age: Duration,
        cancellation: &Cancellation,
    ) -> Result<Option<u64>> {
        if !self.is_older(id, age, cancellation)? {
            return Ok(None);
        }

        // Lists read only the end of a log; before a removal, all of it is read.
        let outcome = self.log.tail(id, 1).and_then(|tail| {
            let scan = self.read_whole(id, cancellation, LogFold::new(id))?;
            Ok(tail.zip(scan))
        });
        match outcome {
            // It may have been written since the look at its end. Where parts of a log are missing,
            // fewer bytes were read than a removal counts.
            Ok(log) => Ok(log
                .filter(|(_, scan)| is_older_than(scan.fold.updated, age))
                .map(|(tail, _)| tail.size)),
            // A session that cannot be read stays: it is of a newer version, over a limit, or
            // another process has removed or shortened it meanwhile.
            Err(error) => match error.kind() {
                ErrorKind::VersionTooNew
                | ErrorKind::Corrupt
                | ErrorKind::Io
                | ErrorKind::Conflict => Ok(None),
                _ => Err(error),
            },
        }
    }
}

/// Returns `true` if the time of a record is at least `age` before now.
fn is_older_than(at: u64, age: Duration) -> bool {
    let elapsed = system_time(at).and_then(|time| time.elapsed().ok());
    elapsed.is_some_and(|elapsed| elapsed >= age)
}
