//! The right to write a session.

use std::fmt;
use std::hash::BuildHasher as _;
use std::sync::Arc;

use crate::util::hash::SeededState;
use crate::util::panic;

/// The right to write a session. One run at a time has it, and releases it by dropping it.
pub struct Lease {
    session_id: Arc<str>,
    token: u64,
    release: Option<Box<dyn FnOnce() + Send + Sync>>,
    /// The session that had this id and was dropped by its store.
    dropped: Option<DroppedSession>,
}

/// A session that its store has dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DroppedSession {
    /// The hash of the id of its user.
    user: Option<u64>,
}

impl DroppedSession {
    /// Creates the dropped session of a user.
    pub(crate) fn of_user(user_id: Option<&str>) -> Self {
        Self {
            user: user_id.map(user_hash),
        }
    }

    /// Returns `true` unless it belonged to a user other than `user_id`.
    fn may_be_known_to(self, user_id: Option<&str>) -> bool {
        match (self.user, user_id) {
            (Some(owner), Some(user)) => owner == user_hash(user),
            _ => true,
        }
    }
}

fn user_hash(user_id: &str) -> u64 {
    SeededState::default().hash_one(user_id)
}

impl Lease {
    /// Creates a lease that calls `release` when it is dropped. `release` must not block. It may
    /// only begin the release, for example on another thread; the store's next
    /// [`lease`](crate::SessionStore::lease) of the session must then wait until it is complete.
    ///
    /// `token` grows with every lease of the session, so that a store can refuse the writes of a
    /// lease that was taken over.
    pub fn new(
        session_id: impl Into<Arc<str>>,
        token: u64,
        release: impl FnOnce() + Send + Sync + 'static,
    ) -> Self {
        Self {
            session_id: session_id.into(),
            token,
            release: Some(Box::new(release)),
            dropped: None,
        }
    }

    /// Sets the session that had this id and was dropped by its store.
    pub(crate) fn with_dropped(mut self, dropped: Option<DroppedSession>) -> Self {
        self.dropped = dropped;
        self
    }

    /// Returns a warning for a run of the user `user_id` that creates the session again; `None` if
    /// its store did not drop a session with this id.
    pub(crate) fn dropped_warning(&self, user_id: Option<&str>) -> Option<String> {
        let dropped = self.dropped?;
        dropped.may_be_known_to(user_id).then(|| {
            format!(
                "the session {:?} was dropped from memory, because it was not used for its time to \
                 live or because the memory for sessions was full; this run begins it without its \
                 history",
                self.session_id
            )
        })
    }

    /// Returns the id of the session.
    pub fn session_id(&self) -> &Arc<str> {
        &self.session_id
    }

    /// Returns the fencing token.
    pub fn token(&self) -> u64 {
        self.token
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(release) = self.release.take() {
            // This drop may run during another panic.
            if let Err(text) = panic::catch(release) {
                tracing::warn!("the release of a session panicked: {text}");
            }
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("session_id", &self.session_id)
            .field("token", &self.token)
            .finish_non_exhaustive()
    }
}
