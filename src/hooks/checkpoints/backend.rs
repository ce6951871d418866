//! [`FileCheckpoints`] as a backend, which captures each file before it changes it.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::MutexGuard;

use crate::backend::{
    Backend, BackgroundOutput, Command, CommandLimits, CommandOutput, ContentHash, DirEntry,
    EntryKind, Metadata, Shell, entry_path,
};
#[cfg(feature = "search")]
use crate::backend::{GlobMatches, GlobQuery, GrepMatches, GrepQuery};
use crate::error::Result;

use super::active_runs::ActiveRun;
use super::capture::ResolvedPath;
use super::file_checkpoints::FileCheckpoints;
use super::record::FileContent;

/// A change of a file by runs in progress. The file is locked against other changes.
struct Change<'a> {
    checkpoints: &'a FileCheckpoints,
    /// The runs that the change belongs to.
    runs: Vec<Arc<ActiveRun>>,
    /// The path that the caller named.
    path: &'a str,
    file: ResolvedPath,
    _path_lock: MutexGuard<'a, ()>,
}

impl Change<'_> {
    /// Stores the current state of the file, and `after` as the content that it is about to get.
    /// When this returns `Ok`, the change may proceed.
    async fn capture(&self, after: FileContent) -> Result<()> {
        self.checkpoints
            .capture_for_runs(&self.runs, &self.file, after)
            .await
    }

    /// Returns the path by which to change the file. A path that names a folder is left to the
    /// backend to refuse.
    fn target_path(&self) -> &str {
        let path = self.path;
        if path.is_empty() || path.ends_with('/') || path.ends_with("/.") || path.ends_with("..") {
            path
        } else {
            &self.file.path
        }
    }
}

impl FileCheckpoints {
    /// Begins a change of the file at `path`, or at the target of a link there. Returns `None` if
    /// no run is in progress: the change is then left to the backend.
    async fn begin_change<'a>(&'a self, path: &'a str) -> Result<Option<Change<'a>>> {
        self.begin(path, self.resolve(path)).await
    }

    /// Like [`begin_change`](Self::begin_change), but for the removal of a file, or of a link
    /// itself.
    async fn begin_removal<'a>(&'a self, path: &'a str) -> Result<Option<Change<'a>>> {
        self.begin(path, self.resolve_without_link(path)).await
    }

    /// Begins a change of the file that `resolution` returns, which is not polled if no run is in
    /// progress.
    async fn begin<'a>(
        &'a self,
        path: &'a str,
        resolution: impl Future<Output = Result<ResolvedPath>>,
    ) -> Result<Option<Change<'a>>> {
        let runs = self.inner.runs.current();
        if runs.is_empty() {
            return Ok(None);
        }

        let file = resolution.await?;
        let path_lock = self.lock_path(&file).await;
        Ok(Some(Change {
            checkpoints: self,
            runs,
            path,
            file,
            _path_lock: path_lock,
        }))
    }

    /// Resolves the links in the folder of a path, but not its last component: removing a link
    /// leaves its target alone.
    async fn resolve_without_link(&self, path: &str) -> Result<ResolvedPath> {
        let Some((folder, name)) = split_name(path) else {
            return self.resolve(path).await;
        };

        let folder = self.resolve(folder).await?;
        let entries = self.inner.backend.list(&folder.path).await?;
        let mut links = entries
            .iter()
            .filter(|entry| entry.kind == EntryKind::Symlink);
        let is_link = links.any(|entry| entry.name == name);
        Ok(ResolvedPath {
            path: entry_path(&folder.path, name),
            relative: entry_path(&folder.relative, name).into(),
            is_link,
        })
    }
}

/// Returns the folder of a path and the name in it, if it ends with one.
fn split_name(path: &str) -> Option<(&str, &str)> {
    let (folder, name) = match path.rfind('/') {
        Some(0) => ("/", &path[1..]),
        Some(at) => (&path[..at], &path[at + 1..]),
        None => ("", path),
    };
    (!matches!(name, "" | "." | "..")).then_some((folder, name))
}

#[async_trait]
impl Backend for FileCheckpoints {
    fn root(&self) -> &str {
        self.inner.backend.root()
    }

    async fn read(&self, path: &str) -> Result<Bytes> {
        self.inner.backend.read(path).await
    }

    async fn read_range(&self, path: &str, offset: u64, len: usize) -> Result<Bytes> {
        self.inner.backend.read_range(path, offset, len).await
    }

    async fn stat(&self, path: &str) -> Result<Metadata> {
        self.inner.backend.stat(path).await
    }

    async fn exists(&self, path: &str) -> Result<bool> {
        self.inner.backend.exists(path).await
    }

    async fn write(&self, path: &str, content: &[u8]) -> Result<()> {
        let backend = &self.inner.backend;
        let Some(change) = self.begin_change(path).await? else {
            return backend.write(path, content).await;
        };
        change.capture(FileContent::of(content)).await?;
        backend.write(change.target_path(), content).await
    }

    async fn create_new(&self, path: &str, content: &[u8]) -> Result<()> {
        let backend = &self.inner.backend;
        let Some(change) = self.begin_change(path).await? else {
            return backend.create_new(path, content).await;
        };
        change.capture(FileContent::of(content)).await?;
        backend.create_new(change.target_path(), content).await
    }

    async fn write_if_unchanged(
        &self,
        path: &str,
        expected: ContentHash,
        content: &[u8],
    ) -> Result<()> {
        let backend = &self.inner.backend;
        let Some(change) = self.begin_change(path).await? else {
            return backend.write_if_unchanged(path, expected, content).await;
        };
        change.capture(FileContent::of(content)).await?;
        backend
            .write_if_unchanged(change.target_path(), expected, content)
            .await
    }

    async fn append(&self, path: &str, content: &[u8]) -> Result<()> {
        let backend = &self.inner.backend;
        let Some(change) = self.begin_change(path).await? else {
            return backend.append(path, content).await;
        };
        let after = match self.fingerprint(&change.file.path, content).await? {
            FileContent::Absent => FileContent::of(content),
            after => after,
        };
        change.capture(after).await?;
        backend.append(change.target_path(), content).await
    }

    async fn list(&self, path: &str) -> Result<Vec<DirEntry>> {
        self.inner.backend.list(path).await
    }

    async fn remove(&self, path: &str) -> Result<()> {
        let backend = &self.inner.backend;
        let Some(change) = self.begin_removal(path).await? else {
            return backend.remove(path).await;
        };
        change.capture(FileContent::Absent).await?;
        backend.remove(change.target_path()).await
    }

    async fn real_path(&self, path: &str) -> Result<String> {
        self.inner.backend.real_path(path).await
    }

    async fn set_mode(&self, path: &str, mode: u32) -> Result<()> {
        let backend = &self.inner.backend;
        let Some(change) = self.begin_change(path).await? else {
            return backend.set_mode(path, mode).await;
        };
        let after = self.fingerprint(&change.file.path, &[]).await?;
        change.capture(after).await?;
        backend.set_mode(change.target_path(), mode).await
    }

    #[cfg(feature = "search")]
    async fn glob(&self, query: GlobQuery) -> Result<GlobMatches> {
        self.inner.backend.glob(query).await
    }

    #[cfg(feature = "search")]
    async fn grep(&self, query: GrepQuery) -> Result<GrepMatches> {
        self.inner.backend.grep(query).await
    }

    fn command_limits(&self) -> CommandLimits {
        self.inner.backend.command_limits()
    }

    fn shell(&self) -> Shell {
        self.inner.backend.shell()
    }

    async fn execute(&self, command: Command) -> Result<CommandOutput> {
        self.inner.backend.execute(command).await
    }

    async fn start(&self, command: Command) -> Result<String> {
        self.inner.backend.start(command).await
    }

    async fn poll(&self, id: &str) -> Result<BackgroundOutput> {
        self.inner.backend.poll(id).await
    }

    async fn wait(&self, id: &str) -> Result<()> {
        self.inner.backend.wait(id).await
    }

    async fn stop(&self, id: &str) -> Result<BackgroundOutput> {
        self.inner.backend.stop(id).await
    }
}
