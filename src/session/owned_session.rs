//! A stored session outside of its runs.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::Result;

use super::agent_state::{AgentState, belongs_to_other_user};
use super::errors::not_found;
use super::info::SessionInfo;
use super::record::Record;
use super::session_store::SessionStore;

/// A stored session outside of its runs. With an owner, the session of another user does not
/// exist.
pub(crate) struct OwnedSession<'a> {
    pub(crate) store: &'a dyn SessionStore,
    pub(crate) id: &'a Arc<str>,
    pub(crate) owner: Option<&'a Arc<str>>,
}

impl OwnedSession<'_> {
    /// Returns the state; `None` if the session does not exist.
    pub(crate) async fn state(&self) -> Result<Option<AgentState>> {
        let stored_session = self.store.load(self.id).await?;
        let state = stored_session.map(|session| session.state);
        Ok(state.filter(|state| !belongs_to_other_user(state, self.owner)))
    }

    /// Checks that the session is not one of another user.
    pub(crate) async fn check_owner(&self) -> Result<()> {
        if self.owner.is_some() && self.state().await?.is_none() {
            return Err(not_found(self.id));
        }
        Ok(())
    }

    /// Sets the title; an empty one removes it.
    pub(crate) async fn set_title(&self, title: Arc<str>) -> Result<()> {
        let lease = self.store.lease(self.id).await?;
        let mut state = self.state().await?.ok_or_else(|| not_found(self.id))?;
        state.title = Some(title).filter(|title| !title.trim().is_empty());
        self.store.append(&lease, vec![Record::about(&state)]).await
    }

    /// Copies the session to a new id.
    pub(crate) async fn fork(&self, new_id: &str) -> Result<()> {
        self.check_owner().await?;
        self.store.fork(self.id, new_id).await
    }

    /// Copies the first messages of the session to a new id.
    pub(crate) async fn fork_at(&self, new_id: &str, messages: usize) -> Result<()> {
        self.check_owner().await?;
        self.store.fork_at(self.id, new_id, messages).await
    }

    /// Removes the session and the sessions of its subagents. Returns the ids of the sessions that
    /// existed.
    pub(crate) async fn delete(&self) -> Result<Vec<Arc<str>>> {
        let mut removed_ids = Vec::new();
        if self.owner.is_some() && self.state().await?.is_none() {
            return Ok(removed_ids);
        }
        if self.store.delete(self.id).await? {
            removed_ids.push(self.id.clone());
        }

        let list = self.store.list().await?;
        let mut first_error = Ok(());
        for id in subagent_sessions(self.id, &list) {
            match self.store.delete(&id).await {
                Ok(true) => removed_ids.push(id),
                Ok(false) => {}
                Err(error) => first_error = first_error.and(Err(error)),
            }
        }
        first_error.map(|()| removed_ids)
    }
}

/// Returns the sessions of the subagents of a session, and of theirs.
fn subagent_sessions(id: &Arc<str>, list: &[SessionInfo]) -> Vec<Arc<str>> {
    let mut children: HashMap<&str, Vec<&Arc<str>>> = HashMap::new();
    for info in list {
        if let Some(parent) = &info.parent {
            children.entry(parent).or_default().push(&info.id);
        }
    }

    let mut ids = Vec::new();
    let mut parents = vec![id];
    while let Some(parent) = parents.pop() {
        // Each list is taken once, so that the loop ends even if sessions name each other.
        for child in children.remove(&**parent).unwrap_or_default() {
            ids.push(child.clone());
            parents.push(child);
        }
    }
    ids
}
