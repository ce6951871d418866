//! The [`Backend`] trait.

use std::fmt::Debug;

use async_trait::async_trait;
use bytes::Bytes;

use crate::error::{Error, ErrorKind, Result};
use crate::util::path::lexical;

use super::command::{BackgroundOutput, Command, CommandLimits, CommandOutput};
use super::entry::{ContentHash, DirEntry, Metadata};
use super::failure::{self, is_not_found};
#[cfg(feature = "search")]
use super::search::{self, GlobMatches, GlobQuery, GrepMatches, GrepQuery};
use super::shell::Shell;

/// A workspace: files, and perhaps a shell.
///
/// A path is relative to the [`root`](Backend::root) or absolute below it; `.` and `..` are
/// resolved, and a path that leaves the root is an [`ErrorKind::PermissionDenied`] of every method.
/// An empty path is the root itself. One instance serves many calls at once.
///
/// # Errors
///
/// An error of the file system is an [`ErrorKind::Io`] with the [`std::io::Error`] as its source.
///
/// # Cancel safety
///
/// If a future is dropped, each file has its old or its new content, never a part of it; a change
/// that has begun may be completed after the drop. A command whose future is dropped is ended.
#[async_trait]
pub trait Backend: Send + Sync + Debug + 'static {
    /// Returns the absolute path of the workspace as the agent sees it, such as `/workspace`.
    fn root(&self) -> &str;

    /// Reads a whole file.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such file, if the path is a folder or another kind of entry,
    /// or if the file is larger than the backend reads at once
    /// ([`std::io::ErrorKind::FileTooLarge`]).
    async fn read(&self, path: &str) -> Result<Bytes>;

    /// Reads at most `len` bytes of a file from `offset` on. Fewer bytes are returned only at the
    /// end of the file, and if `len` exceeds the limit of the backend, which is at least 1 MiB.
    ///
    /// The default implementation reads the whole file, so it fails for a file that
    /// [`read`](Self::read) refuses because of its size.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`read`](Self::read), except that the file may have any size.
    async fn read_range(&self, path: &str, offset: u64, len: usize) -> Result<Bytes> {
        let content = self.read(path).await?;
        let start = usize::try_from(offset).map_or(content.len(), |at| at.min(content.len()));
        let end = start.saturating_add(len).min(content.len());
        Ok(content.slice(start..end))
    }

    /// Returns the metadata of a file or folder, symbolic links followed.
    ///
    /// # Errors
    ///
    /// Returns an error if nothing exists at that path.
    async fn stat(&self, path: &str) -> Result<Metadata>;

    /// Returns `true` if there is a file or folder of that path.
    ///
    /// # Errors
    ///
    /// Returns an error if the path leaves the root or cannot be examined.
    async fn exists(&self, path: &str) -> Result<bool> {
        match self.stat(path).await {
            Ok(_) => Ok(true),
            Err(error) if is_not_found(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Writes a whole file, replacing the old one, and creates missing parent folders. A concurrent
    /// reader sees the old or the new content, even after a crash.
    ///
    /// # Errors
    ///
    /// Returns an error if the path is a folder or another kind of entry, or lies below a file.
    async fn write(&self, path: &str, content: &[u8]) -> Result<()>;

    /// Like [`write`](Self::write), but only if nothing has that path yet.
    ///
    /// The default implementation does not notice an entry that is created between its check and
    /// its write. A `DockerBackend` does not notice one that a command creates in that time, and a
    /// `LocalBackend` one that another program creates on a file system without hard links.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`write`](Self::write), and [`ErrorKind::Conflict`] if there is a
    /// file. It is unchanged then.
    async fn create_new(&self, path: &str, content: &[u8]) -> Result<()> {
        failure::expect_no_file(path, self.stat(path).await)?;
        self.write(path, content).await
    }

    /// Like [`write`](Self::write), but only if the file's content has the hash `expected`.
    ///
    /// The default implementation does not notice a change between its check and its write.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`write`](Self::write), an error if there is no such file, and
    /// [`ErrorKind::Conflict`] if its content differs. The file is unchanged then.
    async fn write_if_unchanged(
        &self,
        path: &str,
        expected: ContentHash,
        content: &[u8],
    ) -> Result<()> {
        if ContentHash::of(&self.read(path).await?) != expected {
            return Err(failure::conflict(path));
        }
        self.write(path, content).await
    }

    /// Appends to a file. Creates it, and folders above it, if they are missing.
    ///
    /// The default implementation reads the whole file and writes it again. A change between the
    /// two is lost, such as that of a concurrent append.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`write`](Self::write). The default implementation also returns
    /// the errors of [`read`](Self::read), except for a missing file. If the disk is full, the
    /// beginning of `content` may have been appended.
    async fn append(&self, path: &str, content: &[u8]) -> Result<()> {
        let mut full_content = match self.read(path).await {
            Ok(old) => old.to_vec(),
            Err(error) if is_not_found(&error) => Vec::new(),
            Err(error) => return Err(error),
        };
        full_content.extend_from_slice(content);
        self.write(path, &full_content).await
    }

    /// Returns the entries of a folder, sorted by name.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such folder, if it is a file, or if it has more entries than
    /// the backend lists.
    async fn list(&self, path: &str) -> Result<Vec<DirEntry>>;

    /// Removes a file, or a symbolic link itself.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such file, or it is a folder.
    async fn remove(&self, path: &str) -> Result<()>;

    /// Returns the absolute path of the file itself, without `.` and `..` and with symbolic links
    /// followed, so that all paths of a file return the same one. Parts of the path that do not
    /// exist are unchanged.
    ///
    /// The default implementation does not resolve links.
    ///
    /// # Errors
    ///
    /// Returns an error if the path leaves the root.
    async fn real_path(&self, path: &str) -> Result<String> {
        let root = self.root().trim_end_matches('/');
        let full_path = if path.starts_with('/') {
            lexical(path)
        } else {
            lexical(&format!("{root}/{path}"))
        };
        match full_path.strip_prefix(root) {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => Ok(full_path),
            _ => Err(failure::outside(path, self.root())),
        }
    }

    /// Sets the permission bits of a file, in the form of [`Metadata::mode`]. The default
    /// implementation returns an error.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such file, and [`ErrorKind::Config`] if the backend has no
    /// such bits.
    async fn set_mode(&self, _path: &str, _mode: u32) -> Result<()> {
        Err(Error::new(
            ErrorKind::Config,
            "the files of this backend have no modes",
        ))
    }

    /// Returns the files whose path matches a pattern, sorted.
    ///
    /// # Errors
    ///
    /// Returns an error if the pattern is malformed, or the folder to search cannot be read.
    /// Unreadable entries below it are omitted.
    #[cfg(feature = "search")]
    async fn glob(&self, query: GlobQuery) -> Result<GlobMatches> {
        search::glob_through(self, query).await
    }

    /// Returns the lines that match a pattern, by file.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`glob`](Self::glob).
    #[cfg(feature = "search")]
    async fn grep(&self, query: GrepQuery) -> Result<GrepMatches> {
        search::grep_through(self, query).await
    }

    /// Returns the limits on commands that were set for this backend. Tools that run commands use
    /// them instead of their own. If your backend wraps another one, return the limits of the inner
    /// backend.
    fn command_limits(&self) -> CommandLimits {
        CommandLimits::default()
    }

    /// Returns the shell that runs the commands, which stays the same for the life of the backend.
    /// Defaults to [`Shell::Posix`]. If your backend wraps another one, return the shell of the
    /// inner backend.
    fn shell(&self) -> Shell {
        Shell::default()
    }

    /// Runs a command and waits for it. A command that fails or runs out of time is not an error:
    /// the output contains it.
    ///
    /// # Errors
    ///
    /// Returns an error if the command cannot be started, as with a backend that runs no commands.
    async fn execute(&self, _command: Command) -> Result<CommandOutput> {
        Err(no_commands())
    }

    /// Starts a command in the background and returns its id, which cannot be guessed from other
    /// ids.
    ///
    /// The command is ended by its time limit, or else by the time limit of
    /// [`command_limits`](Self::command_limits) if there is one, by [`stop`](Self::stop), and when
    /// the backend is dropped. A backend may forget the oldest commands that have ended and were
    /// not polled since.
    ///
    /// # Errors
    ///
    /// Returns an error if the command cannot be started, as with a backend that runs no commands.
    async fn start(&self, _command: Command) -> Result<String> {
        Err(no_commands())
    }

    /// Returns the output of a command of [`start`](Self::start) since the last poll, and the exit
    /// code or signal if it has ended. Once the end has been returned, the backend may forget the
    /// id.
    ///
    /// While the command runs, the backends of this crate leave an incomplete character at the end
    /// of the output, and what may be the beginning of a [`Secret`](crate::Secret), to the next
    /// poll.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::NotFound`] if the id is unknown.
    async fn poll(&self, id: &str) -> Result<BackgroundOutput> {
        Err(failure::no_command(id))
    }

    /// Waits until a command of [`start`](Self::start) has ended. [`poll`](Self::poll) returns its
    /// output. The default implementation waits forever: a run then ends the command at its own
    /// end, and does not report an earlier end of the command.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::NotFound`] if the id is unknown.
    ///
    /// # Cancel safety
    ///
    /// The command continues if the future is dropped.
    async fn wait(&self, _id: &str) -> Result<()> {
        std::future::pending().await
    }

    /// Ends a command of [`start`](Self::start) and forgets its id. Returns the output since the
    /// last poll.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::NotFound`] if the id is unknown.
    async fn stop(&self, id: &str) -> Result<BackgroundOutput> {
        Err(failure::no_command(id))
    }
}

fn no_commands() -> Error {
    Error::new(ErrorKind::Config, "this backend runs no commands")
}
