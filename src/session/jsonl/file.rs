//! The file of a session that this process may write.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::session::files::{LockFile, check_session_file, file_error, is_same_file};
use crate::session::log::{Each, LogTail};

use super::disk::Disk;

/// The number of bytes that are read at once of a long file.
const PIECE: usize = 1024 * 1024;

/// A session's file, locked for writing.
pub(super) struct SessionFile {
    disk: Arc<dyn Disk>,
    lock: LockFile,
    id: String,
    /// The length of the acknowledged part of the file.
    len: u64,
    /// True if the file's name is durable, according to this lease's own writes.
    is_name_durable: bool,
    /// True if the contents of the file are no longer certain.
    is_broken: bool,
}

impl SessionFile {
    /// Opens and locks the file, which is created if it does not exist. Reads its last `len` bytes.
    pub(super) fn open(
        disk: Arc<dyn Disk>,
        path: &Path,
        id: &str,
        len: u64,
    ) -> Result<(Self, LogTail)> {
        let mut lock = LockFile::take(path, id, |options, path| disk.open(options, path))?;
        let tail = read_end(&*disk, &mut lock.file, len)
            .map_err(|error| file_error("read", &lock.path, error))?;
        lock.has_content = tail.size > 0;
        let log_file = Self {
            disk,
            lock,
            id: id.to_owned(),
            len: tail.size,
            is_name_durable: false,
            is_broken: false,
        };

        Ok((log_file, tail))
    }

    pub(super) fn path(&self) -> &Path {
        &self.lock.path
    }

    /// Truncates the file to this length.
    pub(super) fn truncate(&mut self, end: u64) -> Result<()> {
        self.check()?;
        let outcome = self.disk.truncate(&self.lock.file, end);
        outcome
            .and_then(|()| self.disk.sync(&self.lock.file))
            .map_err(|error| file_error("repair", &self.lock.path, error))?;
        self.len = end;
        Ok(())
    }

    /// Adds bytes at the end, and returns the file's size. The bytes are then durable. After an
    /// error, either none of them is in the file, or it refuses every further write.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Conflict`] if the file was changed by others, and [`ErrorKind::Io`] if
    /// it cannot be written or an earlier write could not be undone.
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<u64> {
        if self.is_broken {
            return Err(Error::new(
                ErrorKind::Io,
                format!(
                    "session file {} was not written: an earlier write failed and could not be \
                     undone; run the session again to read it again",
                    self.lock.path.display()
                ),
            ));
        }

        self.check()?;
        if let Err(error) = self.disk.write_all(&mut self.lock.file, bytes) {
            self.undo();
            return Err(file_error("write", &self.lock.path, error));
        }

        let mut sync_outcome = self.disk.sync(&self.lock.file);

        // The process that created the file may have been killed before this step.
        if !self.is_name_durable && sync_outcome.is_ok() {
            sync_outcome = match self.lock.path.parent() {
                Some(folder) => self.disk.sync_folder(folder),
                None => Ok(()),
            };
        }

        if let Err(error) = sync_outcome {
            // After a failed sync, the contents of the disk are unknown until the file is read
            // again.
            self.undo();
            self.is_broken = true;
            return Err(file_error("write", &self.lock.path, error));
        }

        self.len += bytes.len() as u64;
        self.is_name_durable = true;
        self.lock.has_content = true;
        Ok(self.len)
    }

    /// Checks that the file is as this writer left it, and still has its name. A lock does not hold
    /// everywhere (network file systems) nor against every process.
    fn check(&mut self) -> Result<()> {
        let LockFile { file, path, .. } = &self.lock;
        let is_unchanged = file.metadata().and_then(|metadata| {
            let is_same = metadata.len() == self.len;
            Ok(is_same && is_same_file(file, path)?)
        });
        if is_unchanged.map_err(|error| file_error("look at", path, error))? {
            Ok(())
        } else {
            self.is_broken = true;
            Err(Error::session_taken_over(&self.id))
        }
    }

    /// Removes the written part of a failed write.
    fn undo(&mut self) {
        let outcome = self.disk.truncate(&self.lock.file, self.len);
        if outcome
            .and_then(|()| self.disk.sync(&self.lock.file))
            .is_err()
        {
            self.is_broken = true;
        }
    }
}

/// Removes the file, but not if it has another size than `size`. Returns `false` then, and if there
/// was no file or an empty one.
pub(super) fn remove(disk: &dyn Disk, path: &Path, id: &str, size: Option<u64>) -> Result<bool> {
    let Some(lock) = LockFile::find(path, id, |options, path| disk.open(options, path))? else {
        return Ok(false);
    };

    let metadata = lock.file.metadata();
    let len = metadata
        .map_err(|error| file_error("remove", path, error))?
        .len();
    if size.is_some_and(|size| size != len) {
        return Ok(false);
    }

    match disk.remove(path) {
        Ok(()) => Ok(len > 0),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(file_error("remove", path, error)),
    }
}

/// Passes the file to `each`, piece by piece. Returns `false` if there is none or it is empty.
pub(super) fn read(disk: &dyn Disk, path: &Path, each: Each<'_>) -> Result<bool> {
    check_session_file(path)?;
    let mut file = match disk.open(OpenOptions::new().read(true), path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(file_error("read", path, error)),
    };

    let mut piece = vec![0; PIECE];
    let mut exists = false;
    loop {
        let len = disk
            .read_piece(&mut file, &mut piece)
            .map_err(|error| file_error("read", path, error))?;
        if len == 0 {
            return Ok(exists);
        }

        exists = true;
        each(&piece[..len])?;
    }
}

/// Returns the last `len` bytes of the file; `None` if there is none or it is empty.
pub(super) fn tail(disk: &dyn Disk, path: &Path, len: u64) -> Result<Option<LogTail>> {
    check_session_file(path)?;
    let read_tail = || {
        let mut file = disk.open(OpenOptions::new().read(true), path)?;
        read_end(disk, &mut file, len)
    };
    match read_tail() {
        Ok(tail) if tail.size == 0 => Ok(None),
        Ok(tail) => Ok(Some(tail)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(file_error("read", path, error)),
    }
}

/// Returns the last `len` bytes of an open file.
fn read_end(disk: &dyn Disk, file: &mut File, len: u64) -> io::Result<LogTail> {
    let size = file.metadata()?.len();
    let start = file.seek(SeekFrom::Start(size.saturating_sub(len)))?;
    let mut bytes = Vec::new();
    disk.read(file, &mut bytes)?;
    // A writer may have appended to the file since then.
    let size = start + bytes.len() as u64;
    Ok(LogTail::new(bytes, size))
}
