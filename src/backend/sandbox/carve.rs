//! Folders without the denied paths in them. A rule of Landlock can only allow access, so the
//! entries of a folder with a denied path are allowed one by one.

use std::path::{Path, PathBuf};

/// Returns the path without links. What is missing of it is taken as it is written.
pub(super) fn real_path(path: &Path) -> PathBuf {
    for (depth, ancestor) in path.ancestors().enumerate() {
        if let Ok(real_ancestor) = ancestor.canonicalize() {
            let names: Vec<_> = path.components().rev().take(depth).collect();
            return real_ancestor.join(names.into_iter().rev().collect::<PathBuf>());
        }
    }
    path.to_owned()
}

#[cfg(target_os = "linux")]
pub(super) use linux::carve;

#[cfg(target_os = "linux")]
mod linux {
    use std::ffi::{CStr, OsStr};
    use std::io;
    use std::os::fd::OwnedFd;
    use std::os::unix::ffi::OsStrExt;
    use std::path::{Path, PathBuf};

    use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, fstat, openat};
    use rustix::io::Errno;

    /// The maximum number of entries of a folder that are allowed one by one.
    const MAX_ENTRIES: usize = 4096;

    /// Calls `allow` with the files and folders that together are `root` without the denied paths,
    /// which are real paths; with `root` itself if none lies there. A folder is open only while the
    /// paths in it are allowed, because the process may open few files.
    pub(in super::super) fn carve<E: From<io::Error>>(
        root: &Path,
        denied: &[PathBuf],
        allow: &mut impl FnMut(OwnedFd) -> Result<(), E>,
    ) -> Result<(), E> {
        let handle = openat(CWD, root, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
            .map_err(io::Error::from)?;
        carve_in(handle, &super::real_path(root), denied, allow)
    }

    fn carve_in<E: From<io::Error>>(
        handle: OwnedFd,
        path: &Path,
        denied: &[PathBuf],
        allow: &mut impl FnMut(OwnedFd) -> Result<(), E>,
    ) -> Result<(), E> {
        if denied
            .iter()
            .any(|denied_path| path.starts_with(denied_path))
        {
            return Ok(());
        }
        if !denied
            .iter()
            .any(|denied_path| denied_path.starts_with(path))
        {
            return allow(handle);
        }

        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = match openat(&handle, ".", flags, Mode::empty()) {
            Ok(folder) => folder,
            // Nothing can lie below a file.
            Err(Errno::NOTDIR) => return allow(handle),
            Err(error) => return Err(io::Error::from(error).into()),
        };
        drop(handle);

        let entries = Dir::read_from(&folder).map_err(io::Error::from)?;
        for (count, entry) in entries.enumerate() {
            if count == MAX_ENTRIES {
                let text = format!("{path:?} has more than {MAX_ENTRIES} entries");
                return Err(io::Error::other(text).into());
            }

            let entry = entry.map_err(io::Error::from)?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            if let Some(handle) = open_entry(&folder, name)? {
                let name = OsStr::from_bytes(name.to_bytes());
                carve_in(handle, &path.join(name), denied, allow)?;
            }
        }
        Ok(())
    }

    /// Opens an entry from its folder and never through a link, so that no change of the folder in
    /// the meantime allows anything else. `None` for a link, and if it has been removed.
    fn open_entry(folder: &OwnedFd, name: &CStr) -> io::Result<Option<OwnedFd>> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = match openat(folder, name, flags, Mode::empty()) {
            Ok(handle) => handle,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let is_link = FileType::from_raw_mode(fstat(&handle)?.st_mode) == FileType::Symlink;
        Ok((!is_link).then_some(handle))
    }
}
