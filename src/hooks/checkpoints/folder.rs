//! A folder with a file of records for each session.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind, Result};
use crate::util::folder::{make_folder, sync_folder};
use crate::util::regular_file::open_regular;

use super::file_name::{COPY_EXTENSION, DAMAGED_EXTENSION, FILE_EXTENSION, encoded, id_of};
use super::index::{SessionIndex, TornEnd};
use super::record::{Fault, Torn, scan};
use super::storage::{already_exists, unreadable};

/// The maximum length of a name without its extension, in bytes.
const MAX_NAME: usize = 240;

/// The time to wait for another process that has locked a file.
const LOCK_WAIT: Duration = Duration::from_secs(2);
const LOCK_STEP: Duration = Duration::from_millis(1);

/// Files of records, for their owner alone.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let result = make_folder(path, sync_folder);
        Ok(Self(result.map_err(|error| failed("make", path, error))?))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Reads the file of a session into the index, unless its size shows that the index has all of
    /// it. Returns the fault of a record that cannot be read.
    pub(super) fn read(&self, session: &str, index: &mut SessionIndex) -> Result<Option<Fault>> {
        let path = self.file(session)?;
        let mut read_file = || match open_to_read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                index.clear();
                Ok(None)
            }
            Err(error) => Err(error),
            Ok(file) => {
                let metadata = file.metadata()?;
                if metadata.len() == index.end {
                    return Ok(None);
                }
                if let Some(torn) = known_torn_end(&metadata, index) {
                    return Ok(Some(Fault::Torn(torn)));
                }
                read_again(&file, index)
            }
        };
        read_file().map_err(|error| failed("read", &path, error))
    }

    /// Opens a file to append a record at the end of the index. It is locked against other
    /// processes; the records they have added meanwhile go into the index.
    pub(super) fn open_end(&self, session: &str, index: &mut SessionIndex) -> Result<File> {
        let path = self.file(session)?;
        let mut open_file = || {
            let file = lock(&path, true)?.ok_or(io::ErrorKind::NotFound)?;
            let fault = if file.metadata()?.len() == index.end {
                None
            } else {
                read_again(&file, index)?
            };

            io::Result::Ok((file, fault))
        };

        let (file, fault) = open_file().map_err(|error| failed("open", &path, error))?;
        match fault {
            None => {}
            Some(Fault::Torn(_)) => {
                let cut_off = || {
                    let aside_path = copy_aside(&path, &file, index.end)?;
                    file.set_len(index.end)?;
                    io::Result::Ok(aside_path)
                };

                let aside_path = cut_off().map_err(|error| failed("repair", &path, error))?;
                tracing::warn!(
                    path = %aside_path.display(),
                    "the incomplete end of checkpoints was put aside"
                );
            }
            Some(Fault::Damaged(_)) => {
                let aside_path =
                    put_aside(&path).map_err(|error| failed("put aside", &path, error))?;
                tracing::warn!(path = %aside_path.display(), "damaged checkpoints were put aside");
                index.clear();
                return self.open_end(session, index);
            }
            Some(fault) => return Err(self.unreadable(session, &fault)),
        }

        Ok(file)
    }

    /// Appends bytes at `start`, the end of the file.
    pub(super) fn append(
        &self,
        session: &str,
        mut file: &File,
        start: u64,
        parts: [&[u8]; 3],
        is_durable: bool,
    ) -> Result<()> {
        let path = self.file(session)?;
        let mut parts = parts.into_iter();
        let mut result = parts.try_for_each(|part| file.write_all(part));
        if is_durable {
            result = result.and_then(|()| file.sync_data());
        }

        if is_durable && start == 0 {
            result = result.and_then(|()| sync_folder(&self.0));
        }

        if let Err(error) = result {
            // If this fails as well, the next write finds an incomplete record and removes it.
            let _ = file.set_len(start);
            return Err(failed("write", &path, error));
        }

        Ok(())
    }

    /// Returns the size of the files of all sessions, in bytes.
    pub(super) fn size(&self) -> io::Result<u64> {
        let mut size = 0_u64;
        for entry in fs::read_dir(&self.0)? {
            let entry = entry?;
            let is_own = entry.file_name().to_str().and_then(id_of).is_some();
            // A file that was removed meanwhile has no metadata.
            if let (true, Ok(metadata)) = (is_own, entry.metadata()) {
                size = size.saturating_add(metadata.len());
            }
        }
        Ok(size)
    }

    pub(super) fn content(&self, session: &str, at: u64, len: u64) -> Result<Vec<u8>> {
        let path = self.file(session)?;
        let read_range = || {
            let mut file = open_to_read(&path)?;
            file.seek(SeekFrom::Start(at))?;
            let mut content = Vec::new();
            file.take(len).read_to_end(&mut content)?;
            io::Result::Ok(content)
        };
        read_range().map_err(|error| failed("read", &path, error))
    }

    /// Creates the file of `to` from parts of the file of `from`, which are not held in memory.
    pub(super) fn copy(&self, from: &str, parts: &[Range<u64>], to: &str) -> Result<()> {
        let source_path = self.file(from)?;
        let mut source =
            open_to_read(&source_path).map_err(|error| failed("read", &source_path, error))?;
        self.create(to, |mut file| {
            for part in parts {
                source.seek(SeekFrom::Start(part.start))?;
                let len = part.end - part.start;
                if io::copy(&mut (&source).take(len), &mut file)? < len {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            Ok(())
        })
    }

    /// Creates the file of a session. It is written under another name and then linked to its own,
    /// so that it is never there in part.
    fn create(
        &self,
        session: &str,
        mut write_content: impl FnMut(&File) -> io::Result<()>,
    ) -> Result<()> {
        let path = self.file(session)?;
        let copy = path.with_extension(COPY_EXTENSION);
        let mut fill = |file: &File| {
            // After an interrupted creation, the copy may be a hard link of the file, which must
            // not be truncated.
            if fs::symlink_metadata(&path).is_ok() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }

            file.set_len(0)?;
            write_content(file)?;
            file.sync_data()?;
            fs::hard_link(&copy, &path)
        };

        let mut write = || {
            let file = lock(&copy, true)?.ok_or(io::ErrorKind::NotFound)?;
            let result = fill(&file);
            fs::remove_file(&copy)?;
            result?;
            sync_folder(&self.0)
        };

        write().map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => already_exists(session),
            _ => failed("write", &path, error),
        })
    }

    pub(super) fn remove(&self, session: &str) -> Result<bool> {
        let path = self.file(session)?;
        let unlink = |path: &Path| match fs::remove_file(path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        };

        let remove = || {
            // A writer that waits for this lock creates a new file afterwards.
            let lock_file = lock(&path, false)?;
            let mut removed = false;

            // Renamed damaged files and incomplete copies hold contents of files as well.
            for entry in fs::read_dir(&self.0)? {
                let name = entry?.file_name();
                let name = name.to_str().unwrap_or_default();
                if id_of(name).as_deref() == Some(session) && !path.ends_with(name) {
                    removed |= unlink(&self.0.join(name))?;
                }
            }

            removed |= lock_file.is_some() && unlink(&path)?;
            if removed {
                sync_folder(&self.0)?;
            }

            io::Result::Ok(removed)
        };

        remove().map_err(|error| failed("remove", &path, error))
    }

    pub(super) fn sessions(&self) -> Result<Vec<(Arc<str>, Option<Duration>)>> {
        let list = || {
            let mut sessions = BTreeMap::<Arc<str>, Option<Duration>>::new();
            for entry in fs::read_dir(&self.0)? {
                let entry = entry?;
                let name = entry.file_name();
                if let Some(id) = name.to_str().and_then(id_of) {
                    let modified_time = entry.metadata().and_then(|metadata| metadata.modified());
                    let age = modified_time.ok().and_then(|time| time.elapsed().ok());

                    // A session is as old as its newest file.
                    let session_age = sessions.entry(id.into()).or_insert(age);
                    *session_age = (*session_age).min(age);
                }
            }

            io::Result::Ok(sessions.into_iter().collect())
        };

        list().map_err(|error| failed("list", &self.0, error))
    }

    /// Returns the error about records that cannot be read.
    pub(super) fn unreadable(&self, session: &str, fault: &Fault) -> Error {
        let path = self
            .0
            .join(format!("{}.{FILE_EXTENSION}", encoded(session)));
        unreadable(session, &path, fault)
    }

    /// Returns the text about a record whose end is missing.
    pub(super) fn describe_torn(&self, session: &str, torn: &Torn) -> String {
        let path = self
            .0
            .join(format!("{}.{FILE_EXTENSION}", encoded(session)));
        let file = match &torn.path {
            Some(path) => format!("what {path:?} was before its last change"),
            None => "the state of a file before its last change".to_owned(),
        };

        format!(
            "the end of {} is missing: its last {} bytes are the beginning of a record, and {file} \
             is lost, unless the process ended before it made that change",
            path.display(),
            torn.len
        )
    }

    fn file(&self, session: &str) -> Result<PathBuf> {
        let name = encoded(session);
        if name.is_empty() || name.len() > MAX_NAME {
            let text = "a session id that is empty or too long for a file name has no checkpoints";
            return Err(Error::new(ErrorKind::InvalidRequest, text));
        }
        Ok(self.0.join(format!("{name}.{FILE_EXTENSION}")))
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).append(true).mode(0o600);
    options
}

/// Opens a file to read it. A FIFO, which would be waited for, and a link are refused.
fn open_to_read(path: &Path) -> io::Result<File> {
    check_regular(path)?;
    open_regular(File::options().read(true), path)
}

/// Checks that a path names a regular file or nothing.
fn check_regular(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        let text = "something that is not a regular file has its name; move it away";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    Ok(())
}

/// Opens a file and locks it against other processes. Creates it if `create` is set; otherwise
/// returns `None` if it does not exist.
///
/// # Errors
///
/// Returns [`io::ErrorKind::WouldBlock`] if another process has it locked for longer than
/// [`LOCK_WAIT`].
fn lock(path: &Path, create: bool) -> io::Result<Option<File>> {
    lock_within(path, create, LOCK_WAIT)
}

fn lock_within(path: &Path, create: bool, wait: Duration) -> io::Result<Option<File>> {
    let start_time = Instant::now();
    loop {
        check_regular(path)?;
        let file = match open_regular(options().create(create), path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && !create => return Ok(None),
            opened => opened?,
        };

        match file.try_lock() {
            // The previous holder of the lock may have removed or renamed the file.
            Ok(()) if is_named(&file, path)? => return Ok(Some(file)),
            Ok(()) | Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error),
        }

        if start_time.elapsed() >= wait {
            let text = format!(
                "another process has had it locked for {wait:?}; end that process, or use another \
                 folder"
            );
            return Err(io::Error::new(io::ErrorKind::WouldBlock, text));
        }
        sleep(LOCK_STEP);
    }
}

/// Returns `true` if `path` names this file.
fn is_named(file: &File, path: &Path) -> io::Result<bool> {
    let metadata = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(named) => Ok((metadata.dev(), metadata.ino()) == (named.dev(), named.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Renames a damaged file, which the caller has locked, to a name that no file has.
fn put_aside(path: &Path) -> io::Result<PathBuf> {
    let aside_path = aside_path(path);
    fs::rename(path, &aside_path)?;
    Ok(aside_path)
}

/// Copies the end of a file, which the caller has locked, into a new file.
fn copy_aside(path: &Path, mut file: &File, start: u64) -> io::Result<PathBuf> {
    let aside_path = aside_path(path);
    let mut copy = options().create_new(true).open(&aside_path)?;
    file.seek(SeekFrom::Start(start))?;
    let copied = io::copy(&mut file, &mut copy).and_then(|_| copy.sync_data());
    if let Err(error) = copied {
        // The file still has all bytes of the incomplete copy.
        let _ = fs::remove_file(&aside_path);
        return Err(error);
    }

    Ok(aside_path)
}

/// Returns the first name for a damaged file that is not taken.
fn aside_path(path: &Path) -> PathBuf {
    let mut number = 1;
    let mut aside_path = path.with_extension(DAMAGED_EXTENSION);
    while fs::symlink_metadata(&aside_path).is_ok() {
        number += 1;
        aside_path = path.with_extension(format!("{number}.{DAMAGED_EXTENSION}"));
    }
    aside_path
}

/// Reads all records of a file into the index, which is cleared first.
fn read_again(file: &File, index: &mut SessionIndex) -> io::Result<Option<Fault>> {
    index.clear();
    let modified = file.metadata()?.modified().ok();
    let fault = scan(BufReader::new(file), |read_record| index.add(read_record))?;
    if let Some(Fault::Torn(torn)) = &fault {
        let torn = torn.clone();
        index.torn_end = Some(TornEnd { torn, modified });
    }
    Ok(fault)
}

/// Returns the incomplete end of a file that has not changed since the end was read.
fn known_torn_end(metadata: &fs::Metadata, index: &SessionIndex) -> Option<Torn> {
    let TornEnd { torn, modified } = index.torn_end.as_ref()?;
    let is_same = metadata.len() == index.end + torn.len
        && modified.is_some()
        && metadata.modified().ok() == *modified;
    is_same.then(|| torn.clone())
}

fn failed(what: &str, path: &Path, error: io::Error) -> Error {
    let text = format!("could not {what} checkpoints {}: {error}", path.display());
    let kind = match error.kind() {
        io::ErrorKind::WouldBlock => ErrorKind::SessionBusy,
        _ => ErrorKind::Io,
    };
    Error::new(kind, text).with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unchanged_file_with_a_torn_end_is_read_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.files");
        fs::write(&path, "torn").unwrap();
        let records = Folder::open(folder.path()).unwrap();
        let mut index = SessionIndex::new("/w".into());
        let torn = |fault: Option<Fault>| matches!(fault, Some(Fault::Torn(torn)) if torn.len == 4);
        assert!(torn(records.read("s", &mut index).unwrap()));

        // Would be damaged if it were read again.
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        fs::write(&path, "bad\n").unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        file.set_modified(modified).unwrap();
        assert!(torn(records.read("s", &mut index).unwrap()));

        file.set_modified(modified + Duration::from_secs(1))
            .unwrap();
        let fault = records.read("s", &mut index).unwrap();
        assert!(matches!(fault, Some(Fault::Damaged(4))));
        fs::write(&path, "torn").unwrap();
        assert!(torn(records.read("s", &mut index).unwrap()));
        fs::write(&path, "torn end").unwrap();
        assert!(!torn(records.read("s", &mut index).unwrap()));
    }

    #[test]
    fn file_that_is_locked_elsewhere_is_an_error_and_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.files");
        let holder = lock_within(&path, true, Duration::ZERO).unwrap().unwrap();
        let error = lock_within(&path, true, Duration::ZERO).unwrap_err();
        let error = failed("open", &path, error);
        assert_eq!(error.kind(), ErrorKind::SessionBusy);
        assert!(error.to_string().contains("end that process"), "{error}");
        drop(holder);
        assert!(lock_within(&path, false, Duration::ZERO).unwrap().is_some());
    }
}
