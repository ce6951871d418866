//! The logs that a list had to read as a whole, and what it found.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::error::{Error, ErrorKind, Result};
use crate::util::sync::lock;

use super::list::TAIL;
use super::log::LogTail;
use super::summary::LogSummary;

/// The maximum number of logs that are remembered. Beyond it, all are forgotten.
const MAX_LOGS: usize = 1_000;
/// The maximum size of what is remembered of logs, in bytes. Beyond it, all is forgotten.
const MAX_BYTES: usize = 1024 * 1024;

/// The description of a session and the time of its last write, as a list shows them.
type Summary = Option<(LogSummary, u64)>;

/// The outcomes of reading whole logs. Without them, each list would read the whole of a log whose
/// end is not readable, until the session is leased. An outcome is valid while the log has the same
/// end, because a log is only appended to.
#[derive(Default)]
pub(super) struct WholeReads(Mutex<Outcomes>);

#[derive(Default)]
struct Outcomes {
    by_id: HashMap<Arc<str>, (LogEnd, Outcome)>,
    bytes: usize,
}

enum Outcome {
    Summary(Summary),
    /// The kind and the text of an error.
    Failure(ErrorKind, String),
}

/// The end of a log, by which it is recognized: its size, and the checksum of its last bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogEnd {
    size: u64,
    crc: u32,
}

impl LogEnd {
    /// Returns the end of a log, whose last [`TAIL`] bytes are in `tail`.
    pub(super) fn of(tail: &LogTail) -> Self {
        let len = usize::try_from(TAIL).unwrap_or(usize::MAX);
        let start = tail.bytes.len().saturating_sub(len);
        Self {
            size: tail.size,
            crc: crc32fast::hash(&tail.bytes[start..]),
        }
    }
}

impl WholeReads {
    /// Returns the outcome of reading the whole log with this end, if it is known.
    pub(super) fn outcome(&self, id: &str, tail: &LogTail) -> Option<Result<Summary>> {
        let outcomes = lock(&self.0);
        let (end, outcome) = outcomes.by_id.get(id)?;
        if *end != LogEnd::of(tail) {
            return None;
        }
        Some(match outcome {
            Outcome::Summary(summary) => Ok(summary.clone()),
            Outcome::Failure(kind, text) => Err(Error::new(*kind, text.as_str())),
        })
    }

    /// Adds the outcome of reading a whole log with this end. An error that another read may not
    /// have is omitted.
    pub(super) fn add(&self, id: &str, end: LogEnd, outcome: &Result<Summary>) {
        let outcome = match outcome {
            Ok(summary) => Outcome::Summary(summary.clone()),
            Err(error) if is_lasting(error) => Outcome::Failure(error.kind(), error.to_string()),
            Err(_) => return,
        };
        let mut outcomes = lock(&self.0);
        if let Some((_, old_outcome)) = outcomes.by_id.remove(id) {
            outcomes.bytes -= id.len() + old_outcome.bytes();
        }
        outcomes.bytes = outcomes.bytes.saturating_add(id.len() + outcome.bytes());
        if outcomes.by_id.len() >= MAX_LOGS || outcomes.bytes > MAX_BYTES {
            outcomes.by_id.clear();
            outcomes.bytes = id.len() + outcome.bytes();
        }
        outcomes.by_id.insert(id.into(), (end, outcome));
    }
}

fn is_lasting(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::VersionTooNew)
}

impl Outcome {
    /// Returns the size of the texts in bytes.
    fn bytes(&self) -> usize {
        match self {
            Self::Summary(None) => 0,
            Self::Summary(Some((summary, _))) => {
                let texts = [
                    &summary.title,
                    &summary.user_id,
                    &summary.cwd,
                    &summary.parent,
                ];
                texts.into_iter().flatten().map(|text| text.len()).sum()
            }
            Self::Failure(_, text) => text.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcome_is_that_of_the_log_with_the_same_end() {
        let reads = WholeReads::default();
        let tail = LogTail::new(*b"ab", 9);
        reads.add("a", LogEnd::of(&tail), &Ok(None));
        assert!(reads.outcome("a", &tail).unwrap().unwrap().is_none());
        assert!(reads.outcome("b", &tail).is_none());
        assert!(reads.outcome("a", &LogTail::new(*b"ab", 10)).is_none());
        assert!(reads.outcome("a", &LogTail::new(*b"ac", 9)).is_none());
    }

    #[test]
    fn outcomes_are_bounded_in_number_and_size() {
        let reads = WholeReads::default();
        let tail = LogTail::new(*b"ab", 9);
        let end = LogEnd::of(&tail);
        for number in 0..2_500 {
            reads.add(&number.to_string(), end, &Ok(None));
        }
        assert_eq!(lock(&reads.0).by_id.len(), 500);
        let failure = Err(Error::new(ErrorKind::Corrupt, "x".repeat(MAX_BYTES / 2)));
        for id in ["a", "b", "c"] {
            reads.add(id, end, &failure);
        }
        assert!(lock(&reads.0).bytes <= MAX_BYTES);

        // An outcome that replaces another of its log counts once.
        reads.add("e", end, &Ok(None));
        for _ in 0..3 {
            reads.add("c", end, &failure);
        }
        assert_eq!(lock(&reads.0).by_id.len(), 2);
        let error = reads.outcome("c", &tail).unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        let failure = Err(Error::new(ErrorKind::Timeout, "later"));
        reads.add("d", end, &failure);
        assert!(reads.outcome("d", &tail).is_none());
    }
}
