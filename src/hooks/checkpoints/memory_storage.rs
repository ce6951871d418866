//! The records of sessions in memory.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Cursor};
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::util::sync::lock;

use super::index::SessionIndex;
use super::record::scan;
use super::storage::{NewRecord, RecordWrite, already_exists, no_room};

/// The size of all records in memory together, in bytes, beyond which records get no contents of
/// files.
const MAX_MEMORY: usize = 32 * 1024 * 1024;
/// The maximum size of all records in memory together, in bytes.
const MAX_RECORDS_MEMORY: usize = 2 * MAX_MEMORY;

/// The size in bytes above which memory is reserved for a record exactly, so that the log does not
/// double.
const LARGE: usize = 1024 * 1024;

/// The bytes of the records of each session.
type Logs = BTreeMap<String, Vec<u8>>;

/// The storage of checkpoints without a folder.
#[derive(Default)]
pub(super) struct MemoryStorage(Mutex<Logs>);

impl MemoryStorage {
    /// Adds the readable records to an index.
    pub(super) fn load(&self, session: &str, index: &mut SessionIndex) -> Result<()> {
        let bytes = lock(&self.0).get(session).cloned().unwrap_or_default();
        scan(BufReader::new(Cursor::new(bytes)), |read_record| {
            index.add(read_record)
        })?;
        Ok(())
    }

    /// Returns the reason why content of `len` bytes cannot be added, or `None` if it can.
    pub(super) fn refusal(&self, len: u64) -> Option<String> {
        refuse_content(memory_of(&lock(&self.0)), len)
    }

    /// Adds a record.
    pub(super) fn write(&self, index: &mut SessionIndex, write: RecordWrite<'_>) -> Result<()> {
        let RecordWrite {
            session,
            record,
            content,
            limits,
            ..
        } = write;
        let mut logs = lock(&self.0);
        let content_len = content.len() as u64;
        let used = memory_of(&logs);
        let start = logs.get(session).map_or(0, Vec::len) as u64;
        let refusal = limits
            .refuse_for_session(start, content_len)
            .or_else(|| refuse_content(used, content_len));
        let new_record = NewRecord::new(record, content, refusal)?;
        index.check_room(new_record.line.len() as u64)?;
        if used.saturating_add(new_record.line.len()) > MAX_RECORDS_MEMORY {
            return Err(no_room_for_records());
        }

        let log = logs.entry(session.to_owned()).or_default();
        if new_record.content.len() > LARGE {
            log.reserve_exact(new_record.line.len() + new_record.content.len() + 1);
        }
        for part in new_record.parts() {
            log.extend_from_slice(part);
        }
        index.push(new_record.at(start));
        Ok(())
    }

    /// Reads `len` bytes of a session's records from the offset `at`.
    pub(super) fn content(&self, session: &str, at: u64, len: u64) -> Result<Vec<u8>> {
        let logs = lock(&self.0);
        let part = at..at.saturating_add(len);
        Ok(part_of(&logs, session, part)?.to_vec())
    }

    /// Copies parts of the records of `from`, `size` bytes in all, to the new session `to`.
    pub(super) fn copy(&self, from: &str, parts: &[Range<u64>], size: u64, to: &str) -> Result<()> {
        let mut logs = lock(&self.0);
        if logs.contains_key(to) {
            return Err(already_exists(to));
        }
        if let Some(refusal) = refuse_content(memory_of(&logs), size) {
            return Err(no_room(&refusal));
        }

        let mut bytes = Vec::new();
        for part in parts {
            bytes.extend_from_slice(part_of(&logs, from, part.clone())?);
        }
        logs.insert(to.to_owned(), bytes);
        Ok(())
    }

    /// Removes the records of a session. Returns `false` if there were none.
    pub(super) fn remove(&self, session: &str) -> bool {
        lock(&self.0).remove(session).is_some()
    }

    /// Returns the sessions that have records. The times of the records are not known.
    pub(super) fn sessions(&self) -> Vec<(Arc<str>, Option<Duration>)> {
        lock(&self.0)
            .keys()
            .map(|name| (name.as_str().into(), None))
            .collect()
    }
}

fn memory_of(logs: &Logs) -> usize {
    logs.values().map(Vec::len).sum()
}

/// Returns a part of a session's records.
fn part_of<'a>(logs: &'a Logs, session: &str, part: Range<u64>) -> io::Result<&'a [u8]> {
    let start = usize::try_from(part.start).ok();
    let range = start.zip(usize::try_from(part.end).ok());
    let part = range.and_then(|(start, end)| logs.get(session)?.get(start..end));
    part.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

/// Returns the reason why content of `len` bytes cannot be added to the `used` bytes in memory.
fn refuse_content(used: usize, len: u64) -> Option<String> {
    (len.saturating_add(used as u64) > MAX_MEMORY as u64).then(|| {
        format!(
            "it had {len} bytes, and checkpoints in memory take at most {MAX_MEMORY}; \
             FileCheckpoints::open keeps them in a folder"
        )
    })
}

fn no_room_for_records() -> Error {
    let text = format!(
        "the records of changes in memory take at most {MAX_RECORDS_MEMORY} bytes; remove \
         checkpoints of sessions, or keep them in a folder with FileCheckpoints::open"
    );
    Error::new(ErrorKind::Config, text)
}
