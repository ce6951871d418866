//! Where sessions are kept.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;

use crate::error::{Error, ErrorKind, Result};
use crate::message::Message;

use super::agent_state::AgentState;

/// Something that happened in a session, in the order it did.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Record {
    /// A message was added to the history.
    Message {
        /// The message.
        message: Arc<Message>,
        /// The caller's id of an input: the same id is stored once.
        input_id: Option<Arc<str>>,
    },
    /// A tool call is about to run that may change the world.
    ToolStarted {
        /// Which call.
        call_id: Arc<str>,
    },
}

/// What a store gives back.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct StoredSession {
    /// The state, as last saved plus everything appended since.
    pub state: AgentState,
    /// Ids of calls that had started when the last run ended without a result for them.
    pub started: Vec<Arc<str>>,
    /// The caller's ids of the inputs that were appended since the state was last saved. Those
    /// before are in the state.
    pub input_ids: Vec<Arc<str>>,
}

impl StoredSession {
    /// A session with this state.
    pub fn new(state: AgentState) -> Self {
        Self {
            state,
            ..Self::default()
        }
    }
}

/// What a list of sessions says about one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionInfo {
    /// The session's id.
    pub id: Arc<str>,
    /// How many messages it has.
    pub messages: usize,
    /// When it was last written, where the store knows.
    pub updated_at: Option<SystemTime>,
}

impl SessionInfo {
    /// An entry without a time.
    pub fn new(id: impl Into<Arc<str>>, messages: usize) -> Self {
        Self {
            id: id.into(),
            messages,
            updated_at: None,
        }
    }
}

/// The right to write a session. Held by one run at a time, released when dropped.
pub struct Lease {
    session_id: Arc<str>,
    token: u64,
    release: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl Lease {
    /// A lease that calls `release` when it is dropped. `release` must not block.
    ///
    /// `token` grows with every lease of the session, so that a store can refuse the writes of
    /// one that was taken over.
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

    /// Which session.
    pub fn session_id(&self) -> &Arc<str> {
        &self.session_id
    }

    /// The fencing token.
    pub fn token(&self) -> u64 {
        self.token
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(release) = self.release.take() {
            release();
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

/// Keeps sessions.
///
/// When [`append`](SessionStore::append) or [`save`](SessionStore::save) returns `Ok`, what was
/// written is as durable as the store can make it. Both refuse a lease that is no longer the
/// session's newest with [`ErrorKind::Conflict`].
#[async_trait]
pub trait SessionStore: Send + Sync + 'static {
    /// The session, or `None` when there is none.
    async fn load(&self, id: &str) -> Result<Option<StoredSession>>;

    /// Adds records at the end, all of them or none.
    async fn append(&self, lease: &Lease, records: Vec<Record>) -> Result<()>;

    /// Makes the stored state equal to `state`, and forgets which calls had started and which
    /// inputs were appended.
    async fn save(&self, lease: &Lease, state: &AgentState) -> Result<()>;

    /// All sessions, the one written last first.
    async fn list(&self) -> Result<Vec<SessionInfo>>;

    /// Copies the session `from` to the new id `to`; `from` stays as it is.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::SessionNotFound`] without `from`, [`ErrorKind::Conflict`] when `to` exists.
    async fn fork(&self, from: &str, to: &str) -> Result<()>;

    /// Removes the session; false when there was none.
    async fn delete(&self, id: &str) -> Result<bool>;

    /// Takes the right to write the session, which need not exist yet.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::SessionBusy`] while another run holds it.
    async fn lease(&self, id: &str) -> Result<Lease>;
}

pub(super) fn busy(id: &str) -> Error {
    Error::new(
        ErrorKind::SessionBusy,
        format!("session {id:?} is in use by another run; wait for it to end or fork the session"),
    )
}

pub(super) fn not_found(id: &str) -> Error {
    Error::new(
        ErrorKind::SessionNotFound,
        format!("there is no session {id:?}; it may have expired or been deleted"),
    )
}
