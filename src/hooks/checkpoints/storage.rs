//! The storage of the records of all sessions.

use std::ops::Range;
#[cfg(unix)]
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};

#[cfg(unix)]
use super::folder_storage::FolderStorage;
use super::index::SessionIndex;
use super::limits::Limits;
use super::memory_storage::MemoryStorage;
use super::record::{self, ChangeRecord, PriorState, ReadRecord};
#[cfg(unix)]
use super::record::{Fault, Torn};

/// The storage of the records of all sessions. Every method may block.
pub(super) enum Storage {
    Memory(MemoryStorage),
    #[cfg(unix)]
    Folder(FolderStorage),
}

/// A record to store, and its content.
pub(super) struct RecordWrite<'a> {
    pub(super) session: &'a str,
    pub(super) record: ChangeRecord,
    pub(super) content: &'a [u8],
    /// True if the record must be on the disk before the change is made.
    pub(super) is_durable: bool,
    pub(super) limits: &'a Limits,
}

impl Storage {
    /// Updates the index from the stored records. A record whose end is missing is reported as the
    /// damage of the index, and as a warning in the log.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Corrupt`] if the records are damaged, and [`ErrorKind::VersionTooNew`]
    /// if a newer version of this crate wrote them.
    pub(super) fn update(&self, session: &str, index: &mut SessionIndex) -> Result<()> {
        match self {
            Self::Memory(_) => Ok(()),
            #[cfg(unix)]
            Self::Folder(storage) => storage.update(session, index),
        }
    }

    /// Returns the reason why content of `len` bytes cannot be added to the `session_bytes` of a
    /// session, or `None` if it can. Another capture may take the room before this one is written.
    pub(super) fn refusal(
        &self,
        session_bytes: u64,
        len: u64,
        limits: &Limits,
    ) -> Result<Option<String>> {
        let refusal = limits.refuse_for_session(session_bytes, len);
        if refusal.is_some() {
            return Ok(refusal);
        }
        match self {
            Self::Memory(storage) => Ok(storage.refusal(len)),
            #[cfg(unix)]
            Self::Folder(storage) => storage.refusal(len, limits),
        }
    }

    /// Adds a record. The content is omitted if it would exceed a limit.
    pub(super) fn write(&self, index: &mut SessionIndex, write: RecordWrite<'_>) -> Result<()> {
        #[cfg(not(unix))]
        let _ = write.is_durable;
        match self {
            Self::Memory(storage) => storage.write(index, write),
            #[cfg(unix)]
            Self::Folder(storage) => storage.write(index, write),
        }
    }

    /// Reads `len` bytes of a session's records from the offset `at`.
    pub(super) fn content(&self, session: &str, at: u64, len: u64) -> Result<Vec<u8>> {
        match self {
            Self::Memory(storage) => storage.content(session, at, len),
            #[cfg(unix)]
            Self::Folder(storage) => storage.content(session, at, len),
        }
    }

    /// Copies parts of a session's records to a session that has none.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Conflict`] if `to` has records, and [`ErrorKind::Config`] if there is
    /// no room for the copy.
    pub(super) fn copy(
        &self,
        from: &str,
        parts: &[Range<u64>],
        to: &str,
        limits: &Limits,
    ) -> Result<()> {
        let size = parts.iter().map(|part| part.end - part.start).sum();
        #[cfg(not(unix))]
        let _ = limits;
        match self {
            Self::Memory(storage) => storage.copy(from, parts, size, to),
            #[cfg(unix)]
            Self::Folder(storage) => storage.copy(from, parts, size, to, limits),
        }
    }

    /// Removes the records of a session. Returns `false` if there were none.
    pub(super) fn remove(&self, session: &str) -> Result<bool> {
        match self {
            Self::Memory(storage) => Ok(storage.remove(session)),
            #[cfg(unix)]
            Self::Folder(storage) => storage.remove(session),
        }
    }

    /// Returns the sessions that have records, each with the time since its last record was added,
    /// if that is known.
    pub(super) fn sessions(&self) -> Result<Vec<(Arc<str>, Option<Duration>)>> {
        match self {
            Self::Memory(storage) => Ok(storage.sessions()),
            #[cfg(unix)]
            Self::Folder(storage) => storage.sessions(),
        }
    }

    /// Builds an index from the readable records.
    pub(super) fn build_index(&self, session: &str, workspace: Arc<str>) -> Result<SessionIndex> {
        let mut index = SessionIndex::new(workspace);
        match self {
            Self::Memory(storage) => storage.load(session, &mut index)?,
            #[cfg(unix)]
            Self::Folder(storage) => storage.load(session, &mut index)?,
        }

        Ok(index)
    }
}

/// A record that is about to be stored.
pub(super) struct NewRecord<'a> {
    record: ChangeRecord,
    pub(super) line: Vec<u8>,
    pub(super) content: &'a [u8],
}

impl<'a> NewRecord<'a> {
    /// Creates the record with its content, unless that is refused.
    pub(super) fn new(
        mut record: ChangeRecord,
        content: &'a [u8],
        refusal: Option<String>,
    ) -> Result<Self> {
        let refusal = refusal.filter(|_| !content.is_empty());
        let content = if refusal.is_some() { &[][..] } else { content };
        if let Some(reason) = refusal {
            record.before = Some(PriorState::NotStored(reason));
            record.len = 0;
        }
        let line = record::line(&record)?;
        Ok(Self {
            record,
            line,
            content,
        })
    }

    pub(super) fn parts(&self) -> [&[u8]; 3] {
        [&self.line, self.content, b"\n"]
    }

    /// Returns the record as it would be read from offset `start`.
    pub(super) fn at(self, start: u64) -> ReadRecord {
        let content_offset = start + self.line.len() as u64;
        ReadRecord {
            record: self.record,
            start,
            content_offset,
            end: content_offset + self.content.len() as u64 + 1,
        }
    }
}

pub(super) fn already_exists(session: &str) -> Error {
    let text = format!("session {session:?} has checkpoints already");
    Error::new(ErrorKind::Conflict, text)
}

pub(super) fn no_room(reason: &str) -> Error {
    Error::new(
        ErrorKind::Config,
        format!("the copy was not made: {reason}"),
    )
}

#[cfg(unix)]
pub(super) fn unreadable(session: &str, path: &Path, fault: &Fault) -> Error {
    let path = path.display();
    match fault {
        Fault::TooNew(version) => Error::new(
            ErrorKind::VersionTooNew,
            format!(
                "the checkpoints of session {session:?} in {path} have the format {version}, which \
                 is newer; update this program, or move the file away to begin new ones"
            ),
        ),
        Fault::Torn(Torn { len, .. }) | Fault::Damaged(len) => Error::new(
            ErrorKind::Corrupt,
            format!(
                "the checkpoints of session {session:?} are damaged: the last {len} bytes of {path} \
                 cannot be read; put a copy of the file in its place, or move it away to begin new \
                 ones, as the next change of a file does"
            ),
        ),
    }
}
