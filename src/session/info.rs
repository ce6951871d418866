//! The description of sessions in lists.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::json::title_of;
use super::stored::StoredSession;

/// The entry of a session in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionInfo {
    /// The session's id.
    pub id: Arc<str>,
    /// The session's title or, without one, the first 80 characters of the user's first input, on
    /// one line. That text stays when the history is cut. It is removed together with the input if
    /// the input is removed.
    ///
    /// Stores that keep logs cut a title of more than 4,096 bytes; a `user_id` or a `cwd` of more
    /// than that is `None`.
    pub title: Option<Arc<str>>,
    /// The number of its messages.
    pub messages: usize,
    /// The number of its pending calls.
    pub pending: usize,
    /// The time of the first write, if the store records it.
    pub created_at: Option<SystemTime>,
    /// The time of the last write, if the store records it.
    pub updated_at: Option<SystemTime>,
    /// The size in the store in bytes, if the store records it.
    pub size: Option<u64>,
    /// The id of the session's user.
    pub user_id: Option<Arc<str>>,
    /// The working directory in which the session began.
    pub cwd: Option<Arc<str>>,
    /// The session whose run began this session, if this is the session of a subagent. Stores with
    /// logs omit an id of more than 4,096 bytes.
    pub parent: Option<Arc<str>>,
    /// The reason why the session cannot be read; the other fields are then guesses. `None` if it
    /// can be read.
    pub problem: Option<Arc<str>>,
}

impl SessionInfo {
    /// Creates an entry with an id and a number of messages. It has no pending calls, and the other
    /// fields are `None`.
    pub fn new(id: impl Into<Arc<str>>, messages: usize) -> Self {
        Self {
            id: id.into(),
            title: None,
            messages,
            pending: 0,
            created_at: None,
            updated_at: None,
            size: None,
            user_id: None,
            cwd: None,
            parent: None,
            problem: None,
        }
    }

    /// Creates the entry of a session, without its times and its size.
    pub fn of(session: &StoredSession) -> Self {
        let state = &session.state;
        let first_text = session.first_text.clone();
        let first_text =
            || first_text.or_else(|| state.messages.user_messages().find_map(title_of));
        let mut info = Self::new(state.thread_id.clone(), state.messages.len());
        let pending = state.pending.iter();
        info.pending = pending
            .filter(|call| call.session_id == state.thread_id)
            .count();
        info.title = state.title.clone().or_else(first_text);
        info.user_id = state.user_id.clone();
        info.cwd = state.cwd.clone();
        info.parent = state.parent.clone();
        info
    }

    /// Returns `true` if the last write is at least `age` ago. Returns `false` if its time is not
    /// known.
    pub(crate) fn is_older_than(&self, age: Duration) -> bool {
        let elapsed = self.updated_at.and_then(|time| time.elapsed().ok());
        elapsed.is_some_and(|elapsed| elapsed >= age)
    }
}
