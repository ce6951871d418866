//! Grants for the rest of a session.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::sync::Arc;

/// The maximum number of grants of one session. Further ones have no effect.
const MAX_GRANTS: usize = 256;
/// The maximum size of the grants of one session, in bytes. Further ones have no effect.
const MAX_SESSION_BYTES: usize = 1024 * 1024;
/// The maximum number of sessions with grants. A further session replaces the one whose last grant
/// is the oldest.
const MAX_SESSIONS: usize = 1024;
/// The maximum size of the grants of all sessions, in bytes. Beyond it, those of the oldest
/// sessions are removed.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// One grant.
pub(crate) trait SessionGrant: Eq + Hash {
    /// Returns the size of its texts, in bytes.
    fn size(&self) -> usize;
}

/// The grants of all sessions, in memory.
#[derive(Debug)]
pub(crate) struct SessionGrants<T> {
    sessions: HashMap<Arc<str>, GrantsOfSession<T>>,
    order: VecDeque<Arc<str>>,
    bytes: usize,
}

#[derive(Debug)]
struct GrantsOfSession<T> {
    grants: HashSet<T>,
    bytes: usize,
}

impl<T> Default for GrantsOfSession<T> {
    fn default() -> Self {
        Self {
            grants: HashSet::new(),
            bytes: 0,
        }
    }
}

impl<T> Default for SessionGrants<T> {
    fn default() -> Self {
        Self {
            sessions: HashMap::new(),
            order: VecDeque::new(),
            bytes: 0,
        }
    }
}

impl<T: SessionGrant> SessionGrants<T> {
    /// Adds grants to a session.
    pub(crate) fn add(&mut self, session: &Arc<str>, grants: impl IntoIterator<Item = T>) {
        if self.sessions.contains_key(session) {
            self.order.retain(|other| other != session);
        } else if self.order.len() >= MAX_SESSIONS {
            self.remove_oldest();
        }
        self.order.push_back(session.clone());

        let entry = self.sessions.entry(session.clone()).or_default();
        for grant in grants {
            let size = grant.size();
            let has_room =
                entry.grants.len() < MAX_GRANTS && size <= MAX_SESSION_BYTES - entry.bytes;
            if has_room && entry.grants.insert(grant) {
                entry.bytes += size;
                self.bytes += size;
            }
        }
        // This session is the newest, and its grants have less than this.
        while self.bytes > MAX_BYTES {
            self.remove_oldest();
        }
    }

    /// Removes the grants of a session.
    pub(crate) fn remove(&mut self, session: &str) {
        if let Some(entry) = self.sessions.remove(session) {
            self.bytes -= entry.bytes;
            self.order.retain(|other| &**other != session);
        }
    }

    fn remove_oldest(&mut self) {
        let oldest_session = self.order.pop_front();
        let entry = oldest_session.and_then(|session| self.sessions.remove(&session));
        self.bytes -= entry.map_or(0, |entry| entry.bytes);
    }

    /// Returns `true` if the session may have grants.
    pub(crate) fn has_session(&self, session: &str) -> bool {
        self.sessions.contains_key(session)
    }

    /// Returns `true` if the session has this grant.
    pub(crate) fn contains(&self, session: &str, grant: &T) -> bool {
        let entry = self.sessions.get(session);
        entry.is_some_and(|entry| entry.grants.contains(grant))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl SessionGrant for usize {
        fn size(&self) -> usize {
            0
        }
    }

    impl SessionGrant for String {
        fn size(&self) -> usize {
            self.len()
        }
    }

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

    #[test]
    fn removed_session_has_no_grants_and_leaves_room_for_others() {
        let mut grants = SessionGrants::default();
        let text = "a".repeat(MAX_SESSION_BYTES);
        let count = MAX_BYTES / MAX_SESSION_BYTES;
        for session in 0..count {
            grants.add(&session.to_string().into(), [text.clone()]);
        }
        grants.remove("1");
        grants.remove("1");
        assert!(!grants.has_session("1"));
        grants.add(&"new".into(), [text.clone()]);
        assert!(grants.contains("0", &text) && grants.contains("new", &text));
        assert_eq!((grants.order.len(), grants.bytes), (count, MAX_BYTES));
    }

    #[test]
    fn further_grant_of_the_oldest_session_removes_those_of_another() {
        let mut grants = SessionGrants::default();
        let text = "a".repeat(MAX_SESSION_BYTES - 1);
        for session in 0..MAX_BYTES / MAX_SESSION_BYTES {
            grants.add(&session.to_string().into(), [text.clone()]);
        }
        grants.add(&"0".into(), ["b".to_owned()]);
        grants.add(&"new".into(), [text.clone()]);
        assert!(grants.contains("0", &text) && grants.contains("0", &"b".to_owned()));
        assert!(!grants.contains("1", &text) && grants.contains("new", &text));
    }

    #[test]
    fn grants_beyond_the_size_of_a_session_have_no_effect() {
        let mut grants = SessionGrants::default();
        let text = |letter: char| letter.to_string().repeat(MAX_SESSION_BYTES / 2);
        let session = "s".into();
        grants.add(&session, [text('a'), text('a'), text('b'), text('c')]);
        assert!(grants.contains("s", &text('a')) && grants.contains("s", &text('b')));
        assert!(!grants.contains("s", &text('c')));
    }

    #[test]
    fn grants_of_the_oldest_sessions_are_removed_beyond_the_size_of_all() {
        let mut grants = SessionGrants::default();
        let text = "a".repeat(MAX_SESSION_BYTES);
        let count = MAX_BYTES / MAX_SESSION_BYTES;
        for session in 0..=count {
            grants.add(&session.to_string().into(), [text.clone()]);
        }
        assert!(!grants.contains("0", &text));
        for session in 1..=count {
            assert!(grants.contains(&session.to_string(), &text));
        }
    }
}
