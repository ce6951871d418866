//! Lock files.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};

/// The number of attempts to open a file that is removed between opening and locking it.
const ATTEMPTS: usize = 16;
/// The number of waits for a locked file, because a dropped lease is released a moment later. A
/// thread that the system delays has as many of them: no deadline ends them.
const WAITS: usize = 300;
/// The time of one wait.
const STEP: Duration = Duration::from_millis(1);

/// A session's file, locked. Dropping it removes the file if it is empty, and releases the lock.
/// The end of the process releases the lock as well.
pub(in crate::session) struct LockFile {
    pub(in crate::session) file: File,
    pub(in crate::session) path: PathBuf,
    /// True if the caller has read or written content. The file then stays when this is dropped,
    /// even if it is empty: a caller that empties it is about to write it again.
    pub(in crate::session) has_content: bool,
}

impl LockFile {
    /// Opens the file with `open`, creates it if it does not exist, and locks it.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::SessionBusy`] while it is locked elsewhere.
    pub(in crate::session) fn take(
        path: &Path,
        id: &str,
        open: impl Fn(&OpenOptions, &Path) -> io::Result<File>,
    ) -> Result<Self> {
        Self::lock(path, id, true, open)?.ok_or_else(|| Error::session_busy(id))
    }

    /// Locks the file; `None` when there is none.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::SessionBusy`] while it is locked elsewhere.
    #[cfg(feature = "jsonl")]
    pub(in crate::session) fn find(
        path: &Path,
        id: &str,
        open: impl Fn(&OpenOptions, &Path) -> io::Result<File>,
    ) -> Result<Option<Self>> {
        Self::lock(path, id, false, open)
    }

    /// Returns `true` if the file is locked. Holds a shared lock for a moment, shorter than
    /// [`take`](Self::take) waits for a lock.
    pub(in crate::session) fn is_locked(
        path: &Path,
        open: impl Fn(&OpenOptions, &Path) -> io::Result<File>,
    ) -> Result<bool> {
        check_session_file(path)?;
        let file = match open(OpenOptions::new().read(true), path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(file_error("open", path, error)),
        };
        match file.try_lock_shared() {
            // Explicitly, because a child process that was just forked may have the file.
            Ok(()) => file.unlock().map(|()| false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(error),
        }
        .map_err(|error| file_error("look at the lock of", path, error))
    }

    fn lock(
        path: &Path,
        id: &str,
        create: bool,
        open: impl Fn(&OpenOptions, &Path) -> io::Result<File>,
    ) -> Result<Option<Self>> {
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(create).mode(0o600);
        let (mut attempts, mut waits) = (0, 0);
        while attempts < ATTEMPTS {
            check_session_file(path)?;
            let file = match open(&options, path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound && !create => {
                    return Ok(None);
                }
                Err(error) => return Err(file_error("open", path, error)),
            };

            match file.try_lock() {
                Ok(()) => attempts += 1,
                Err(TryLockError::WouldBlock) if waits < WAITS => {
                    waits += 1;
                    sleep(STEP);
                    continue;
                }
                Err(TryLockError::WouldBlock) => return Err(Error::session_busy(id)),
                Err(TryLockError::Error(error)) => return Err(file_error("lock", path, error)),
            }

            if is_same_file(&file, path).map_err(|error| file_error("look at", path, error))? {
                let path = path.to_owned();
                return Ok(Some(Self {
                    file,
                    path,
                    has_content: false,
                }));
            }
        }

        Err(Error::session_busy(id))
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        let is_empty = || {
            self.file
                .metadata()
                .is_ok_and(|metadata| metadata.len() == 0)
        };
        if !self.has_content && is_empty() && is_same_file(&self.file, &self.path).unwrap_or(false)
        {
            // If this fails, an empty file remains, which is not a session.
            let _ = fs::remove_file(&self.path);
        }
        // Unlocked explicitly, because a child process that was just forked may still hold the
        // file.
        let _ = self.file.unlock();
    }
}

/// Refuses a pipe or a device, which would block forever.
#[cfg(feature = "sqlite")]
pub(in crate::session) fn check_kind(path: &Path) -> Result<()> {
    match fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => Err(file_error("open", path, irregular())),
        _ => Ok(()),
    }
}

/// Refuses anything but a regular file: a pipe or a device would block forever, and a link would
/// lead a session into a foreign file.
pub(in crate::session) fn check_session_file(path: &Path) -> Result<()> {
    check_regular_file(path).map_err(|error| file_error("open", path, error))
}

/// Returns an error if the path exists and is not a regular file.
pub(in crate::session) fn check_regular_file(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if !metadata.is_file() => Err(irregular()),
        _ => Ok(()),
    }
}

fn irregular() -> io::Error {
    let text = "it is not a regular file; move it away, or use another folder";
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

/// Returns `true` if `path` (still) names this file itself, not a link to it.
pub(in crate::session) fn is_same_file(file: &File, path: &Path) -> io::Result<bool> {
    let metadata = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(named) => Ok((metadata.dev(), metadata.ino()) == (named.dev(), named.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

pub(in crate::session) fn file_error(what: &str, path: &Path, error: io::Error) -> Error {
    let path = path.display();
    let text = format!("could not {what} session file {path}: {error}");
    Error::new(ErrorKind::Io, text).with_source(error)
}
