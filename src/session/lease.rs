//! The right to write a session.

use std::fmt;
use std::sync::Arc;

use crate::util::panic;

/// The right to write a session. One run at a time has it, and releases it by dropping it.
pub struct Lease {
    session_id: Arc<str>,
    token: u64,
    release: Option<Box<dyn FnOnce() + Send + Sync>>,
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
        }
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
