//! A stored session outside of its runs.

use std::sync::Arc;

use crate::error::{ErrorKind, Result};

use super::agent_state::{AgentState, belongs_to_other_user};
use super::descendants::descendants;
use super::errors::not_found;
use super::json::cut;
use super::record::Record;
use super::session_store::SessionStore;
use super::stored::StoredSession;

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
    /// All, which takes a list of the store.
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

    /// Copies the session to a new id. The copy of a subagent's session has no parent: it is a
    /// session of its own, which is in lists and is not removed with the parent.
    pub(crate) async fn fork(&self, new_id: &str) -> Result<()> {
        match self.without_parent().await? {
            Some(session) => self.store.create(new_id, session).await,
            None => self.store.fork(self.id, new_id).await,
        }
    }

    /// Copies the first messages of the session to a new id, without a parent.
    pub(crate) async fn fork_at(&self, new_id: &str, messages: usize) -> Result<()> {
        match self.without_parent().await? {
            Some(session) => {
                let beginning = cut(self.id, session, messages)?;
                self.store.create(new_id, beginning).await
            }
            None => self.store.fork_at(self.id, new_id, messages).await,
        }
    }

    /// Returns the session without its parent; `None` if it has none.
    async fn without_parent(&self) -> Result<Option<StoredSession>> {
        let stored_session = self.store.load(self.id).await?;
        let mut session = stored_session.ok_or_else(|| not_found(self.id))?;
        if belongs_to_other_user(&session.state, self.owner) {
            return Err(not_found(self.id));
        }
        let parent = session.state.parent.take();
        Ok(parent.map(|_| session))
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
        drop(lease);
        if self.store.delete(self.id).await? {
            removed_ids.push(self.id.clone());
        }
        Ok(())
    }
}
