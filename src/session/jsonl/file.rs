//! The file of a session that this process may write.

use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::session::files::{LockFile, check_session_file, file_error, is_same_file};
use crate::session::log::Each;
use crate::session::taken_over;

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
    named: bool,
    /// True if the last line has no end.
    open_line: bool,
    /// True if the contents of the file are no longer certain.
    broken: bool,
}

impl SessionFile {
    /// Opens, or makes, and locks the file, and reads its last `len` bytes.
    pub(super) fn open(
        disk: Arc<dyn Disk>,
        path: &Path,
        id: &str,
        len: u64,
    ) -> Result<(Self, (Vec<u8>, u64))> {
        let mut lock = LockFile::take(path, id, |options, path| disk.open(options, path))?;
        let (bytes, size) = read_end(&*disk, &mut lock.file, len)
            .map_err(|error| file_error("read", &lock.path, error))?;
        lock.has_content = !bytes.is_empty();
        let log_file = Self {
            disk,
            lock,
            id: id.to_owned(),
            len: size,
            named: false,
            open_line: bytes.last().is_some_and(|last| *last != b'\n'),
            broken: false,
        };

        Ok((log_file, (bytes, size)))
    }

    pub(super) fn path(&self) -> &Path {
        &self.lock.path
    }

    /// The content, which may have been read: `bytes`.
    pub(super) fn source<'a>(&'a self, bytes: Option<&'a [u8]>) -> Source<'a> {
        match bytes {
            Some(bytes) => Source::Read(bytes),
            None => Source::Stored(&self.lock.file),
        }
    }

    /// Cuts off what stands behind `end`, before which there is a line with or without an end.
    pub(super) fn cut(&mut self, end: u64, has_open_line: bool) -> Result<()> {
        self.check()?;
        let outcome = self.disk.cut(&self.lock.file, end);
        outcome
            .and_then(|()| self.disk.sync(&self.lock.file))
            .map_err(|error| file_error("repair", &self.lock.path, error))?;
        self.len = end;
        self.open_line = has_open_line;
        Ok(())
    }

    /// Adds bytes at the end; all of them are durable, or none is written. Returns the file's size.
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<u64> {
        if self.broken {
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
        let end: &[u8] = if self.open_line { b"\n" } else { b"" };
        let (disk, file) = (&self.disk, &mut self.lock.file);
        let outcome = disk.write_all(file, end);
        let outcome = outcome.and_then(|()| disk.write_all(file, bytes));
        if let Err(error) = outcome {
            self.undo();
            return Err(file_error("write", &self.lock.path, error));
        }

        let mut sync_outcome = self.disk.sync(&self.lock.file);

        // The process that created the file may have been killed before this step.
        if !self.named && sync_outcome.is_ok() {
            sync_outcome = match self.lock.path.parent() {
                Some(folder) => self.disk.sync_folder(folder),
                None => Ok(()),
            };
        }

        if let Err(error) = sync_outcome {
            // After a failed sync, the contents of the disk are unknown until the file is read
            // again.
            self.undo();
            self.broken = true;
            return Err(file_error("write", &self.lock.path, error));
        }

        self.len += (end.len() + bytes.len()) as u64;
        self.open_line = false;
        self.named = true;
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
            self.broken = true;
            Err(taken_over(&self.id))
        }
    }

    /// Removes the written part of a failed write.
    fn undo(&mut self) {
        let outcome = self.disk.cut(&self.lock.file, self.len);
        if outcome
            .and_then(|()| self.disk.sync(&self.lock.file))
            .is_err()
        {
            self.broken = true;
        }
    }
}

/// The content of a session's file.
pub(super) enum Source<'a> {
    Read(&'a [u8]),
    Stored(&'a File),
}

impl Source<'_> {
    /// Some of the bytes; fewer where the file ends.
    pub(super) fn part(&self, offset: u64, len: usize) -> io::Result<Cow<'_, [u8]>> {
        match self {
            Self::Read(bytes) => {
                let start = usize::try_from(offset).map_or(bytes.len(), |at| at.min(bytes.len()));
                let end = start.saturating_add(len).min(bytes.len());
                Ok(Cow::Borrowed(&bytes[start..end]))
            }
            Self::Stored(file) => {
                let mut file: &File = file;
                let mut bytes = Vec::new();
                file.seek(SeekFrom::Start(offset))?;
                file.take(len as u64).read_to_end(&mut bytes)?;
                Ok(Cow::Owned(bytes))
            }
        }
    }
}

/// Removes the file; false when there was none, or not of this `size`.
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

/// The whole file; `None` when there is none, or nothing in it.
pub(super) fn read(disk: &dyn Disk, path: &Path) -> Result<Option<Vec<u8>>> {
    Ok(tail(disk, path, u64::MAX)?.map(|(bytes, _)| bytes))
}

/// Reads the file to `each` piece by piece; returns `false` when there is none or it is empty.
pub(super) fn stream(disk: &dyn Disk, path: &Path, each: Each<'_>) -> Result<bool> {
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

/// The last `len` bytes of the file and its size; `None` when there is none or it is empty.
pub(super) fn tail(disk: &dyn Disk, path: &Path, len: u64) -> Result<Option<(Vec<u8>, u64)>> {
    check_session_file(path)?;
    let read_tail = || {
        let mut file = disk.open(OpenOptions::new().read(true), path)?;
        read_end(disk, &mut file, len)
    };
    match read_tail() {
        Ok((bytes, _)) if bytes.is_empty() => Ok(None),
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(file_error("read", path, error)),
    }
}

/// The last `len` bytes of an open file, and where they end.
fn read_end(disk: &dyn Disk, file: &mut File, len: u64) -> io::Result<(Vec<u8>, u64)> {
    let size = file.metadata()?.len();
    let start = file.seek(SeekFrom::Start(size.saturating_sub(len)))?;
    let mut bytes = Vec::new();
    disk.read(file, &mut bytes)?;
    // A writer may have appended to the file since then.
    let size = start + bytes.len() as u64;
    Ok((bytes, size))
}
