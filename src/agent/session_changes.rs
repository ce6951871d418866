//! The changes of a stored session outside a run.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::session::{ChildSearch, OwnedSession};

use super::session::Session;

impl Session {
    /// Sets the session's title; with an empty one, lists show the user's first input instead.
    ///
    /// # Errors
    ///
    /// Returns [`SessionNotFound`](crate::ErrorKind::SessionNotFound) if the session does not
    /// exist, [`SessionBusy`](crate::ErrorKind::SessionBusy) while a run has leased it, or the
    /// store's error.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the session with the old title or with the new one.
    pub async fn set_title(&self, title: impl Into<Arc<str>>) -> Result<()> {
        self.check_idle()?;
        self.stored().set_title(title.into()).await
    }

    /// Copies the conversation to a new id, and returns the session of the copy. This one stays as
    /// it is.
    ///
    /// # Errors
    ///
    /// Returns [`SessionNotFound`](crate::ErrorKind::SessionNotFound) if there is nothing to copy,
    /// [`Conflict`](crate::ErrorKind::Conflict) if the new id is taken,
    /// [`SessionBusy`](crate::ErrorKind::SessionBusy) while a run has leased the new id,
    /// [`InvalidRequest`](crate::ErrorKind::InvalidRequest) if the new id is empty or not one that
    /// the store accepts, or the store's error.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the copy either exists completely or does not exist.
    pub async fn fork(&self, new_id: impl Into<Arc<str>>) -> Result<Self> {
        let id = new_id.into();
        self.stored().fork(&id).await?;
        self.agent.forget_grants(&id);
        Ok(self.renamed(id))
    }

    /// Copies the conversation's first `messages` messages to a new id, and returns the session of
    /// the copy, which continues from there. A cut between a call and its results moves after
    /// the results; see [`SessionStore::fork_at`](crate::SessionStore::fork_at).
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`fork`](Session::fork), and
    /// [`InvalidRequest`](crate::ErrorKind::InvalidRequest) if there are fewer messages.
    ///
    /// # Cancel safety
    ///
    /// The same as for [`fork`](Session::fork).
    pub async fn fork_at(&self, new_id: impl Into<Arc<str>>, messages: usize) -> Result<Self> {
        let id = new_id.into();
        self.stored().fork_at(&id, messages).await?;
        self.agent.forget_grants(&id);
        Ok(self.renamed(id))
    }

    /// Removes the sessions of the subagents, then the conversation. Lists the sessions of the
    /// store to find the subagents. Returns `false` if the conversation did not exist; sessions of
    /// subagents that it left are removed nevertheless. A subagent's session stays if both
    /// [`SessionStore::list`](crate::SessionStore::list) and
    /// [`SessionStore::children`](crate::SessionStore::children) omit it. Data stored outside the
    /// session is removed by its own functions, such as
    /// [`FileCheckpoints::forget`](crate::hooks::FileCheckpoints::forget).
    ///
    /// # Errors
    ///
    /// Returns [`SessionBusy`](crate::ErrorKind::SessionBusy) while a run has leased the session,
    /// or the store's error. If the session of a subagent cannot be removed, the conversation
    /// stays, and the sessions of the other subagents are removed before the error is returned; a
    /// second call removes the remaining ones.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, each of these sessions is either removed or complete; a second
    /// call removes the remaining ones.
    pub async fn delete(&self) -> Result<bool> {
        self.check_idle()?;
        let mut removed_ids = Vec::new();
        let search = ChildSearch::All;
        self.stored().delete(search, &mut removed_ids).await?;
        self.agent.forget_grants(&self.id);
        Ok(removed_ids.contains(&self.id))
    }

    /// Returns an error while a run has the session without a lease: it is not stored then, but its
    /// subagents may be.
    fn check_idle(&self) -> Result<()> {
        if self.agent.config().live.has_temporary(&self.id) {
            return Err(Error::session_busy(&self.id));
        }
        Ok(())
    }

    /// Returns the stored session.
    pub(super) fn stored(&self) -> OwnedSession<'_> {
        OwnedSession {
            store: &**self.agent.store(),
            id: &self.id,
            owner: self.options.owner.as_ref(),
        }
    }

    /// Returns a handle of the session `id` of the same user.
    fn renamed(&self, id: Arc<str>) -> Self {
        let mut session = Self::new(self.agent.clone(), id);
        session.options.user_id.clone_from(&self.options.user_id);
        session.options.owner.clone_from(&self.options.owner);
        session
    }
}
