//! A folder of session files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use percent_encoding::percent_decode_str;

use crate::error::{Error, ErrorKind, Result};
use crate::session::files::{LockFile, file_error, file_name};
use crate::session::log::{Each, EachPage, Log, LogTail, Repair, collect_ids};
use crate::util::folder::make_folder;

use super::disk::Disk;
use super::file::{self, SessionFile};
use super::sidecar;

/// The extension of a session's file.
const EXTENSION: &str = ".jsonl";

/// The number of entries of the folder that are passed on at once.
const ENTRIES_AT_ONCE: usize = 1_000;

/// The logs of sessions, each a file of this folder.
pub(super) struct Folder {
    path: PathBuf,
    disk: Arc<dyn Disk>,
}

impl Folder {
    /// Opens the folder. A missing one is created, for its owner alone.
    pub(super) fn open(path: &Path, disk: Arc<dyn Disk>) -> Result<Self> {
        let outcome = make_folder(path, |parent| disk.sync_folder(parent));
        let path = outcome.map_err(|error| file_error("make the folder of", path, error))?;
        Ok(Self { path, disk })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn file(&self, id: &str) -> Result<PathBuf> {
        Ok(self.path.join(file_name(id, EXTENSION)?))
    }
}

impl Log for Folder {
    type Writer = SessionFile;

    fn ids(&self) -> Result<Vec<Arc<str>>> {
        collect_ids(self)
    }

    fn for_each_page(&self, each: EachPage<'_>) -> Result<()> {
        let failure = |error| file_error("list the folder of", &self.path, error);
        let mut entries = fs::read_dir(&self.path).map_err(failure)?;
        loop {
            let mut ids = Vec::new();
            // Other files count as well, so that `each` can end the list in a folder of such files.
            for _ in 0..ENTRIES_AT_ONCE {
                let Some(entry) = entries.next() else {
                    return each(ids);
                };
                let name = entry.map_err(failure)?.file_name();
                ids.extend(name.to_str().and_then(id_of).map(Arc::from));
            }
            each(ids)?;
        }
    }

    fn tail(&self, id: &str, len: u64) -> Result<Option<LogTail>> {
        file::tail(&*self.disk, &self.file(id)?, len)
    }

    fn open(&self, id: &str, len: u64) -> Result<(SessionFile, LogTail)> {
        SessionFile::open(self.disk.clone(), &self.file(id)?, id, len)
    }

    fn is_open(&self, id: &str) -> Result<bool> {
        LockFile::is_locked(&self.file(id)?, |options, path| {
            self.disk.open(options, path)
        })
    }

    fn repair(&self, writer: &mut SessionFile, repair: &Repair<'_>) -> Result<Option<String>> {
        let place = sidecar::path_of(writer.path());
        if repair.has_parts() {
            sidecar::keep(&*self.disk, &place, repair)?;
        }

        if let Some(end) = repair.truncate_to() {
            writer.truncate(end)?;
        }

        Ok(Some(place.display().to_string()))
    }

    fn append(&self, writer: &mut SessionFile, bytes: &[u8]) -> Result<u64> {
        writer.append(bytes)
    }

    fn remove(&self, id: &str, expected_size: Option<u64>) -> Result<bool> {
        let path = self.file(id)?;
        let had_log = file::remove(&*self.disk, &path, id, expected_size)?;
        if expected_size.is_some() && !had_log {
            return Ok(false);
        }

        // The file of damaged parts may remain from an interrupted removal.
        let mut removed = had_log;
        for place in sidecar::paths_of(&path) {
            match self.disk.remove(&place) {
                Ok(()) => removed = true,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(file_error("remove", &place, error)),
            }
        }

        if removed {
            let outcome = self.disk.sync_folder(&self.path);
            outcome.map_err(|error| file_error("remove", &path, error))?;
        }

        Ok(removed)
    }

    fn read(&self, id: &str, each: Each<'_>) -> Result<bool> {
        file::read(&*self.disk, &self.file(id)?, each)
    }

    fn place(&self, id: &str) -> Option<String> {
        let path = self.file(id).ok()?;
        Some(path.display().to_string())
    }

    // Each log is a file, with permissions and a place on the disk of its own.
    fn concerns_one_log(&self, error: &Error) -> bool {
        matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Io)
    }
}

/// Returns the id of a session's file; `None` for any other file.
fn id_of(name: &str) -> Option<String> {
    let encoded = name.strip_suffix(EXTENSION)?;
    let id = percent_decode_str(encoded).decode_utf8().ok()?;
    (file_name(&id, EXTENSION).ok()? == name).then(|| id.into_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::super::disk::System;
    use super::*;
    use crate::testing::conformance;

    #[test]
    fn ids_are_read_in_pages_until_an_error() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..2 * ENTRIES_AT_ONCE + 1 {
            fs::write(folder.path().join(format!("{number}.jsonl")), "").unwrap();
        }
        let log = Folder::open(folder.path(), Arc::new(System)).unwrap();
        let mut lens = Vec::new();
        let each: EachPage<'_> = &mut |page| {
            lens.push(page.len());
            Ok(())
        };
        log.for_each_page(each).unwrap();
        assert_eq!(lens, [ENTRIES_AT_ONCE, ENTRIES_AT_ONCE, 1]);

        let mut count = 0;
        let outcome = log.for_each_page(&mut |page| {
            count += page.len();
            Err(Error::new(ErrorKind::Cancelled, "enough"))
        });
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Cancelled);
        assert_eq!(count, ENTRIES_AT_ONCE);
    }

    #[tokio::test]
    async fn folder_passes_the_suite_of_logs() {
        let folder = tempfile::tempdir().unwrap();
        let count = AtomicUsize::new(0);
        let open = |path: &Path| Folder::open(path, Arc::new(System)).unwrap();
        let make = || {
            let number = count.fetch_add(1, Ordering::Relaxed);
            open(&folder.path().join(number.to_string()))
        };
        conformance::session_log(make, |log| open(log.path()))
            .await
            .unwrap();
    }
}
