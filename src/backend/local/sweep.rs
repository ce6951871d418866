//! The removal of files that a crash left behind.

use std::collections::HashSet;
use std::ffi::CStr;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{self, AtFlags, Dir, FileType, Mode, OFlags};

use crate::util::sync::lock;

const PREFIX: &str = ".agentcore-";
const SUFFIX: &str = ".tmp";
/// A younger file may belong to a write in progress, even of another process.
const AGE: Duration = Duration::from_secs(60 * 60);
/// The maximum number of remembered folders; beyond it all are forgotten, and swept again.
const MAX_REMEMBERED: usize = 4_096;

/// The folders that were swept.
#[derive(Debug, Default)]
pub(super) struct Swept(Mutex<HashSet<u64>>);

/// A name for a file that is to take the place of another.
pub(super) fn temporary_name() -> String {
    format!("{PREFIX}{:016x}{SUFFIX}", fastrand::u64(..))
}

/// Returns `true` for the name of a file that is to take the place of another.
pub(super) fn is_temporary(name: &CStr) -> bool {
    name.to_str()
        .is_ok_and(|name| name.starts_with(PREFIX) && name.ends_with(SUFFIX))
}

impl Swept {
    /// Returns `true` if the folder has not been swept yet, and marks it as swept.
    fn insert(&self, folder: &OwnedFd) -> bool {
        let Ok(stat) = fs::fstat(folder) else {
            return false;
        };
        let mut swept_folders = lock(&self.0);
        if swept_folders.len() >= MAX_REMEMBERED {
            swept_folders.clear();
        }
        let hash = BuildHasherDefault::<DefaultHasher>::default();
        swept_folders.insert(hash.hash_one((stat.st_dev, stat.st_ino)))
    }
}

/// Removes the files of writes that never ended, once for each folder. It is a courtesy: nothing
/// depends on whether it succeeds.
pub(super) fn sweep(folder: &OwnedFd, swept: &Swept) {
    if !swept.insert(folder) {
        return;
    }

    // The handle of the root cannot be read from.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = fs::openat(folder, ".", flags, Mode::empty());
    let Ok(entries) = dir.and_then(Dir::new) else {
        return;
    };

    for entry in entries.flatten() {
        let name = entry.file_name();
        if is_temporary(name) && is_old(folder, name) {
            let _ = fs::unlinkat(folder, name, AtFlags::empty());
        }
    }
}

fn is_old(folder: &OwnedFd, name: &CStr) -> bool {
    let Ok(stat) = fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) else {
        return false;
    };
    let seconds = u64::try_from(stat.st_mtime).unwrap_or(u64::MAX);
    let change_time = UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
        && change_time
            .and_then(|change_time| SystemTime::now().duration_since(change_time).ok())
            .is_some_and(|age| age > AGE)
}
