//! Grants for the rest of a session.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::sync::Arc;

/// The maximum number of grants of one session. Further ones have no effect.
const MAX_GRANTS: usize = 256;
/// The maximum number of sessions with grants. A further session replaces the oldest.
const MAX_SESSIONS: usize = 1024;

/// The grants of all sessions, in memory.
#[derive(Debug)]
pub(crate) struct SessionGrants<T> {
    sessions: HashMap<Arc<str>, HashSet<T>>,
    order: VecDeque<Arc<str>>,
}

impl<T> Default for SessionGrants<T> {
    fn default() -> Self {
        Self {
            sessions: HashMap::new(),
            order: VecDeque::new(),
        }
    }
}

impl<T: Eq + Hash> SessionGrants<T> {
    /// Adds grants to a session.
    pub(crate) fn add(&mut self, session: &Arc<str>, grants: impl IntoIterator<Item = T>) {
        if !self.sessions.contains_key(session) {
            if self.order.len() >= MAX_SESSIONS
                && let Some(oldest_session) = self.order.pop_front()
            {
                self.sessions.remove(&oldest_session);
            }

            self.order.push_back(session.clone());
        }

        let session_grants = self.sessions.entry(session.clone()).or_default();
        for grant in grants {
            if session_grants.len() < MAX_GRANTS {
                session_grants.insert(grant);
            }
        }
    }

    /// Returns `true` if the session has this grant.
    pub(crate) fn contains(&self, session: &str, grant: &T) -> bool {
        let grants = self.sessions.get(session);
        grants.is_some_and(|grants| grants.contains(grant))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_beyond_the_limits_are_dropped() {
        let mut grants = SessionGrants::default();
        for session in 0..=MAX_SESSIONS {
            grants.add(&session.to_string().into(), [0]);
        }
        assert!(!grants.contains("0", &0), "the oldest session");
        grants.add(&"1".into(), 1..=MAX_GRANTS);
        assert!(grants.contains("1", &(MAX_GRANTS - 1)));
        assert!(!grants.contains("1", &MAX_GRANTS));
    }
}
