//! The file of a session that this process may write.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::session::files::{LockFile, check_own, failed};
use crate::state::taken_over;

use super::disk::Disk;

/// A session's file, which nobody else may write.
pub(super) struct SessionFile {
    disk: Arc<dyn Disk>,
    lock: LockFile,
    id: String,
    /// How much of the file has been acknowledged.
    len: u64,
    /// Whether the last line has no end.
    open_line: bool,
    /// Whether what is in the file is no longer known.
    broken: bool,
}

impl SessionFile {
    /// Opens, or makes, and locks the file, and reads it.
    pub(super) fn open(disk: Arc<dyn Disk>, path: &Path, id: &str) -> Result<(Self, Vec<u8>)> {
        let mut lock = LockFile::take(path, id)?;
        let mut bytes = Vec::new();
        lock.file
            .read_to_end(&mut bytes)
            .map_err(|error| failed("read", &lock.path, error))?;
        let own = Self {
            disk,
            lock,
            id: id.to_owned(),
            len: bytes.len() as u64,
            open_line: bytes.last().is_some_and(|last| *last != b'\n'),
            broken: false,
        };
        Ok((own, bytes))
    }

    pub(super) fn path(&self) -> &Path {
        &self.lock.path
    }

    /// Cuts off what stands behind `end`, where a line of `bytes` ends.
    pub(super) fn cut(&mut self, bytes: &[u8], end: u64) -> Result<()> {
        let cut = self.disk.cut(&self.lock.file, end);
        cut.and_then(|()| self.disk.sync(&self.lock.file))
            .map_err(|error| failed("repair", &self.lock.path, error))?;
        self.len = end;
        let last = usize::try_from(end)
            .ok()
            .and_then(|end| bytes.get(end.wrapping_sub(1)));
        self.open_line = last.is_some_and(|last| *last != b'\n');
        Ok(())
    }

    /// Adds bytes at the end; all of them are durable, or none of them is there.
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<()> {
        if self.broken {
            return Err(Error::new(
                ErrorKind::Io,
                format!(
                    "session file {} was not written: an earlier write failed and could not be \
                     undone; run the session again to read it anew",
                    self.lock.path.display()
                ),
            ));
        }
        let found = self.lock.file.metadata().map(|metadata| metadata.len());
        let found = found.map_err(|error| failed("look at", &self.lock.path, error))?;
        if found != self.len {
            // A lock does not hold everywhere (network file systems) nor against everybody.
            self.broken = true;
            return Err(taken_over(&self.id));
        }
        let end: &[u8] = if self.open_line { b"\n" } else { b"" };
        let written = self.write_all(end).and_then(|()| self.write_all(bytes));
        if let Err(error) = written {
            self.undo();
            return Err(failed("write", &self.lock.path, error));
        }
        let mut synced = self.disk.sync(&self.lock.file);
        if self.len == 0 && synced.is_ok() {
            synced = match self.lock.path.parent() {
                Some(folder) => self.disk.sync_folder(folder),
                None => Ok(()),
            };
        }
        if let Err(error) = synced {
            // What a disk that failed to sync has kept, nobody knows before it is read again.
            self.undo();
            self.broken = true;
            return Err(failed("write", &self.lock.path, error));
        }
        self.len += (end.len() + bytes.len()) as u64;
        self.open_line = false;
        Ok(())
    }

    fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.disk.write(&mut self.lock.file, bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => bytes = &bytes[written.min(bytes.len())..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Takes back what of a write is there.
    fn undo(&mut self) {
        let cut = self.disk.cut(&self.lock.file, self.len);
        if cut.and_then(|()| self.disk.sync(&self.lock.file)).is_err() {
            self.broken = true;
        }
    }
}

/// Removes the file; false when there was none, or not of this `size`.
pub(super) fn remove(path: &Path, id: &str, size: Option<u64>) -> Result<bool> {
    let Some(held) = LockFile::find(path, id)? else {
        return Ok(false);
    };
    let found = held.file.metadata();
    let len = found.map_err(|error| failed("remove", path, error))?.len();
    if size.is_some_and(|size| size != len) {
        return Ok(false);
    }
    match fs::remove_file(path) {
        Ok(()) => Ok(len > 0),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(failed("remove", path, error)),
    }
}

/// The whole file; `None` when there is none, or nothing in it.
pub(super) fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    Ok(tail(path, u64::MAX)?.map(|(bytes, _)| bytes))
}

/// The last `len` bytes of the file and its size; `None` when there is none or it is empty.
pub(super) fn tail(path: &Path, len: u64) -> Result<Option<(Vec<u8>, u64)>> {
    check_own(path)?;
    let read = || {
        let mut file = File::open(path)?;
        let size = file.metadata()?.len();
        file.seek(SeekFrom::Start(size.saturating_sub(len)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        io::Result::Ok((bytes, size))
    };
    match read() {
        Ok((bytes, _)) if bytes.is_empty() => Ok(None),
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("read", path, error)),
    }
}
