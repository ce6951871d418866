//! Folders without the denied paths in them: Landlock allows, and takes nothing back.

use std::path::{Path, PathBuf};

/// The path without links. What is missing of it is taken as it is written.
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
    use std::ffi::OsStr;
    use std::io;
    use std::os::fd::{AsFd, OwnedFd};
    use std::os::unix::ffi::OsStrExt;
    use std::path::{Path, PathBuf};

    use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, fstat, openat};
    use rustix::io::Errno;

    /// The number of entries of a folder that are allowed one by one.
    const MAX_ENTRIES: usize = 4096;

    /// The files and folders that together are `root` without the denied paths, which are real
    /// paths; `root` itself if none lies there.
    pub(in super::super) fn carve(root: &Path, denied: &[PathBuf]) -> io::Result<Vec<OwnedFd>> {
        let handle = openat(CWD, root, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let mut handles = Vec::new();
        add(handle, &super::real_path(root), denied, &mut handles)?;
        Ok(handles)
    }

    fn add(
        handle: OwnedFd,
        path: &Path,
        denied: &[PathBuf],
        handles: &mut Vec<OwnedFd>,
    ) -> io::Result<()> {
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
            handles.push(handle);
            return Ok(());
        }

        // Entries are opened from their folder and never through a link, so that no change of the
        // folder in the meantime allows anything else.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = match openat(&handle, ".", flags, Mode::empty()) {
            Ok(folder) => folder,
            Err(Errno::NOTDIR) => {
                // Nothing can lie beneath a file.
                handles.push(handle);
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        for (count, entry) in Dir::read_from(&folder)?.enumerate() {
            if count == MAX_ENTRIES {
                let text = format!("{path:?} has more than {MAX_ENTRIES} entries");
                return Err(io::Error::other(text));
            }
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let Ok(handle) = openat(folder.as_fd(), name, flags, Mode::empty()) else {
                // It has been removed.
                continue;
            };
            if FileType::from_raw_mode(fstat(&handle)?.st_mode) != FileType::Symlink {
                let name = OsStr::from_bytes(name.to_bytes());
                add(handle, &path.join(name), denied, handles)?;
            }
        }
        Ok(())
    }
}
