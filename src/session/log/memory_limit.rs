//! The limit of the memory that a session takes.

use std::sync::Arc;

use crate::error::{Error, ErrorKind};

use super::shared::place_phrase;

/// The minimum limit, in bytes: short logs take more memory than their bytes.
const MIN_MEMORY: u64 = 16 * 1024 * 1024;

/// Returns the maximum memory of a session whose log may have `max_log_bytes`: a third of that, so
/// that a process stays below 200 MB by default, even while its allocator retains what an earlier
/// load freed.
pub(super) fn max_memory(max_log_bytes: u64) -> usize {
    usize::try_from((max_log_bytes / 3).max(MIN_MEMORY)).unwrap_or(usize::MAX)
}

/// Returns the maximum memory of a session that is written: its estimate may be a little higher
/// when it is read again.
pub(super) fn max_written(max_memory: usize) -> usize {
    max_memory - max_memory / 16
}

/// Returns the maximum length of a snapshot's line, in bytes.
pub(super) fn max_snapshot(max_memory: usize) -> usize {
    max_memory / 3
}

/// Returns the maximum number of bytes of a log that are read at once: a snapshot, and as much
/// after it. They are in memory in addition to the session.
pub(super) fn max_tail(max_memory: usize) -> usize {
    2 * max_snapshot(max_memory)
}

/// The maximum memory that reading a session may take, as estimated.
#[derive(Clone, Debug)]
pub(super) struct MemoryLimit {
    bytes: usize,
    /// The session and the place of its log, for the error.
    log: Arc<str>,
    /// The advice to raise the option that sets the limit, for the error.
    advice: Arc<str>,
}

impl MemoryLimit {
    /// Creates a limit that nothing exceeds.
    pub(super) fn none() -> Self {
        Self {
            bytes: usize::MAX,
            log: Arc::from(""),
            advice: Arc::from(""),
        }
    }

    /// Creates the limit of a session whose log may have `max_log_bytes`. `option` is the name of
    /// the setting, for the error.
    pub(super) fn new(id: &str, place: Option<&str>, max_log_bytes: u64, option: &str) -> Self {
        let place = place_phrase(place);
        Self {
            bytes: max_memory(max_log_bytes),
            log: format!("session {id:?}{place}").into(),
            advice: format!("raise {option}, which is {max_log_bytes}, or begin another session")
                .into(),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the limit of a session that is written.
    pub(super) fn for_writes(&self) -> Self {
        Self {
            bytes: max_written(self.bytes),
            ..self.clone()
        }
    }

    /// Returns the error of a session that exceeds the limit.
    pub(super) fn error(&self) -> Error {
        let Self { bytes, log, advice } = self;
        let text = format!(
            "{log} takes more than {bytes} bytes of memory as estimated from its text; it was left \
             untouched, {advice}"
        );
        Error::new(ErrorKind::Io, text)
    }
}
