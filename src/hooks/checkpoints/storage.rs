//! The storage of the records of all sessions.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Cursor};
use std::ops::Range;
#[cfg(unix)]
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::util::sync::lock;

#[cfg(unix)]
use super::folder::Folder;
use super::index::SessionIndex;
#[cfg(unix)]
use super::limits::FolderTotal;
use super::limits::Limits;
use super::record::{self, ChangeRecord, PriorState, ReadRecord, scan};
#[cfg(unix)]
use super::record::{Fault, Torn};

/// The size of all records in memory together, in bytes, beyond which records get no contents of
/// files.
const MAX_MEMORY: usize = 32 * 1024 * 1024;
/// The maximum size of all records in memory together, in bytes.
const MAX_RECORDS_MEMORY: usize = 2 * MAX_MEMORY;

/// The size in bytes above which memory is reserved for a record exactly, so that the log does not
/// double.
const LARGE: usize = 1024 * 1024;

/// The storage of the records of all sessions. Every method may block.
pub(super) enum Storage {
    Memory(Mutex<Logs>),
    #[cfg(unix)]
    Folder(Folder, FolderTotal),
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
    pub(super) fn read(&self, session: &str, index: &mut SessionIndex) -> Result<()> {
        match self {
            Self::Memory(_) => Ok(()),
            #[cfg(unix)]
            Self::Folder(folder, _) => {
                let previous_damage = index.damage.take();
                match folder.read(session, index)? {
                    None => Ok(()),
                    Some(Fault::Torn(torn)) => {
                        let damage = folder.describe_torn(session, &torn);
                        if previous_damage.as_deref() != Some(&*damage) {
                            tracing::warn!("{damage}");
                        }

                        index.damage = Some(damage.into());
                        Ok(())
                    }
                    Some(fault) => Err(folder.unreadable(session, &fault)),
                }
            }
        }
    }

    /// Returns the reason why content of `len` bytes cannot be added to the `session_bytes` of a
    /// session, or `None` if it can. Another capture may take the room before this one is written.
    pub(super) fn refuse(
        &self,
        session_bytes: u64,
        len: u64,
        limits: &Limits,
    ) -> Result<Option<String>> {
        let refusal = limits.refuse_for_session(session_bytes, len);
        if refusal.is_some() {
            return Ok(refusal);
        }
        Ok(match self {
            Self::Memory(logs) => refuse_for_memory(memory_of(&lock(logs)), len),
            #[cfg(unix)]
            Self::Folder(folder, total) => {
                let has_room = total.has_room(len, limits.total, || folder.size())?;
                (!has_room).then(|| limits.refuse_for_total(len))
            }
        })
    }

    /// Adds a record. The content is omitted if it would exceed a limit.
    pub(super) fn write(&self, index: &mut SessionIndex, write: RecordWrite<'_>) -> Result<()> {
        #[cfg(not(unix))]
        let _ = write.is_durable;
        match self {
            Self::Memory(logs) => write_to_memory(&mut lock(logs), index, write),
            #[cfg(unix)]
            Self::Folder(folder, total) => write_to_folder(folder, total, index, write),
        }
    }

    /// Reads `len` bytes of a session's records from the offset `at`.
    pub(super) fn content(&self, session: &str, at: u64, len: u64) -> Result<Vec<u8>> {
        match self {
            Self::Memory(logs) => {
                let logs = lock(logs);
                let part = at..at.saturating_add(len);
                Ok(part_of(&logs, session, part)?.to_vec())
            }
            #[cfg(unix)]
            Self::Folder(folder, _) => folder.content(session, at, len),
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
        match self {
            Self::Memory(logs) => {
                let mut logs = lock(logs);
                if logs.contains_key(to) {
                    return Err(already_exists(to));
                }
                if let Some(refusal) = refuse_for_memory(memory_of(&logs), size) {
                    return Err(no_room(&refusal));
                }

                let mut bytes = Vec::new();
                for part in parts {
                    bytes.extend_from_slice(part_of(&logs, from, part.clone())?);
                }
                logs.insert(to.to_owned(), bytes);
                Ok(())
            }
            #[cfg(unix)]
            Self::Folder(folder, total) => {
                let Some(_reservation) = total.reserve(size, limits.total, || folder.size())?
                else {
                    return Err(no_room(&limits.refuse_for_total(size)));
                };
                let copied = folder.copy(from, parts, to);
                if copied.is_err() {
                    total.clear();
                }
                copied
            }
        }
    }

    /// Removes the records of a session. Returns `false` if there were none.
    pub(super) fn remove(&self, session: &str) -> Result<bool> {
        match self {
            Self::Memory(logs) => Ok(lock(logs).remove(session).is_some()),
            #[cfg(unix)]
            Self::Folder(folder, total) => {
                let removed = folder.remove(session);
                total.clear();
                removed
            }
        }
    }

    /// Returns the sessions that have records, each with the time since its last record was added,
    /// if that is known.
    pub(super) fn sessions(&self) -> Result<Vec<(Arc<str>, Option<Duration>)>> {
        match self {
            Self::Memory(logs) => {
                let names = lock(logs)
                    .keys()
                    .map(|name| (name.as_str().into(), None))
                    .collect();
                Ok(names)
            }
            #[cfg(unix)]
            Self::Folder(folder, _) => folder.sessions(),
        }
    }

    /// Builds an index from the readable records.
    pub(super) fn open(&self, session: &str, workspace: Arc<str>) -> Result<SessionIndex> {
        let mut index = SessionIndex::new(workspace);
        match self {
            Self::Memory(logs) => {
                let bytes = lock(logs).get(session).cloned().unwrap_or_default();
                scan(BufReader::new(Cursor::new(bytes)), |read_record| {
                    index.add(read_record)
                })?;
            }
            #[cfg(unix)]
            Self::Folder(folder, _) => {
                folder.read(session, &mut index)?;
            }
        }

        Ok(index)
    }
}

fn write_to_memory(
    logs: &mut Logs,
    index: &mut SessionIndex,
    write: RecordWrite<'_>,
) -> Result<()> {
    let RecordWrite {
        session,
        record,
        content,
        limits,
        ..
    } = write;
    let content_len = content.len() as u64;
    let used = memory_of(logs);
    let start = logs.get(session).map_or(0, Vec::len) as u64;
    let refusal = limits
        .refuse_for_session(start, content_len)
        .or_else(|| refuse_for_memory(used, content_len));
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

#[cfg(unix)]
fn write_to_folder(
    folder: &Folder,
    total: &FolderTotal,
    index: &mut SessionIndex,
    write: RecordWrite<'_>,
) -> Result<()> {
    let RecordWrite {
        session,
        record,
        content,
        is_durable,
        limits,
    } = write;
    let content_len = content.len() as u64;
    let file = folder.open_end(session, index)?;
    let start = index.end;
    let mut refusal = limits.refuse_for_session(start, content_len);
    // Dropped when the record is written.
    let mut reservation = None;
    if refusal.is_none() && !content.is_empty() {
        reservation = total.reserve(content_len, limits.total, || folder.size())?;
        if reservation.is_none() {
            refusal = Some(limits.refuse_for_total(content_len));
        }
    }

    let new_record = NewRecord::new(record, content, refusal)?;
    index.check_room(new_record.line.len() as u64)?;
    let appended = folder.append(session, &file, start, new_record.parts(), is_durable);
    if appended.is_err() {
        total.clear();
    }
    drop(reservation);
    appended?;
    index.push(new_record.at(start));
    Ok(())
}

/// A record that is about to be stored.
struct NewRecord<'a> {
    record: ChangeRecord,
    line: Vec<u8>,
    content: &'a [u8],
}

impl<'a> NewRecord<'a> {
    /// Creates the record with its content, unless that is refused.
    fn new(mut record: ChangeRecord, content: &'a [u8], refusal: Option<String>) -> Result<Self> {
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

    fn parts(&self) -> [&[u8]; 3] {
        [&self.line, self.content, b"\n"]
    }

    /// Returns the record as it would be read from offset `start`.
    fn at(self, start: u64) -> ReadRecord {
        let content_offset = start + self.line.len() as u64;
        ReadRecord {
            record: self.record,
            start,
            content_offset,
            end: content_offset + self.content.len() as u64 + 1,
        }
    }
}

type Logs = BTreeMap<String, Vec<u8>>;

fn memory_of(logs: &Logs) -> usize {
    logs.values().map(Vec::len).sum()
}

/// Returns a part of a session's records in memory.
fn part_of<'a>(logs: &'a Logs, session: &str, part: Range<u64>) -> io::Result<&'a [u8]> {
    let start = usize::try_from(part.start).ok();
    let range = start.zip(usize::try_from(part.end).ok());
    let part = range.and_then(|(start, end)| logs.get(session)?.get(start..end));
    part.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

/// Returns the reason why content of `len` bytes cannot be added to the `used` bytes in memory.
fn refuse_for_memory(used: usize, len: u64) -> Option<String> {
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

pub(super) fn already_exists(session: &str) -> Error {
    let text = format!("session {session:?} has checkpoints already");
    Error::new(ErrorKind::Conflict, text)
}

fn no_room(reason: &str) -> Error {
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
