//! `Backend` for `Arc<T>`.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use crate::error::Result;

use super::backend::Backend;
use super::command::{BackgroundOutput, Command, CommandLimits, CommandOutput};
use super::entry::{ContentHash, DirEntry, Metadata};
#[cfg(feature = "search")]
use super::search::{GlobMatches, GlobQuery, GrepMatches, GrepQuery};
use super::shell::Shell;

#[async_trait]
impl<T: Backend + ?Sized> Backend for Arc<T> {
    fn root(&self) -> &str {
        (**self).root()
    }

    async fn read(&self, path: &str) -> Result<Bytes> {
        (**self).read(path).await
    }

    async fn read_range(&self, path: &str, offset: u64, len: usize) -> Result<Bytes> {
        (**self).read_range(path, offset, len).await
    }

    async fn stat(&self, path: &str) -> Result<Metadata> {
        (**self).stat(path).await
    }

    async fn exists(&self, path: &str) -> Result<bool> {
        (**self).exists(path).await
    }

    async fn write(&self, path: &str, content: &[u8]) -> Result<()> {
        (**self).write(path, content).await
    }

    async fn create_new(&self, path: &str, content: &[u8]) -> Result<()> {
        (**self).create_new(path, content).await
    }

    async fn write_if_unchanged(
        &self,
        path: &str,
        expected: ContentHash,
        content: &[u8],
    ) -> Result<()> {
        (**self).write_if_unchanged(path, expected, content).await
    }

    async fn append(&self, path: &str, content: &[u8]) -> Result<()> {
        (**self).append(path, content).await
    }

    async fn list(&self, path: &str) -> Result<Vec<DirEntry>> {
        (**self).list(path).await
    }

    async fn remove(&self, path: &str) -> Result<()> {
        (**self).remove(path).await
    }

    async fn real_path(&self, path: &str) -> Result<String> {
        (**self).real_path(path).await
    }

    async fn set_mode(&self, path: &str, mode: u32) -> Result<()> {
        (**self).set_mode(path, mode).await
    }

    #[cfg(feature = "search")]
    async fn glob(&self, query: GlobQuery) -> Result<GlobMatches> {
        (**self).glob(query).await
    }

    #[cfg(feature = "search")]
    async fn grep(&self, query: GrepQuery) -> Result<GrepMatches> {
        (**self).grep(query).await
    }

    fn command_limits(&self) -> CommandLimits {
        (**self).command_limits()
    }

    fn shell(&self) -> Shell {
        (**self).shell()
    }

    async fn execute(&self, command: Command) -> Result<CommandOutput> {
        (**self).execute(command).await
    }

    async fn start(&self, command: Command) -> Result<String> {
        (**self).start(command).await
    }

    async fn poll(&self, id: &str) -> Result<BackgroundOutput> {
        (**self).poll(id).await
    }

    async fn wait(&self, id: &str) -> Result<()> {
        (**self).wait(id).await
    }

    async fn stop(&self, id: &str) -> Result<BackgroundOutput> {
        (**self).stop(id).await
    }
}
