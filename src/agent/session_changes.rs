//! The changes of a stored session outside a run.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::Result;
use crate::session::{Record, SessionInfo, is_of_another, not_found};

use super::session::Session;

impl Session {
    /// Sets the session's title; with an empty one, lists show the user's first input instead.
    ///
    /// Dropping the future leaves the title as it was or gives the session the new one.
    ///
    /// # Errors
    ///
    /// [`SessionNotFound`](crate::ErrorKind::SessionNotFound) if the session does not exist,
    /// [`SessionBusy`](crate::ErrorKind::SessionBusy) while a run holds it, or the store's error.
    pub async fn set_title(&self, title: impl Into<Arc<str>>) -> Result<()> {
        let store = self.agent.store();
        let lease = store.lease(&self.id).await?;
        let stored = store.load(&self.id).await?;
        let mut state = stored.ok_or_else(|| not_found(&self.id))?.state;
        if is_of_another(&state, self.owner.as_ref()) {
            return Err(not_found(&self.id));
        }
        state.title = Some(title.into()).filter(|title: &Arc<str>| !title.trim().is_empty());
        store.append(&lease, vec![Record::about(&state)]).await
    }

    /// Copies the conversation to the new id; this one stays as it is.
    ///
    /// # Errors
    ///
    /// [`SessionNotFound`](crate::ErrorKind::SessionNotFound) when there is nothing to copy,
    /// [`Conflict`](crate::ErrorKind::Conflict) when the new id is taken.
    pub async fn fork(&self, new_id: impl Into<Arc<str>>) -> Result<Self> {
        let id = new_id.into();
        self.check_owner().await?;
        self.agent.store().fork(&self.id, &id).await?;
        Ok(self.renamed(id))
    }

    /// Copies the conversation's first `messages` messages to the new id, to continue from there
    /// again. A cut between a call and its results moves to their end; see
    /// [`SessionStore::fork_at`](crate::SessionStore::fork_at).
    ///
    /// # Errors
    ///
    /// As [`fork`](Session::fork), and [`InvalidRequest`](crate::ErrorKind::InvalidRequest) when
    /// there are fewer messages.
    pub async fn fork_at(&self, new_id: impl Into<Arc<str>>, messages: usize) -> Result<Self> {
        let id = new_id.into();
        self.check_owner().await?;
        self.agent.store().fork_at(&self.id, &id, messages).await?;
        Ok(self.renamed(id))
    }

    /// Removes the conversation, and the sessions of its subagents, for which it lists the store.
    /// Returns `false` if the conversation did not exist; subagents' sessions that it left are
    /// removed nevertheless. Data stored outside the session is removed by its own functions, such
    /// as [`FileCheckpoints::forget`](crate::hooks::FileCheckpoints::forget).
    ///
    /// # Errors
    ///
    /// [`SessionBusy`](crate::ErrorKind::SessionBusy) while a run holds it, or the store's error.
    /// If the session of a subagent cannot be removed, all others are before the error is returned;
    /// a second call removes what is left.
    pub async fn delete(&self) -> Result<bool> {
        let store = self.agent.store();
        if self.owner.is_some() && self.state().await?.is_none() {
            return Ok(false);
        }
        let has_existed = store.delete(&self.id).await?;

        let list = store.list().await?;
        let mut first_error = Ok(());
        for id in subagent_sessions(&self.id, &list) {
            if let Err(error) = store.delete(&id).await {
                first_error = first_error.and(Err(error));
            }
        }
        first_error.map(|()| has_existed)
    }

    /// Checks that the session is not one of another user.
    pub(super) async fn check_owner(&self) -> Result<()> {
        if self.owner.is_some() && self.state().await?.is_none() {
            return Err(not_found(&self.id));
        }
        Ok(())
    }

    /// A handle of the session `id` of the same user.
    fn renamed(&self, id: Arc<str>) -> Self {
        let mut session = Self::new(self.agent.clone(), id);
        session.user_id.clone_from(&self.user_id);
        session.owner.clone_from(&self.owner);
        session
    }
}

/// The sessions of the subagents of a session, and of theirs.
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
