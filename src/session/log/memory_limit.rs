//! The limit of the memory that a session takes.

use std::sync::Arc;

use crate::error::{Error, ErrorKind};

/// The least limit: short logs take more memory than their bytes.
const LEAST: u64 = 16 * 1024 * 1024;

/// The most memory that reading a session may take, as estimated.
#[derive(Clone, Debug)]
pub(super) struct MemoryLimit {
    bytes: usize,
    /// The log and the option that sets the limit, for the error.
    log: Arc<str>,
    advice: Arc<str>,
}

impl MemoryLimit {
    /// No limit.
    pub(super) fn none() -> Self {
        Self {
            bytes: usize::MAX,
            log: Arc::from(""),
            advice: Arc::from(""),
        }
    }

    /// The limit of a session whose log may have `max_log_bytes`: half of them, so that a process
    /// stays below 200 MB by default, with the line that is read and a snapshot that is written.
    pub(super) fn new(id: &str, place: Option<&str>, max_log_bytes: u64, option: &str) -> Self {
        let place = place.map_or(String::new(), |place| format!(" in {place}"));
        let bytes = (max_log_bytes / 2).max(LEAST);
        Self {
            bytes: usize::try_from(bytes).unwrap_or(usize::MAX),
            log: format!("session {id:?}{place}").into(),
            advice: format!("raise {option}, which is {max_log_bytes}, or begin another session")
                .into(),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The most bytes of the line of a snapshot.
    pub(super) fn max_snapshot(&self) -> usize {
        self.bytes / 4
    }

    /// The limit where something else takes so many of the bytes.
    pub(super) fn beside(&self, bytes: usize) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(bytes),
            ..self.clone()
        }
    }

    /// The limit of what is written: what is read again may be estimated a little higher.
    pub(super) fn for_writes(&self) -> Self {
        self.beside(self.bytes / 16)
    }

    /// The error of a session that takes more.
    pub(super) fn error(&self) -> Error {
        let Self { bytes, log, advice } = self;
        let text = format!(
            "{log} takes more than {bytes} bytes of memory as estimated from its text; it was left \
             untouched, {advice}"
        );
        Error::new(ErrorKind::Io, text)
    }
}
