//! The file of a session that this process may write.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::state::{busy, taken_over};

use super::disk::Disk;

/// How often a file is opened again that somebody removed between opening and locking it.
const ATTEMPTS: usize = 16;

/// A session's file, locked. Dropping it lets go of it, and removes it when it is empty.
pub(super) struct SessionFile {
    disk: Arc<dyn Disk>,
    file: File,
    path: PathBuf,
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
    pub(super) fn open(disk: Arc<dyn Disk>, path: PathBuf, id: &str) -> Result<(Self, Vec<u8>)> {
        for _ in 0..ATTEMPTS {
            check_kind(&path)?;
            let file = OpenOptions::new()
                .read(true)
                .append(true)
                .create(true)
                .mode(0o600)
                .open(&path)
                .map_err(|error| failed("open", &path, error))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(busy(id)),
                Err(TryLockError::Error(error)) => return Err(failed("lock", &path, error)),
            }
            let is_there = is_at(&file, &path).map_err(|error| failed("look at", &path, error))?;
            if !is_there {
                continue;
            }
            let mut own = Self {
                disk,
                file,
                path,
                id: id.to_owned(),
                len: 0,
                open_line: false,
                broken: false,
            };
            let mut bytes = Vec::new();
            own.file
                .read_to_end(&mut bytes)
                .map_err(|error| failed("read", &own.path, error))?;
            own.len = bytes.len() as u64;
            own.open_line = bytes.last().is_some_and(|last| *last != b'\n');
            return Ok((own, bytes));
        }
        Err(busy(id))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Cuts off what stands behind `end`, where a line of `bytes` ends.
    pub(super) fn cut(&mut self, bytes: &[u8], end: u64) -> Result<()> {
        let cut = self.disk.cut(&self.file, end);
        cut.and_then(|()| self.disk.sync(&self.file))
            .map_err(|error| failed("repair", &self.path, error))?;
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
                    self.path.display()
                ),
            ));
        }
        let found = self.file.metadata().map(|metadata| metadata.len());
        let found = found.map_err(|error| failed("look at", &self.path, error))?;
        if found != self.len {
            // A lock does not hold everywhere (network file systems) nor against everybody.
            self.broken = true;
            return Err(taken_over(&self.id));
        }
        let end: &[u8] = if self.open_line { b"\n" } else { b"" };
        let written = self.write_all(end).and_then(|()| self.write_all(bytes));
        if let Err(error) = written {
            self.undo();
            return Err(failed("write", &self.path, error));
        }
        let mut synced = self.disk.sync(&self.file);
        if self.len == 0 && synced.is_ok() {
            synced = match self.path.parent() {
                Some(folder) => self.disk.sync_folder(folder),
                None => Ok(()),
            };
        }
        if let Err(error) = synced {
            // What a disk that failed to sync has kept, nobody knows before it is read again.
            self.undo();
            self.broken = true;
            return Err(failed("write", &self.path, error));
        }
        self.len += (end.len() + bytes.len()) as u64;
        self.open_line = false;
        Ok(())
    }

    fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.disk.write(&mut self.file, bytes) {
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
        let cut = self.disk.cut(&self.file, self.len);
        if cut.and_then(|()| self.disk.sync(&self.file)).is_err() {
            self.broken = true;
        }
    }
}

impl Drop for SessionFile {
    fn drop(&mut self) {
        let is_empty = self.file.metadata().is_ok_and(|found| found.len() == 0);
        if is_empty && is_at(&self.file, &self.path).unwrap_or(false) {
            // Only litter stays if this fails: an empty file is no session.
            let _ = fs::remove_file(&self.path);
        }
        // Closing would do, but for a child process that has just been forked.
        let _ = self.file.unlock();
    }
}

/// Removes the file; false when there was none.
pub(super) fn remove(path: &Path, id: &str) -> Result<bool> {
    check_kind(path)?;
    let file = match OpenOptions::new().append(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(failed("open", path, error)),
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(busy(id)),
        Err(TryLockError::Error(error)) => return Err(failed("lock", path, error)),
    }
    let had_content = file.metadata().is_ok_and(|found| found.len() > 0);
    match fs::remove_file(path) {
        Ok(()) => Ok(had_content),
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
    check_kind(path)?;
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

/// A pipe or a device in the place of a file would be waited for forever.
fn check_kind(path: &Path) -> Result<()> {
    match fs::metadata(path) {
        Ok(found) if !found.is_file() => Err(failed(
            "open",
            path,
            io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"),
        )),
        _ => Ok(()),
    }
}

/// Whether the file is (still) the one with this name.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let own = file.metadata()?;
    match fs::metadata(path) {
        Ok(named) => Ok((own.dev(), own.ino()) == (named.dev(), named.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

pub(super) fn failed(what: &str, path: &Path, error: io::Error) -> Error {
    let path = path.display();
    let text = format!("could not {what} session file {path}: {error}");
    Error::new(ErrorKind::Io, text).with_source(error)
}
