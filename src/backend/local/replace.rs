//! The atomic replacement of a file: old content or new, never a mixture.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use rustix::fs::{self, Access, AtFlags, FileType, Gid, Mode, OFlags, Stat, Uid};
use rustix::io::Errno;

use crate::error::Result;
use crate::util::links::MAX_LINKS;
use crate::util::sync::lock;

use super::super::entry::ContentHash;
use super::super::failure;
use super::beneath::read_link;
use super::files::size_of;
use super::root::{Root, not_a_file};
use super::sweep::{sweep, temporary_name};

/// The locks of files: one for all names whose hashes select it. They are shared by all backends of
/// the process, for two of them may have the same root.
static LOCKS: [Mutex<()>; 64] = [const { Mutex::new(()) }; 64];

/// The maximum number of folders that are created for one file.
const MAX_NEW_FOLDERS: usize = 64;

/// The treatment of missing folders above a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Parents {
    /// Missing folders are created.
    Make,
    /// Missing folders are an error.
    Expect,
}

/// The file that a write replaces.
#[derive(Clone, Copy)]
pub(super) enum Expected {
    /// Any regular file, or none.
    Any,
    /// None.
    Nothing,
    /// A file with this content.
    Content(ContentHash),
}

impl Root {
    /// Writes a whole file, if it is the `expected` one.
    ///
    /// The new content is written to another file, which then takes the name of the old one. The
    /// mode is preserved, and the owner where that is permitted. Extended attributes are lost, and
    /// other hard links keep the old content. A symbolic link stays, and its target is written.
    pub(super) fn write(&self, path: &str, expected: Expected, content: &[u8]) -> Result<()> {
        let parents = match expected {
            Expected::Content(_) => Parents::Expect,
            Expected::Any | Expected::Nothing => Parents::Make,
        };

        let (folder, name) = self.target_of(path, parents)?;
        let make_error = |error: Errno| self.error(path, error.into());
        let _held = lock_path(&folder, &name).map_err(make_error)?;
        let old = match fs::statat(&folder, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Some(stat),
            Err(Errno::NOENT) if parents == Parents::Make => None,
            Err(error) => return Err(make_error(error)),
        };

        if let Some(stat) = &old {
            let kind = FileType::from_raw_mode(stat.st_mode);
            if kind != FileType::RegularFile {
                return Err(not_a_file(path, kind));
            }
            if matches!(expected, Expected::Nothing) {
                return Err(failure::exists(path));
            }

            // A rename would replace a file even if it is not writable.
            fs::accessat(&folder, &name, Access::WRITE_OK, AtFlags::EACCESS).map_err(make_error)?;
        }

        if let Expected::Content(expected) = expected {
            // A file of another size has changed; a very large one is not read.
            if old.as_ref().map(size_of) != Some(expected.size()) {
                return Err(failure::conflict(path));
            }

            let now = hash_of(folder.as_fd(), &name).map_err(|e| self.error(path, e))?;
            if now != expected {
                return Err(failure::conflict(path));
            }
        }

        sweep(&folder, &self.swept);
        let must_be_new = matches!(expected, Expected::Nothing);
        match replace(folder.as_fd(), &name, old.as_ref(), content, must_be_new) {
            Err(error) if must_be_new && error.kind() == io::ErrorKind::AlreadyExists => {
                Err(failure::exists(path))
            }
            done => done.map_err(|error| self.error(path, error)),
        }
    }

    /// Returns the folder a file lies in and its name there, symbolic links in its place followed.
    ///
    /// The folder is a handle below the root, so that operations in it stay below, regardless of
    /// later changes of the path.
    pub(super) fn target_of(&self, path: &str, parents: Parents) -> Result<(OwnedFd, OsString)> {
        let mut relative_path = self.relative(path)?;
        for _ in 0..MAX_LINKS {
            let (folder, name) = self.place_of(path, &relative_path, parents)?;
            let link = read_link(folder.as_fd(), &name);
            let Some(target) = link.map_err(|error| self.error(path, error.into()))? else {
                return Ok((folder, name));
            };

            let target = PathBuf::from(target);
            relative_path = if target.is_absolute() {
                let inner_path = self.link_target(&target);
                inner_path.ok_or_else(|| self.outside(path))?.to_owned()
            } else {
                relative_path.parent().unwrap_or(Path::new("")).join(target)
            };
        }

        Err(self.error(path, Errno::LOOP.into()))
    }

    /// Like [`target_of`](Self::target_of) for a path `relative` to the root, but a symbolic link
    /// is the target itself. Errors name `path`.
    pub(super) fn place_of(
        &self,
        path: &str,
        relative: &Path,
        parents: Parents,
    ) -> Result<(OwnedFd, OsString)> {
        let bytes = relative.as_os_str().as_encoded_bytes();
        let name = match relative.file_name() {
            Some(name) if bytes.ends_with(name.as_encoded_bytes()) => name.to_owned(),
            // `a/`, `a/.` and `..` are folders, which may be missing or outside the root.
            _ => {
                let folder = self.open_folder_at(relative);
                folder.map_err(|error| self.error(path, error))?;
                return Err(not_a_file(path, FileType::Directory));
            }
        };

        let parent = relative.parent().unwrap_or(Path::new(""));
        let folder = match self.open_folder_at(parent) {
            Err(error) if parents == Parents::Make && error.kind() == io::ErrorKind::NotFound => {
                self.make_parents(parent)
            }
            done => done,
        };

        Ok((folder.map_err(|error| self.error(path, error))?, name))
    }

    /// Creates the missing folders of a path, at most [`MAX_NEW_FOLDERS`].
    fn make_parents(&self, path: &Path) -> io::Result<OwnedFd> {
        let parts: Vec<_> = path.components().collect();
        let mut existing = parts.len();
        let (mut folder, mut so_far) = loop {
            let prefix: PathBuf = parts[..existing].iter().collect();
            match self.open_folder_at(&prefix) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && existing > 0 => {
                    existing -= 1;
                }
                done => break (done?, prefix),
            }
            if parts.len() - existing > MAX_NEW_FOLDERS {
                let text = format!(
                    "more than {MAX_NEW_FOLDERS} of its folders are missing; use a shorter path, \
                     or create some of them first"
                );
                return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
            }
        };

        for part in &parts[existing..] {
            so_far.push(part);
            folder = match self.open_folder_at(&so_far) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    match fs::mkdirat(&folder, part.as_os_str(), Mode::from_raw_mode(0o777)) {
                        Ok(()) => sync_folder(folder.as_fd())?,
                        Err(Errno::EXIST) => {}
                        Err(error) => return Err(error.into()),
                    }

                    self.open_folder_at(&so_far)?
                }
                done => done?,
            };
        }

        Ok(folder)
    }
}

/// Locks the file of that name, so that no other call of this process changes it until the guard is
/// dropped.
pub(super) fn lock_path(
    folder: &OwnedFd,
    name: &OsStr,
) -> rustix::io::Result<MutexGuard<'static, ()>> {
    let stat = fs::fstat(folder)?;
    let hash =
        BuildHasherDefault::<DefaultHasher>::default().hash_one((stat.st_dev, stat.st_ino, name));
    Ok(lock(&LOCKS[(hash % LOCKS.len() as u64) as usize]))
}

fn hash_of(folder: BorrowedFd<'_>, name: &OsStr) -> io::Result<ContentHash> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(fs::openat(folder, name, flags, Mode::empty())?);
    ContentHash::of_reader(file)
}

/// Writes a temporary file and gives it the name. With `must_be_new`, this fails if the name exists
/// by then; otherwise the file there is replaced. The mode of `old` is preserved, and its owner
/// where that is permitted.
fn replace(
    folder: BorrowedFd<'_>,
    name: &OsStr,
    old: Option<&Stat>,
    content: &[u8],
    must_be_new: bool,
) -> io::Result<()> {
    let (mut file, temporary) = Temporary::create(folder)?;
    if let Some(old) = old {
        // Set before the content is written, so that users who could not read the old file cannot
        // read the new one.
        fs::fchmod(&file, Mode::from_raw_mode(old.st_mode & 0o777))?;
    }

    file.write_all(content)?;
    if let Some(old) = old {
        // Only a privileged process may change the owner; for others the file belongs to this user.
        let owner = (Uid::from_raw(old.st_uid), Gid::from_raw(old.st_gid));
        let _ = fs::fchown(&file, Some(owner.0), Some(owner.1));
        fs::fchmod(&file, Mode::from_raw_mode(old.st_mode & 0o7777))?;
    }

    file.sync_all()?;
    if must_be_new {
        temporary.link_to(name)?;
    } else {
        temporary.rename_to(name)?;
    }
    sync_folder(folder)
}

/// Syncs a folder, so that a new name in it survives a loss of power.
fn sync_folder(folder: BorrowedFd<'_>) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match fs::openat(folder, ".", flags, Mode::empty()) {
        Ok(folder) => match fs::fsync(&folder) {
            // Some file systems do not support syncing a folder.
            Err(Errno::INVAL) => Ok(()),
            done => Ok(done?),
        },
        // A folder that may be written but not read cannot be synced.
        Err(Errno::ACCESS) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A temporary file, which is removed unless it was renamed to its target.
struct Temporary<'a> {
    folder: BorrowedFd<'a>,
    name: String,
    is_renamed: bool,
}

impl<'a> Temporary<'a> {
    fn create(folder: BorrowedFd<'a>) -> io::Result<(File, Self)> {
        const TRIES: usize = 16;
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut outcome = Errno::EXIST;
        for _ in 0..TRIES {
            let name = temporary_name();
            match fs::openat(folder, &name, flags, Mode::from_raw_mode(0o666)) {
                Ok(file) => {
                    let temporary = Self {
                        folder,
                        name,
                        is_renamed: false,
                    };

                    return Ok((File::from(file), temporary));
                }
                Err(error) => outcome = error,
            }

            if outcome != Errno::EXIST {
                break;
            }
        }

        Err(outcome.into())
    }

    fn rename_to(mut self, name: &OsStr) -> io::Result<()> {
        fs::renameat(self.folder, &self.name, self.folder, name)?;
        self.is_renamed = true;
        Ok(())
    }

    /// Gives the file its name, if nothing has it. A rename would replace a file that another
    /// program has just created.
    fn link_to(self, name: &OsStr) -> io::Result<()> {
        match fs::linkat(self.folder, &self.name, self.folder, name, AtFlags::empty()) {
            Err(error) if lacks_links(error) => self.rename_to(name),
            // The temporary name is removed by the drop.
            done => Ok(done?),
        }
    }
}

/// Returns `true` for an error of a file system without hard links. One in user space may not have
/// the call.
fn lacks_links(error: Errno) -> bool {
    matches!(error, Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS)
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.is_renamed {
            let _ = fs::unlinkat(self.folder, &self.name, AtFlags::empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{Backend, LocalBackend};

    #[test]
    fn file_is_renamed_instead_only_where_there_are_no_hard_links() {
        for error in [Errno::PERM, Errno::OPNOTSUPP, Errno::NOSYS] {
            assert!(lacks_links(error), "{error}");
        }
        for error in [Errno::EXIST, Errno::ACCESS, Errno::NOSPC] {
            assert!(!lacks_links(error), "{error}");
        }
    }

    #[tokio::test]
    async fn file_below_too_many_missing_folders_is_refused_and_creates_none() {
        let workspace = tempfile::tempdir().unwrap();
        let backend = LocalBackend::new(workspace.path()).unwrap();
        let path = |folders: usize| "a/".repeat(folders) + "file";
        let count = || std::fs::read_dir(workspace.path()).unwrap().count();
        for folders in [MAX_NEW_FOLDERS + 1, 2_000] {
            let error = backend.write(&path(folders), b"").await.unwrap_err();
            assert!(error.to_string().contains("folders are missing"), "{error}");
            assert_eq!(count(), 0);
        }
        backend.write(&path(MAX_NEW_FOLDERS), b"").await.unwrap();
        let deeper = path(2 * MAX_NEW_FOLDERS);
        backend.write(&deeper, b"x").await.unwrap();
        assert_eq!(backend.read(&deeper).await.unwrap(), b"x"[..]);
    }
}
