//! The search for sessions that were last written long ago.

use std::time::Duration;

use crate::error::{ErrorKind, Result};
use crate::util::Cancellation;

use super::clock::system_time;
use super::fold::LogFold;
use super::list::TAIL;
use super::log::Log;
use super::shared::LogShared;
use super::whole_reads::LogEnd;

impl<L: Log> LogShared<L> {
    /// Returns the end and the size of the log of a session whose last write is older than `age`.
    /// Returns `None` if it is not, or if the session cannot be read.
    pub(super) fn old_log(
        &self,
        id: &str,
        age: Duration,
        cancellation: &Cancellation,
    ) -> Result<Option<(LogEnd, u64)>> {
        let tail = self.log.tail(id, TAIL);
        let end = tail.as_ref().ok().and_then(Option::as_ref).map(LogEnd::of);
        if !self.is_older(id, tail, age, cancellation)? {
            return Ok(None);
        }

        // Lists read only the end of a log; before a removal, all of it is read.
        let outcome = self.log.tail(id, 1).and_then(|tail| {
            // Counted as a removal counts it: where parts of a log are missing, a longer end may
            // give another size.
            let size = tail.map(|tail| tail.size);
            let scan = self.read_whole(id, cancellation, LogFold::new(id))?;
            Ok(end.zip(size).zip(scan))
        });
        match outcome {
            // It may have been written since the look at its end.
            Ok(log) => Ok(log
                .filter(|(_, scan)| is_older_than(scan.fold.updated, age))
                .map(|(log, _)| log)),
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

    /// Returns `true` if a log has this end. Reads nothing else of it.
    pub(super) fn has_end(&self, id: &str, end: LogEnd) -> Result<bool> {
        match self.log.tail(id, TAIL) {
            Ok(tail) => Ok(tail.is_some_and(|tail| LogEnd::of(&tail) == end)),
            Err(error) if self.log.concerns_one_log(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Returns `true` if the time of a record is at least `age` before now.
fn is_older_than(at: u64, age: Duration) -> bool {
    let elapsed = system_time(at).and_then(|time| time.elapsed().ok());
    elapsed.is_some_and(|elapsed| elapsed >= age)
}
