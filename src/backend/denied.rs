//! [`DeniedPath`], a path that commands must not read or write.

use std::path::PathBuf;

/// A file or folder that a command must not read or write, with all below it.
///
/// [Permission rules](crate::permission) refuse a command that names it. A `LocalBackend` with a
/// `Sandbox` also refuses it to programs that access it in other ways: in folders that the command
/// may only read or run, and with `Sandbox::hold_denied` also in folders that it may write. Other
/// backends ignore it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct DeniedPath {
    /// The absolute path.
    pub path: PathBuf,
    /// True if its content must not be read or run.
    pub read: bool,
    /// True if nothing must be written, made or removed there.
    pub write: bool,
}

impl DeniedPath {
    /// Creates a path that must not be read.
    pub fn reading(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            read: true,
            write: false,
        }
    }

    /// Creates a path that must not be written.
    pub fn writing(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            read: false,
            write: true,
        }
    }
}
