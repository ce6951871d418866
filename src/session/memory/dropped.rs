//! The sessions that a store in memory has dropped by itself.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher as _;

use crate::session::agent_state::AgentState;
use crate::session::lease::DroppedSession;
use crate::util::hash::SeededState;

/// The maximum number of sessions that are remembered.
const MAX_SESSIONS: usize = 10_000;

/// The sessions that were dropped last: expired, or removed to make room for others.
///
/// Ids are kept as hashes, because they may be of any length.
#[derive(Default)]
pub(super) struct DroppedSessions {
    hasher: SeededState,
    sessions: HashMap<u64, DroppedSession>,
    /// The hashes of the ids, the oldest first.
    order: VecDeque<u64>,
}

impl DroppedSessions {
    /// Adds a session, unless it has no history.
    pub(super) fn add(&mut self, state: &AgentState) {
        if state.messages.is_empty() {
            return;
        }
        let hash = self.hasher.hash_one(&*state.thread_id);
        let session = DroppedSession::of_user(state.user_id.as_deref());
        if self.sessions.insert(hash, session).is_none() {
            self.order.push_back(hash);
        }
        if self.order.len() > MAX_SESSIONS
            && let Some(oldest) = self.order.pop_front()
        {
            self.sessions.remove(&oldest);
        }
    }

    pub(super) fn get(&self, id: &str) -> Option<DroppedSession> {
        if self.sessions.is_empty() {
            return None;
        }
        self.sessions.get(&self.hasher.hash_one(id)).copied()
    }

    /// Removes a session that was created again or deleted.
    pub(super) fn remove(&mut self, id: &str) {
        if self.sessions.is_empty() {
            return;
        }
        let hash = self.hasher.hash_one(id);
        if self.sessions.remove(&hash).is_some() {
            self.order.retain(|other| *other != hash);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Messages;

    fn state(id: &str) -> AgentState {
        let mut state = AgentState::new(id);
        state.messages = Messages::from("Hi");
        state
    }

    #[test]
    fn newest_dropped_sessions_are_remembered() {
        let mut dropped = DroppedSessions::default();
        for n in 0..=MAX_SESSIONS {
            dropped.add(&state(&n.to_string()));
        }
        assert!(dropped.get("0").is_none());
        assert!(dropped.get("1").is_some());
        dropped.remove("1");
        assert!(dropped.get("1").is_none());
        assert_eq!(dropped.order.len(), dropped.sessions.len());
    }

    #[test]
    fn dropped_session_without_messages_is_not_remembered() {
        let mut dropped = DroppedSessions::default();
        dropped.add(&AgentState::new("a"));
        assert!(dropped.get("a").is_none());
    }
}
