//! A workspace with read-only files of the configuration.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use crate::backend::{
    Backend, BackgroundOutput, Command, CommandLimits, CommandOutput, ContentHash, DirEntry,
    GlobMatches, GlobQuery, GrepMatches, GrepQuery, Metadata, Shell,
};
use crate::error::{Error, ErrorKind, Result};
use crate::util::path::{is_in_folder, lexical};

/// A workspace, with folders and files outside of it that can be read by their absolute paths.
#[derive(Debug)]
pub(crate) struct SharedFolders {
    inner: Arc<dyn Backend>,
    shared: Vec<SharedFolder>,
}

/// A folder or a file that can be read.
#[derive(Clone, Debug)]
pub(crate) struct SharedFolder {
    /// Its absolute path.
    path: String,
    backend: Arc<dyn Backend>,
}

impl SharedFolder {
    /// Creates a shared folder, or a shared file in the root of `backend`, from its absolute path.
    pub(crate) fn new(path: impl Into<String>, backend: Arc<dyn Backend>) -> Self {
        Self {
            path: path.into(),
            backend,
        }
    }

    fn contains(&self, path: &str) -> bool {
        is_in_folder(&self.path, path)
    }
}

impl SharedFolders {
    /// Returns the workspace `inner` with the folders and files of `shared`.
    pub(crate) fn over(inner: Arc<dyn Backend>, shared: Vec<SharedFolder>) -> Arc<dyn Backend> {
        if shared.is_empty() {
            return inner;
        }
        Arc::new(Self { inner, shared })
    }

    /// Returns the backend that has `path`, and the path in it.
    fn reader(&self, path: &str) -> (&dyn Backend, String) {
        if path.starts_with('/') {
            let path = lexical(path);
            if let Some(shared) = self.shared.iter().find(|shared| shared.contains(&path)) {
                return (&*shared.backend, path);
            }
        }
        (&*self.inner, path.to_owned())
    }

    /// Returns the workspace, or the error for a path in a shared folder, which cannot be written.
    fn writer(&self, path: &str) -> Result<&dyn Backend> {
        if path.starts_with('/') {
            let path = lexical(path);
            if self.shared.iter().any(|shared| shared.contains(&path)) {
                let text = format!("{path} belongs to the configuration and can only be read");
                return Err(Error::new(ErrorKind::PermissionDenied, text));
            }
        }
        Ok(&*self.inner)
    }
}

#[async_trait]
impl Backend for SharedFolders {
    fn root(&self) -> &str {
        self.inner.root()
    }

    async fn read(&self, path: &str) -> Result<Bytes> {
        let (backend, path) = self.reader(path);
        backend.read(&path).await
    }

    async fn read_range(&self, path: &str, offset: u64, len: usize) -> Result<Bytes> {
        let (backend, path) = self.reader(path);
        backend.read_range(&path, offset, len).await
    }

    async fn stat(&self, path: &str) -> Result<Metadata> {
        let (backend, path) = self.reader(path);
        backend.stat(&path).await
    }

    async fn exists(&self, path: &str) -> Result<bool> {
        let (backend, path) = self.reader(path);
        backend.exists(&path).await
    }

    async fn write(&self, path: &str, content: &[u8]) -> Result<()> {
        self.writer(path)?.write(path, content).await
    }

    async fn create_new(&self, path: &str, content: &[u8]) -> Result<()> {
        self.writer(path)?.create_new(path, content).await
    }

    async fn write_if_unchanged(
        &self,
        path: &str,
        expected: ContentHash,
        content: &[u8],
    ) -> Result<()> {
        let backend = self.writer(path)?;
        backend.write_if_unchanged(path, expected, content).await
    }

    async fn append(&self, path: &str, content: &[u8]) -> Result<()> {
        self.writer(path)?.append(path, content).await
    }

    async fn list(&self, path: &str) -> Result<Vec<DirEntry>> {
        let (backend, path) = self.reader(path);
        backend.list(&path).await
    }

    async fn remove(&self, path: &str) -> Result<()> {
        self.writer(path)?.remove(path).await
    }

    async fn real_path(&self, path: &str) -> Result<String> {
        let (backend, path) = self.reader(path);
        backend.real_path(&path).await
    }

    async fn set_mode(&self, path: &str, mode: u32) -> Result<()> {
        self.writer(path)?.set_mode(path, mode).await
    }

    async fn glob(&self, mut query: GlobQuery) -> Result<GlobMatches> {
        let (backend, path) = self.reader(query.path.as_deref().unwrap_or_default());
        if query.path.is_some() {
            query.path = Some(path);
        }
        backend.glob(query).await
    }

    async fn grep(&self, mut query: GrepQuery) -> Result<GrepMatches> {
        let (backend, path) = self.reader(query.path.as_deref().unwrap_or_default());
        if query.path.is_some() {
            query.path = Some(path);
        }
        backend.grep(query).await
    }

    fn command_limits(&self) -> CommandLimits {
        self.inner.command_limits()
    }

    fn shell(&self) -> Shell {
        self.inner.shell()
    }

    async fn execute(&self, command: Command) -> Result<CommandOutput> {
        self.inner.execute(command).await
    }

    async fn start(&self, command: Command) -> Result<String> {
        self.inner.start(command).await
    }

    async fn poll(&self, id: &str) -> Result<BackgroundOutput> {
        self.inner.poll(id).await
    }

    async fn wait(&self, id: &str) -> Result<()> {
        self.inner.wait(id).await
    }

    async fn stop(&self, id: &str) -> Result<BackgroundOutput> {
        self.inner.stop(id).await
    }
}
