//! What a backend can do.

use std::fmt::Debug;

use async_trait::async_trait;
use bytes::Bytes;

use crate::error::{Error, ErrorKind, Result};

use super::command::{Command, CommandOutput};

/// A workspace: files, and perhaps a shell.
///
/// A path is relative to the [`root`](Backend::root) or absolute beneath it; `.` and `..` are
/// resolved, and a path that leaves the root is an error of every method. An empty path is the
/// root itself. One instance serves many calls at once.
///
/// # Cancel safety
///
/// A future that is dropped leaves each file as it was or as it was to become, never half
/// written, and no command running.
#[async_trait]
pub trait Backend: Send + Sync + Debug + 'static {
    /// The absolute path of the workspace as the agent sees it, such as `/workspace`.
    fn root(&self) -> &str;

    /// The content of a file.
    ///
    /// # Errors
    ///
    /// When there is no such file, or it is a folder.
    async fn read(&self, path: &str) -> Result<Bytes>;

    /// Writes a file whole, over what was there; missing folders above it are made.
    ///
    /// # Errors
    ///
    /// When the path is a folder, or lies beneath a file.
    async fn write(&self, path: &str, content: &[u8]) -> Result<()>;

    /// What is in a folder, sorted by name.
    ///
    /// # Errors
    ///
    /// When there is no such folder, or it is a file.
    async fn list(&self, path: &str) -> Result<Vec<DirEntry>>;

    /// Whether there is a file or folder of that path.
    async fn exists(&self, path: &str) -> Result<bool>;

    /// Removes a file.
    ///
    /// # Errors
    ///
    /// When there is no such file, or it is a folder.
    async fn remove(&self, path: &str) -> Result<()>;

    /// Runs a command and waits for it. A command that fails or runs out of time is no error;
    /// the output tells.
    ///
    /// # Errors
    ///
    /// When the command cannot be started, as in a backend that runs none.
    async fn execute(&self, _command: Command) -> Result<CommandOutput> {
        Err(Error::new(
            ErrorKind::Config,
            "this backend runs no commands",
        ))
    }
}

/// One thing in a folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct DirEntry {
    /// Its name in the folder.
    pub name: String,
    /// What it is.
    pub kind: EntryKind,
    /// The size of a file in bytes, 0 for anything else.
    pub size: u64,
}

impl DirEntry {
    /// An entry.
    pub fn new(name: impl Into<String>, kind: EntryKind, size: u64) -> Self {
        Self {
            name: name.into(),
            kind,
            size,
        }
    }
}

/// What a [`DirEntry`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum EntryKind {
    /// A file.
    File,
    /// A folder.
    Dir,
    /// A symbolic link.
    Symlink,
}
