//! A store in memory that calls functions of a test in its methods.

use agentcore::session::{Lease, Record, SessionInfo, StoredSession};
use agentcore::{AgentState, Result, SessionStore, ThreadStore, async_trait};

/// The functions that a [`Spied`] store calls in its methods, before their effects unless
/// documented otherwise.
#[async_trait]
pub trait Spy: Send + Sync + 'static {
    async fn append(&self, _records: &[Record]) -> Result<()> {
        Ok(())
    }

    async fn save(&self, _state: &AgentState) -> Result<()> {
        Ok(())
    }

    async fn load(&self) {}

    /// Is called after a load has read and before it returns.
    async fn read(&self) {}

    async fn list(&self) {}

    fn loaded(&self, found: Option<StoredSession>) -> Option<StoredSession> {
        found
    }

    fn leased(&self, lease: Lease) -> Lease {
        lease
    }
}

pub struct Spied<S>(pub ThreadStore, pub S);

#[async_trait]
impl<S: Spy> SessionStore for Spied<S> {
    async fn load(&self, id: &str) -> Result<Option<StoredSession>> {
        self.1.load().await;
        let session = self.0.load(id).await?;
        self.1.read().await;
        Ok(self.1.loaded(session))
    }

    async fn append(&self, lease: &Lease, records: Vec<Record>) -> Result<()> {
        self.1.append(&records).await?;
        self.0.append(lease, records).await
    }

    async fn save(&self, lease: &Lease, state: &AgentState) -> Result<()> {
        self.1.save(state).await?;
        SessionStore::save(&self.0, lease, state).await
    }

    async fn list(&self) -> Result<Vec<SessionInfo>> {
        self.1.list().await;
        self.0.list().await
    }

    async fn delete(&self, id: &str) -> Result<bool> {
        SessionStore::delete(&self.0, id).await
    }

    async fn lease(&self, id: &str) -> Result<Lease> {
        self.0.lease(id).await.map(|lease| self.1.leased(lease))
    }

    async fn is_leased(&self, id: &str) -> Result<bool> {
        self.0.is_leased(id).await
    }
}
