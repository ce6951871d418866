//! A stored session outside of its runs.

use std::sync::Arc;

use crate::error::{Error, Result};

use super::agent_state::{AgentState, belongs_to_other_user};
use super::descendants::descendants;
use super::errors::not_found;
use super::record::Record;
use super::session_store::SessionStore;

/// A stored session outside of its runs. With an owner, the session of another user does not
/// exist.
pub(crate) struct OwnedSession<'a> {
    pub(crate) store: &'a dyn SessionStore,
    pub(crate) id: &'a Arc<str>,
    pub(crate) owner: Option<&'a Arc<str>>,
}

/// The sessions of subagents that are removed with their parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChildSearch {
    /// All, which takes a list of the store.
    All,
    /// Those of [`SessionStore::children`].
    ById,
}

impl OwnedSession<'_> {
    /// Returns the state; `None` if the session does not exist.
    pub(crate) async fn state(&self) -> Result<Option<AgentState>> {
        let stored_session = self.store.load(self.id).await?;
        let state = stored_session.map(|session| session.state);
        Ok(state.filter(|state| !belongs_to_other_user(state, self.owner)))
    }

    /// Checks that the session is not one of another user. Returns `true` if it is a subagent's
    /// session of the owner.
    pub(crate) async fn check_owner(&self) -> Result<bool> {
        if self.owner.is_none() {
            return Ok(false);
        }
        let state = self.state().await?.ok_or_else(|| not_found(self.id))?;
        Ok(state.parent.is_some())
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
        let is_child = self.check_owner().await?;
        self.store.fork(self.id, new_id).await?;
        self.detach(is_child, new_id).await
    }

    /// Copies the first messages of the session to a new id.
    pub(crate) async fn fork_at(&self, new_id: &str, messages: usize) -> Result<()> {
        let is_child = self.check_owner().await?;
        self.store.fork_at(self.id, new_id, messages).await?;
        self.detach(is_child, new_id).await
    }

    /// Removes the parent of a copy, which is in no list with one, and is not removed with it.
    async fn detach(&self, is_child: bool, copy_id: &str) -> Result<()> {
        if !is_child {
            return Ok(());
        }
        let lease = self.store.lease(copy_id).await?;
        let stored_session = self.store.load(copy_id).await?;
        let mut state = stored_session.ok_or_else(|| not_found(copy_id))?.state;
        state.parent = None;
        self.store.append(&lease, vec![Record::about(&state)]).await
    }

    /// Removes the session after the sessions of its subagents, so that a removal that is dropped
    /// or fails can be repeated. Returns the ids of the sessions that existed.
    pub(crate) async fn delete(&self, search: ChildSearch) -> Result<Vec<Arc<str>>> {
        let mut removed_ids = Vec::new();
        if self.owner.is_some() && self.state().await?.is_none() {
            return Ok(removed_ids);
        }
        if self.store.is_leased(self.id).await? {
            return Err(Error::session_busy(self.id));
        }

        let children = match search {
            ChildSearch::All => descendants(self.id, self.store.list().await?),
            ChildSearch::ById => self.store.children(self.id).await?,
        };
        let mut first_error = Ok(());
        for id in children.into_iter().rev() {
            match self.store.delete(&id).await {
                Ok(true) => removed_ids.push(id),
                Ok(false) => {}
                Err(error) => first_error = first_error.and(Err(error)),
            }
        }
        first_error?;
        if self.store.delete(self.id).await? {
            removed_ids.push(self.id.clone());
        }
        Ok(removed_ids)
    }
}
