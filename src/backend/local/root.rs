//! The root of a workspace, and opening what lies below it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{self, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::error::{Error, ErrorKind, Result};
use crate::util::path::short_path;

use super::super::failure;
use super::beneath;
use super::sweep::Swept;

#[cfg(any(target_os = "linux", target_os = "android"))]
const PATH_ONLY: OFlags = OFlags::PATH;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const PATH_ONLY: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK);

/// The flags for a file or folder that is examined or worked in, but not read.
const HANDLE: OFlags = PATH_ONLY.union(OFlags::CLOEXEC);
/// The flags with which neither a FIFO without a writer nor a terminal can block or take over the
/// process that opens it.
const HARMLESS: OFlags = OFlags::CLOEXEC
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY);

/// A folder that nothing opened through it can leave.
///
/// It is held by a handle, so that it stays the same folder when it is moved.
#[derive(Debug)]
pub(super) struct Root {
    dir: OwnedFd,
    /// The path as it was given, made absolute, which the agent sees.
    displayed_path: String,
    /// All names by which absolute paths may begin: as given, and without symbolic links.
    names: Vec<PathBuf>,
    pub(super) swept: Swept,
}

impl Root {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let make_error = |error: io::Error| {
            let text = format!("workspace {path:?}: {error}");
            Error::new(ErrorKind::Config, text).with_source(error)
        };

        let absolute_path = std::path::absolute(path).map_err(make_error)?;
        let real_path = absolute_path.canonicalize().map_err(make_error)?;
        let flags = HANDLE | OFlags::DIRECTORY;
        let dir =
            fs::openat(CWD, &real_path, flags, Mode::empty()).map_err(|e| make_error(e.into()))?;
        let root_text = absolute_path
            .to_str()
            .or(real_path.to_str())
            .ok_or_else(|| {
                let text = format!("workspace {path:?}: its path is not UTF-8");
                Error::new(ErrorKind::Config, text)
            })?;
        Ok(Self {
            dir,
            displayed_path: root_text.to_owned(),
            names: vec![absolute_path, real_path],
            swept: Swept::default(),
        })
    }

    pub(super) fn displayed_path(&self) -> &str {
        &self.displayed_path
    }

    /// Returns the names by which absolute paths may begin, the displayed one first.
    #[cfg(feature = "search")]
    pub(super) fn name_texts(&self) -> Vec<&str> {
        let names = self.names.iter().filter_map(|name| name.to_str());
        std::iter::once(self.displayed_path())
            .chain(names)
            .collect()
    }

    /// Returns the path of the root without symbolic links, as it was when it was opened.
    pub(super) fn real(&self) -> &Path {
        &self.names[1]
    }

    pub(super) fn dir(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    /// Returns the path relative to the root. It may still lead out of it: only opening it shows
    /// that.
    pub(super) fn relative(&self, path: &str) -> Result<PathBuf> {
        let relative_path = if path.starts_with('/') {
            self.beneath(Path::new(path))
                .ok_or_else(|| self.outside(path))?
        } else {
            path
        };
        Ok(PathBuf::from(if relative_path.is_empty() {
            "."
        } else {
            relative_path
        }))
    }

    /// Returns the part of an absolute path after the root, as it was written: a slash at its end
    /// marks a folder.
    fn beneath<'a>(&self, path: &'a Path) -> Option<&'a str> {
        let mut names = self.names.iter();
        let suffix = names.find_map(|name| path.strip_prefix(name).ok())?;
        let full_path = path.to_str()?;
        let suffix = suffix.to_str()?;
        let offset = full_path.rfind(suffix).filter(|_| !suffix.is_empty());
        Some(offset.map_or("", |offset| &full_path[offset..]))
    }

    /// Opens a file to read it. Anything else is refused.
    pub(super) fn open_file(&self, path: &str) -> Result<(File, Stat)> {
        let fd = self.open_beneath(path, OFlags::RDONLY | HARMLESS, Mode::empty())?;
        self.only_file(path, fd)
    }

    /// Opens a file to add to it, and makes it if it is missing.
    pub(super) fn open_append(&self, path: &str) -> Result<File> {
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | HARMLESS;
        let fd = self.open_beneath(path, flags, Mode::from_raw_mode(0o666))?;
        self.only_file(path, fd).map(|(file, _)| file)
    }

    /// Opens a folder to list it.
    pub(super) fn open_folder(&self, path: &str) -> Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | HARMLESS;
        self.open_beneath(path, flags, Mode::empty())
    }

    /// Returns a handle for a file or folder, to look at it or to work in it.
    pub(super) fn open_handle(&self, path: &str) -> Result<OwnedFd> {
        self.open_beneath(path, HANDLE, Mode::empty())
    }

    /// Returns a handle for the folder at a path relative to the root, to work in it.
    pub(super) fn open_folder_at(&self, relative_path: &Path) -> io::Result<OwnedFd> {
        let relative_path = if relative_path.as_os_str().is_empty() {
            Path::new(".")
        } else {
            relative_path
        };
        beneath::open(
            self,
            relative_path,
            HANDLE | OFlags::DIRECTORY,
            Mode::empty(),
        )
    }

    fn open_beneath(&self, path: &str, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
        let relative_path = self.relative(path)?;
        beneath::open(self, &relative_path, flags, mode).map_err(|error| self.error(path, error))
    }

    fn only_file(&self, path: &str, fd: OwnedFd) -> Result<(File, Stat)> {
        let stat = fs::fstat(&fd).map_err(|error| self.error(path, error.into()))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok((File::from(fd), stat)),
            other => Err(not_a_file(path, other)),
        }
    }

    /// Returns the path that a symbolic link leads to, relative to the root, when it is an absolute
    /// one below it.
    pub(super) fn link_target<'a>(&self, target: &'a Path) -> Option<&'a Path> {
        let climbs = target.components().any(|part| part == Component::ParentDir);
        let mut names = self.names.iter();
        let relative_path = names.find_map(|name| target.strip_prefix(name).ok())?;
        (!climbs).then_some(relative_path)
    }

    /// Converts an error about a path to one with a description in words.
    pub(super) fn error(&self, path: &str, error: io::Error) -> Error {
        let is_errno = |errno: Errno| error.raw_os_error() == Some(errno.raw_os_error());
        let reason = match error.kind() {
            // A path that leaves the root fails with the error of a link across file systems.
            io::ErrorKind::CrossesDevices => return self.outside(path),
            io::ErrorKind::NotFound => "does not exist".to_owned(),
            io::ErrorKind::IsADirectory => "is a folder".to_owned(),
            io::ErrorKind::NotADirectory => "is a file, or lies beneath one".to_owned(),
            // A FIFO without a reader or a socket was opened for writing.
            _ if is_errno(Errno::NXIO) => return not_a_file(path, FileType::Fifo),
            // The path is at fault, not the file system.
            _ if is_errno(Errno::LOOP) => {
                let text = format!("{:?} leads through too many links", short_path(path));
                let error = io::Error::new(io::ErrorKind::InvalidInput, error);
                return Error::new(ErrorKind::Io, text).with_source(error);
            }
            _ => {
                let text = format!("{:?}: {error}", short_path(path));
                return Error::new(ErrorKind::Io, text).with_source(error);
            }
        };

        let text = format!("{:?} {reason}", short_path(path));
        Error::new(ErrorKind::Io, text).with_source(error)
    }

    pub(super) fn outside(&self, path: &str) -> Error {
        failure::outside(path, &self.displayed_path)
    }
}

/// The error for what exists but is not a file.
pub(super) fn not_a_file(path: &str, kind: FileType) -> Error {
    let (kind, reason) = match kind {
        FileType::Directory => (io::ErrorKind::IsADirectory, "is a folder"),
        FileType::Fifo => (
            io::ErrorKind::InvalidInput,
            "is a FIFO or socket, not a file",
        ),
        FileType::Socket => (io::ErrorKind::InvalidInput, "is a socket, not a file"),
        FileType::CharacterDevice | FileType::BlockDevice => {
            (io::ErrorKind::InvalidInput, "is a device, not a file")
        }
        _ => (io::ErrorKind::InvalidInput, "is not a regular file"),
    };

    failure::path_error(kind, path, reason)
}
