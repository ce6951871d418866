//! `SessionStore` for `Arc<T>`.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::error::Result;

use super::agent_state::AgentState;
use super::info::SessionInfo;
use super::lease::Lease;
use super::record::Record;
use super::session_store::SessionStore;
use super::stored::StoredSession;

#[async_trait]
impl<T: SessionStore + ?Sized> SessionStore for Arc<T> {
    async fn load(&self, id: &str) -> Result<Option<StoredSession>> {
        (**self).load(id).await
    }

    async fn append(&self, lease: &Lease, records: Vec<Record>) -> Result<()> {
        (**self).append(lease, records).await
    }

    async fn save(&self, lease: &Lease, state: &AgentState) -> Result<()> {
        (**self).save(lease, state).await
    }

    async fn list(&self) -> Result<Vec<SessionInfo>> {
        (**self).list().await
    }

    async fn delete(&self, id: &str) -> Result<bool> {
        (**self).delete(id).await
    }

    async fn lease(&self, id: &str) -> Result<Lease> {
        (**self).lease(id).await
    }

    async fn create(&self, id: &str, session: StoredSession) -> Result<()> {
        (**self).create(id, session).await
    }

    async fn fork(&self, from: &str, to: &str) -> Result<()> {
        (**self).fork(from, to).await
    }

    async fn fork_at(&self, from: &str, to: &str, messages: usize) -> Result<()> {
        (**self).fork_at(from, to, messages).await
    }

    async fn latest(&self, cwd: &str) -> Result<Option<SessionInfo>> {
        (**self).latest(cwd).await
    }

    async fn prune(&self, older_than: Duration) -> Result<usize> {
        (**self).prune(older_than).await
    }

    async fn export(&self, id: &str) -> Result<String> {
        (**self).export(id).await
    }

    async fn import(&self, id: &str, json: &[u8]) -> Result<()> {
        (**self).import(id, json).await
    }
}
