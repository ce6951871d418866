//! What lists say of sessions.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::snapshot::title_of;
use super::store::StoredSession;

/// What a list of sessions says about one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionInfo {
    /// The session's id.
    pub id: Arc<str>,
    /// Its title; without one, what its user said first: on one line, the first 80 characters. That
    /// stays when the history is cut, and goes when nothing is left of it: with a first input that was
    /// taken back.
    pub title: Option<Arc<str>>,
    /// How many messages it has.
    pub messages: usize,
    /// When it was first written, where the store knows.
    pub created_at: Option<SystemTime>,
    /// When it was last written, where the store knows.
    pub updated_at: Option<SystemTime>,
    /// How many bytes it takes in the store, where the store knows.
    pub size: Option<u64>,
    /// Whose session it is.
    pub user_id: Option<Arc<str>>,
    /// The working directory it began in.
    pub cwd: Option<Arc<str>>,
    /// Why it cannot be read, if it cannot; the rest is then a guess.
    pub problem: Option<Arc<str>>,
}

impl SessionInfo {
    /// An entry of which only this much is known.
    pub fn new(id: impl Into<Arc<str>>, messages: usize) -> Self {
        Self {
            id: id.into(),
            title: None,
            messages,
            created_at: None,
            updated_at: None,
            size: None,
            user_id: None,
            cwd: None,
            problem: None,
        }
    }

    /// What the session itself tells: all but its times and its size, and the title of a history
    /// whose beginning was cut.
    pub fn of(session: &StoredSession) -> Self {
        let state = &session.state;
        let said_first = || state.messages.user_messages().find_map(title_of);
        let mut info = Self::new(state.thread_id.clone(), state.messages.len());
        info.title = state.title.clone().or_else(said_first);
        info.user_id = state.user_id.clone();
        info.cwd = state.cwd.clone();
        info
    }

    /// Whether it was last written so long ago. One without a time never was.
    pub fn is_older_than(&self, age: Duration) -> bool {
        let elapsed = self.updated_at.and_then(|time| time.elapsed().ok());
        elapsed.is_some_and(|elapsed| elapsed >= age)
    }
}
