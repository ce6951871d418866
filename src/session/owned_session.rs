//! A stored session outside of its runs.

use std::sync::Arc;

use crate::error::{ErrorKind, Result};

use super::agent_state::{AgentState, belongs_to_other_user};
use super::descendants::descendants;
use super::errors::not_found;
use super::lease::Lease;
use super::record::Record;
use super::session_store::SessionStore;

/// A stored session outside of its runs. With an owner, the session of another user is treated as
/// missing.
pub(crate) struct OwnedSession<'a> {
    pub(crate) store: &'a dyn SessionStore,
    pub(crate) id: &'a Arc<str>,
    pub(crate) owner: Option<&'a Arc<str>>,
}

/// The sessions of subagents that are removed with their parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChildSearch {
    /// Those of [`SessionStore::children`] and those of a list of the store, which may have only
    /// the newest sessions.
    All,
    /// Those of [`SessionStore::children`].
    #[cfg_attr(not(feature = "server"), expect(dead_code))]
    ById,
}

impl OwnedSession<'_> {
    /// Returns the state; `None` if the session does not exist.
    pub(crate) async fn state(&self) -> Result<Option<AgentState>> {
        let stored_session = self.store.load(self.id).await?;
        let state = stored_session.map(|session| session.state);
        Ok(state.filter(|state| !belongs_to_other_user(state, self.owner)))
    }

    /// Checks that the session exists and is not one of another user. Without an owner, nothing is
    /// checked.
    pub(crate) async fn check_owner(&self) -> Result<()> {
        if self.owner.is_some() && self.state().await?.is_none() {
            return Err(not_found(self.id));
        }
        Ok(())
    }

    /// Leases the session. The lease itself does not check the owner, but another user does not
    /// learn that the session is in use.
    pub(crate) async fn lease(&self) -> Result<Lease> {
        let outcome = self.store.lease(self.id).await;
        if self.owner.is_some()
            && let Err(error) = &outcome
            && error.kind() == ErrorKind::SessionBusy
            && let Some(session) = self.store.load(self.id).await?
            && belongs_to_other_user(&session.state, self.owner)
        {
            return Err(not_found(self.id));
        }
        outcome
    }

    /// Sets the title; an empty one removes it.
    pub(crate) async fn set_title(&self, title: Arc<str>) -> Result<()> {
        let lease = self.lease().await?;
        let mut state = self.state().await?.ok_or_else(|| not_found(self.id))?;
        state.title = Some(title).filter(|title| !title.trim().is_empty());
        self.store.append(&lease, vec![Record::about(&state)]).await
    }

    /// Copies the session to a new id. The copy of a subagent's session has no parent: it is a
    /// session of its own, which is in lists and is not removed with the parent.
    pub(crate) async fn fork(&self, new_id: &str) -> Result<()> {
        let stored_session = self.store.load(self.id).await?;
        let mut session = stored_session.ok_or_else(|| not_found(self.id))?;
        if belongs_to_other_user(&session.state, self.owner) {
            return Err(not_found(self.id));
        }
        if session.state.parent.take().is_some() {
            return self.store.create(new_id, session).await;
        }
        drop(session);
        self.store.fork(self.id, new_id).await
    }

    /// Copies the first messages of the session to a new id, without a parent.
    pub(crate) async fn fork_at(&self, new_id: &str, messages: usize) -> Result<()> {
        self.check_owner().await?;
        self.store.fork_at(self.id, new_id, messages).await
    }

    /// Removes the session after the sessions of its subagents, so that a removal that is dropped
    /// or fails can be repeated. Adds the ids of the sessions that existed to `removed_ids`, also
    /// before an error.
    pub(crate) async fn delete(
        &self,
        search: ChildSearch,
        removed_ids: &mut Vec<Arc<str>>,
    ) -> Result<()> {
        if self.owner.is_some() && self.state().await?.is_none() {
            return Ok(());
        }
        // No run may begin before the sessions of its subagents are removed.
        let lease = match self.store.lease(self.id).await {
            Ok(lease) => Some(lease),
            Err(error) if error.kind() == ErrorKind::SessionBusy => return Err(error),
            // A session that no run can have, such as one over a limit, can be removed.
            Err(_) => None,
        };

        let mut children = self.store.children(self.id).await?;
        if search == ChildSearch::All {
            children = descendants(self.id, children, self.store.list().await?);
        }

        let mut first_error = Ok(());
        for id in children.into_iter().rev() {
            match self.store.delete(&id).await {
                Ok(true) => removed_ids.push(id),
                Ok(false) => {}
                Err(error) => first_error = first_error.and(Err(error)),
            }
        }
        first_error?;
        drop(lease);
        if self.store.delete(self.id).await? {
            removed_ids.push(self.id.clone());
        }
        Ok(())
    }
}
