//! Files in memory whose calls a test observes and changes.

use std::fmt;
use std::sync::Arc;

use agentcore::backend::{Backend, DirEntry, MemoryBackend, Metadata};
use agentcore::{Error, ErrorKind, Result, async_trait};
use bytes::Bytes;

type OnChange = dyn Fn(&str) -> Result<()> + Send + Sync;
type OnStat = dyn Fn(&str, Metadata) -> Metadata + Send + Sync;

/// Files in memory whose calls a test observes and changes.
#[derive(Clone)]
pub struct Watched {
    pub files: MemoryBackend,
    on_change: Arc<OnChange>,
    on_stat: Arc<OnStat>,
}

impl Watched {
    pub fn new(files: MemoryBackend) -> Self {
        Self {
            files,
            on_change: Arc::new(|_| Ok(())),
            on_stat: Arc::new(|_, metadata| metadata),
        }
    }

    /// Files that cannot be changed.
    pub fn read_only(files: MemoryBackend) -> Self {
        Self::new(files).on_change(|_| {
            let text = "the disk is read-only";
            Err(Error::new(ErrorKind::PermissionDenied, text))
        })
    }

    /// Sets the function that is called before a file is written or removed. Its error is the error
    /// of the call.
    pub fn on_change(self, on_change: impl Fn(&str) -> Result<()> + Send + Sync + 'static) -> Self {
        Self {
            on_change: Arc::new(on_change),
            ..self
        }
    }

    /// Sets the function that changes the metadata of a path before it is returned.
    pub fn on_stat(
        self,
        on_stat: impl Fn(&str, Metadata) -> Metadata + Send + Sync + 'static,
    ) -> Self {
        Self {
            on_stat: Arc::new(on_stat),
            ..self
        }
    }
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Watched").field(&self.files).finish()
    }
}

#[async_trait]
impl Backend for Watched {
    fn root(&self) -> &str {
        self.files.root()
    }

    async fn read(&self, path: &str) -> Result<Bytes> {
        self.files.read(path).await
    }

    async fn stat(&self, path: &str) -> Result<Metadata> {
        let metadata = self.files.stat(path).await?;
        Ok((self.on_stat)(path, metadata))
    }

    async fn write(&self, path: &str, content: &[u8]) -> Result<()> {
        (self.on_change)(path)?;
        self.files.write(path, content).await
    }

    async fn create_new(&self, path: &str, content: &[u8]) -> Result<()> {
        (self.on_change)(path)?;
        self.files.create_new(path, content).await
    }

    async fn list(&self, path: &str) -> Result<Vec<DirEntry>> {
        self.files.list(path).await
    }

    async fn remove(&self, path: &str) -> Result<()> {
        (self.on_change)(path)?;
        self.files.remove(path).await
    }
}
