//! What the tests of the shipped hooks share.

use agentcore::backend::{Backend, DirEntry, MemoryBackend, Metadata};
use agentcore::{Error, ErrorKind, Result, async_trait};
use bytes::Bytes;

/// A file of `tests/data/hooks` without its last line end.
pub fn golden(file: &str) -> &str {
    file.strip_suffix('\n').unwrap_or(file)
}

pub fn pretty(value: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap()
}

/// Files in memory that nobody may change.
#[derive(Clone, Debug, Default)]
pub struct ReadOnly(pub MemoryBackend);

fn refused<T>() -> Result<T> {
    Err(Error::new(
        ErrorKind::PermissionDenied,
        "the disk is read-only",
    ))
}

#[async_trait]
impl Backend for ReadOnly {
    fn root(&self) -> &str {
        self.0.root()
    }

    async fn read(&self, path: &str) -> Result<Bytes> {
        self.0.read(path).await
    }

    async fn stat(&self, path: &str) -> Result<Metadata> {
        self.0.stat(path).await
    }

    async fn write(&self, _path: &str, _content: &[u8]) -> Result<()> {
        refused()
    }

    async fn list(&self, path: &str) -> Result<Vec<DirEntry>> {
        self.0.list(path).await
    }

    async fn remove(&self, _path: &str) -> Result<()> {
        refused()
    }
}
