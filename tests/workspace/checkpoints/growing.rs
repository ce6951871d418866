//! A file that grows while its checkpoint is stored.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use agentcore::Result;
use agentcore::backend::{Backend, DirEntry, LocalBackend, Metadata};
use agentcore::hooks::FileCheckpoints;
use async_trait::async_trait;
use bytes::Bytes;
use serde_json::json;

use super::Place;

/// The limit on the content of a checkpoint.
const LIMIT: usize = 1_500_000;

/// The number of reads after which the file no longer grows.
const READS: usize = 10;

/// A folder whose files grow between reads, and end far above the limit.
#[derive(Clone, Debug)]
struct Growing {
    inner: LocalBackend,
    is_changed: Arc<AtomicBool>,
    reads: Arc<AtomicUsize>,
    bytes: Arc<AtomicUsize>,
}

#[async_trait]
impl Backend for Growing {
    fn root(&self) -> &str {
        self.inner.root()
    }

    async fn read(&self, path: &str) -> Result<Bytes> {
        if self.is_changed.load(Ordering::Relaxed) {
            return self.inner.read(path).await;
        }
        Err(io::Error::from(io::ErrorKind::FileTooLarge).into())
    }

    async fn read_range(&self, path: &str, offset: u64, len: usize) -> Result<Bytes> {
        if self.is_changed.load(Ordering::Relaxed) {
            return self.inner.read_range(path, offset, len).await;
        }
        if self.reads.fetch_add(1, Ordering::Relaxed) >= READS {
            return Ok(Bytes::new());
        }
        self.bytes.fetch_add(len, Ordering::Relaxed);
        Ok(vec![0; len].into())
    }

    async fn stat(&self, path: &str) -> Result<Metadata> {
        self.inner.stat(path).await
    }

    async fn write(&self, path: &str, content: &[u8]) -> Result<()> {
        self.is_changed.store(true, Ordering::Relaxed);
        self.inner.write(path, content).await
    }

    async fn list(&self, path: &str) -> Result<Vec<DirEntry>> {
        self.inner.list(path).await
    }

    async fn remove(&self, path: &str) -> Result<()> {
        self.inner.remove(path).await
    }

    async fn real_path(&self, path: &str) -> Result<String> {
        self.inner.real_path(path).await
    }
}

#[tokio::test]
async fn file_that_grows_over_the_limit_is_read_up_to_the_limit() {
    let place = Place::new();
    place.put("a", "0");
    let backend = Growing {
        inner: LocalBackend::new(place.root()).unwrap(),
        is_changed: Arc::default(),
        reads: Arc::default(),
        bytes: Arc::default(),
    };
    let files = FileCheckpoints::open(backend.clone(), place.folder()).unwrap();
    let files = files.max_file_size(LIMIT as u64);
    place.changes(&files, json!([["write", "a", "1"]])).await;
    assert_eq!(place.get("a").as_deref(), Some("1"));
    assert_eq!(backend.bytes.load(Ordering::Relaxed), LIMIT + 1);
}
