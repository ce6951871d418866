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
use super::record::{self, ChangeRecord, ReadRecord, scan};
#[cfg(unix)]
use super::record::{Fault, Torn};

/// The most bytes of records in memory, of all sessions together.
pub(super) const MAX_MEMORY: usize = 32 * 1024 * 1024;

/// A larger record does not double the memory of those before it.
const LARGE: usize = 1024 * 1024;

/// Every method may block.
pub(super) enum Storage {
    Memory(Mutex<BTreeMap<String, Vec<u8>>>),
    #[cfg(unix)]
    Folder(Folder),
}

impl Storage {
    /// Updates the index from the stored records. One whose end is missing becomes the damage of
    /// the index, and a warning in the log.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Corrupt`] and [`ErrorKind::VersionTooNew`].
    pub(super) fn read(&self, session: &str, index: &mut SessionIndex) -> Result<()> {
        match self {
            Self::Memory(_) => Ok(()),
            #[cfg(unix)]
            Self::Folder(folder) => {
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

    /// Returns `true` if content of `size` bytes may be added.
    pub(super) fn has_room(&self, size: u64) -> bool {
        match self {
            Self::Memory(logs) => {
                let used = lock(logs).values().map(Vec::len).sum::<usize>();
                size.saturating_add(used as u64) <= MAX_MEMORY as u64
            }
            #[cfg(unix)]
            Self::Folder(_) => true,
        }
    }

    /// Adds a record, durably if `durable` is set, or returns an error.
    pub(super) fn write(
        &self,
        session: &str,
        index: &mut SessionIndex,
        record: ChangeRecord,
        content: &[u8],
        durable: bool,
    ) -> Result<()> {
        let (bytes, content_offset) = record::write(&record, content)?;
        index.check_room(content_offset as u64)?;
        let start = match self {
            Self::Memory(logs) => {
                let mut logs = lock(logs);
                let log = logs.entry(session.to_owned()).or_default();
                if bytes.len() > LARGE {
                    log.reserve_exact(bytes.len());
                }

                log.extend_from_slice(&bytes);
                (log.len() - bytes.len()) as u64
            }
            #[cfg(unix)]
            Self::Folder(folder) => folder.append(session, index, &bytes, durable)?,
        };

        #[cfg(not(unix))]
        let _ = durable;
        index.push(ReadRecord {
            record,
            start,
            content_offset: start + content_offset as u64,
            end: start + bytes.len() as u64,
        });

        Ok(())
    }

    /// A part of a session's records.
    pub(super) fn content(&self, session: &str, at: u64, len: u64) -> Result<Vec<u8>> {
        match self {
            Self::Memory(logs) => {
                let logs = lock(logs);
                let range = usize::try_from(at).ok().zip(usize::try_from(len).ok());
                let part = range.and_then(|(at, len)| logs.get(session)?.get(at..at + len));
                Ok(part
                    .ok_or(io::ErrorKind::UnexpectedEof)
                    .map_err(io::Error::from)?
                    .to_vec())
            }
            #[cfg(unix)]
            Self::Folder(folder) => folder.content(session, at, len),
        }
    }

    /// Copies parts of a session's records to a session that has none.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Conflict`] when it has some, and [`ErrorKind::Config`] when memory has no room
    /// for the copy.
    pub(super) fn copy(&self, from: &str, parts: &[Range<u64>], to: &str) -> Result<()> {
        match self {
            Self::Memory(logs) => {
                let size = parts.iter().map(|part| part.end - part.start).sum();
                if !self.has_room(size) {
                    return Err(no_room(size));
                }

                let mut bytes = Vec::new();
                for part in parts {
                    bytes.extend(self.content(from, part.start, part.end - part.start)?);
                }

                let mut logs = lock(logs);
                if logs.contains_key(to) {
                    return Err(already_exists(to));
                }

                logs.insert(to.to_owned(), bytes);
                Ok(())
            }
            #[cfg(unix)]
            Self::Folder(folder) => folder.copy(from, parts, to),
        }
    }

    /// False when there were none.
    pub(super) fn remove(&self, session: &str) -> Result<bool> {
        match self {
            Self::Memory(logs) => Ok(lock(logs).remove(session).is_some()),
            #[cfg(unix)]
            Self::Folder(folder) => folder.remove(session),
        }
    }

    /// The sessions that have records, and for how long none was added, where that is known.
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
            Self::Folder(folder) => folder.sessions(),
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
            Self::Folder(folder) => {
                folder.read(session, &mut index)?;
            }
        }

        Ok(index)
    }
}

pub(super) fn already_exists(session: &str) -> Error {
    let text = format!("session {session:?} has checkpoints already");
    Error::new(ErrorKind::Conflict, text)
}

fn no_room(size: u64) -> Error {
    let text = format!(
        "the copy has {size} bytes, and checkpoints in memory take at most {MAX_MEMORY}; \
         FileCheckpoints::open keeps them in a folder"
    );
    Error::new(ErrorKind::Config, text)
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
