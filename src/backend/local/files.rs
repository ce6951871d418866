//! The reading, listing and removal of files below a root.

use std::io::{Read, Seek, SeekFrom, Write};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use rustix::fs::{self, AtFlags, Dir, FileType, Mode, RawMode, Stat};

use crate::error::{Error, ErrorKind, Result};
use crate::util::{Cancellation, large};

use super::super::entry::{DirEntry, EntryKind, Metadata, escape_name};
use super::super::failure;
use super::super::folder_size::FolderSize;
use super::replace::{Parents, lock_path};
use super::root::{Root, not_a_file};
use super::sweep::is_temporary;

/// The permission bits of a mode: without the kind of file, and without the set-user-id and
/// set-group-id bits.
const PERMISSIONS: Mode = Mode::RWXU.union(Mode::RWXG).union(Mode::RWXO);

impl Root {
    /// Returns the content of a file of at most `max` bytes.
    pub(super) fn read(&self, path: &str, max: u64) -> Result<Vec<u8>> {
        let (file, stat) = self.open_file(path)?;
        let too_large = |size: u64| {
            let text = format!(
                "has {size} bytes, more than the {max} that are read at once; read a range of it"
            );
            failure::path_error(std::io::ErrorKind::FileTooLarge, path, &text)
        };

        let size = size_of(&stat);
        if size > max {
            return Err(too_large(size));
        }

        let buffer = large::try_buffer(size);
        let mut content = buffer.map_err(|error| self.error(path, error))?;

        // The file may grow during the read.
        let result = file.take(max.saturating_add(1)).read_to_end(&mut content);
        result.map_err(|error| self.error(path, error))?;
        if content.len() as u64 > max {
            return Err(too_large(content.len() as u64));
        }

        Ok(content)
    }

    /// Reads at most `len` bytes from `offset` on.
    pub(super) fn read_range(&self, path: &str, offset: u64, len: usize) -> Result<Bytes> {
        let (mut file, stat) = self.open_file(path)?;
        let size = size_of(&stat);
        // The files of `/proc` have content, and the size 0.
        if size > 0 && offset >= size {
            return Ok(Bytes::new());
        }

        let make_error = |error: std::io::Error| self.error(path, error);
        if let Err(error) = file.seek(SeekFrom::Start(offset)) {
            // No file of that file system is so large.
            let is_past_end = error.kind() == std::io::ErrorKind::InvalidInput;
            return if is_past_end {
                Ok(Bytes::new())
            } else {
                Err(make_error(error))
            };
        }

        let buffer = large::try_buffer(size.saturating_sub(offset).min(len as u64));
        let mut content = buffer.map_err(make_error)?;
        let result = file.take(len as u64).read_to_end(&mut content);
        result.map_err(make_error)?;
        Ok(content.into())
    }

    pub(super) fn append(&self, path: &str, content: &[u8]) -> Result<()> {
        // Creates the missing parent folders.
        let (folder, name) = self.target_of(path, Parents::Make)?;
        // A replacement of the file between the two would lose what is appended.
        let lock = lock_path(&folder, &name);
        let _lock = lock.map_err(|error| self.error(path, error.into()))?;
        let mut file = self.open_append(path)?;
        let result = file.write_all(content).and_then(|()| file.sync_all());
        result.map_err(|error| self.error(path, error))
    }

    pub(super) fn stat(&self, path: &str) -> Result<Metadata> {
        let handle = self.open_handle(path)?;
        let stat = fs::fstat(&handle).map_err(|error| self.error(path, error.into()))?;
        let kind = kind_of(FileType::from_raw_mode(stat.st_mode));
        let size = if kind == EntryKind::File {
            size_of(&stat)
        } else {
            0
        };

        let mode = Mode::from_raw_mode(stat.st_mode) & PERMISSIONS;
        let metadata = Metadata::new(kind, size).with_mode(mode.as_raw_mode() as u32);
        Ok(match modified(&stat) {
            Some(time) => metadata.with_modified(time),
            None => metadata,
        })
    }

    pub(super) fn set_mode(&self, path: &str, mode: u32) -> Result<()> {
        let (file, _) = self.open_file(path)?;
        let mode = Mode::from_raw_mode(mode as RawMode) & PERMISSIONS;
        fs::fchmod(&file, mode).map_err(|error| self.error(path, error.into()))
    }

    /// Returns the entries of a folder, unless the call is `over` before.
    pub(super) fn list(&self, path: &str, over: &Cancellation) -> Result<Vec<DirEntry>> {
        self.entries(path, true, over)
    }

    /// Returns the entries of a folder without the sizes of files: each size takes a system call.
    #[cfg(feature = "search")]
    pub(super) fn list_kinds(&self, path: &str, over: &Cancellation) -> Result<Vec<DirEntry>> {
        self.entries(path, false, over)
    }

    fn entries(&self, path: &str, sizes: bool, over: &Cancellation) -> Result<Vec<DirEntry>> {
        let folder = self.open_folder(path)?;
        let make_error = |error: rustix::io::Errno| self.error(path, error.into());
        let mut entries = Vec::new();
        let mut folder_size = FolderSize::default();
        for entry in Dir::read_from(&folder).map_err(make_error)? {
            if over.is_cancelled() {
                return Err(Error::new(ErrorKind::Cancelled, "the call is over"));
            }

            let entry = entry.map_err(make_error)?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }

            let mut kind = entry.file_type();
            let mut size = 0;
            if kind == FileType::Unknown || (sizes && kind == FileType::RegularFile) {
                // Entries that were removed since the listing are skipped.
                let Ok(stat) = fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) else {
                    continue;
                };

                kind = FileType::from_raw_mode(stat.st_mode);
                size = size_of(&stat);
            }

            // Not a file of the workspace yet, or left by a crash.
            if kind == FileType::RegularFile && is_temporary(name) {
                continue;
            }

            let kind = kind_of(kind);
            let size = if kind == EntryKind::File { size } else { 0 };
            let name = escape_name(name.to_bytes());
            folder_size.count(path, &name)?;
            entries.push(DirEntry::new(name, kind, size));
        }

        entries.sort();
        Ok(entries)
    }

    pub(super) fn remove(&self, path: &str) -> Result<()> {
        let relative_path = self.relative(path)?;
        let (folder, name) = self.place_of(path, &relative_path, Parents::Expect)?;
        let make_error = |error: rustix::io::Errno| self.error(path, error.into());
        let stat = fs::statat(&folder, &name, AtFlags::SYMLINK_NOFOLLOW).map_err(make_error)?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            return Err(not_a_file(path, FileType::Directory));
        }
        fs::unlinkat(&folder, &name, AtFlags::empty()).map_err(make_error)
    }
}

fn kind_of(kind: FileType) -> EntryKind {
    match kind {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Dir,
        FileType::Symlink => EntryKind::Symlink,
        _ => EntryKind::Other,
    }
}

pub(super) fn size_of(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

fn modified(stat: &Stat) -> Option<SystemTime> {
    let seconds = u64::try_from(stat.st_mtime).ok()?;
    let nanos = u32::try_from(stat.st_mtime_nsec).ok()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::new(seconds, nanos))
}
