//! What the tests of the shipped hooks share.

use agentcore::backend::{Backend, DirEntry, MemoryBackend, Metadata};
use agentcore::testing::ScriptedModel;
use agentcore::{Error, ErrorKind, Hook, Result, async_trait};
use bytes::Bytes;

use crate::kit::{agent, warnings, watch};

/// A file of `tests/data/hooks` without its last line end.
pub fn golden(file: &str) -> &str {
    file.strip_suffix('\n').unwrap_or(file)
}

pub fn pretty(value: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap()
}

/// The system prompt of the first request of an agent with this hook, and the warnings of the run.
pub async fn prompt(hook: impl Hook) -> (String, Vec<String>) {
    let model = ScriptedModel::new().say("done");
    let agent = agent(model.clone()).hook(hook).build().unwrap();
    let (messages, output) = watch(agent.run("Go")).await;
    output.unwrap();
    (model.requests()[0].system.to_string(), warnings(&messages))
}

/// A workspace in memory that has these files.
pub async fn with(files: &[(&str, &[u8])]) -> MemoryBackend {
    let backend = MemoryBackend::new();
    for (path, content) in files {
        backend.write(path, content).await.unwrap();
    }
    backend
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
