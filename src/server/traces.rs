//! The traces of the last runs.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use crate::util::sync::lock;

use super::bounded_recorder::BoundedRecorder;
use super::runs::RunKey;

/// The maximum number of traces of one user.
const PER_USER: usize = 100;

/// The maximum number of traces of all users.
const IN_ALL: usize = 2_000;

/// The trace of one run.
#[derive(Clone, Debug)]
pub(super) struct Trace {
    /// The id of the run.
    pub(super) id: Arc<str>,
    /// The thread of the run.
    pub(super) key: RunKey,
    pub(super) agent: Arc<str>,
    pub(super) started_at: SystemTime,
    pub(super) recorder: BoundedRecorder,
}

/// The traces of the last runs, the oldest first.
#[derive(Debug, Default)]
pub(super) struct TraceLog(Mutex<VecDeque<Trace>>);

impl TraceLog {
    /// Adds the trace of a run that starts.
    pub(super) fn add(&self, trace: Trace) {
        let mut traces = lock(&self.0);
        let is_of_user = |other: &Trace| other.key.user == trace.key.user;
        if traces.iter().filter(|other| is_of_user(other)).count() >= PER_USER {
            let oldest = traces.iter().position(is_of_user);
            oldest.and_then(|index| traces.remove(index));
        } else if traces.len() >= IN_ALL {
            // Removed from the user with the most traces, so that no user can evict the traces of
            // all others.
            let oldest = Self::busiest(&traces);
            oldest.and_then(|index| traces.remove(index));
        }
        traces.push_back(trace);
    }

    fn busiest(traces: &VecDeque<Trace>) -> Option<usize> {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for trace in traces {
            *counts.entry(&trace.key.user).or_default() += 1;
        }
        let (user, _) = counts.into_iter().max_by_key(|(_, count)| *count)?;
        traces.iter().position(|trace| *trace.key.user == *user)
    }

    /// Removes the traces of a thread that was deleted.
    pub(super) fn remove_thread(&self, key: &RunKey) {
        lock(&self.0).retain(|trace| trace.key != *key);
    }

    /// Returns the newest traces of a user, the newest first.
    pub(super) fn list(&self, user: &str, limit: usize) -> Vec<Trace> {
        let traces = lock(&self.0);
        let traces = traces.iter().rev().filter(|trace| *trace.key.user == *user);
        traces.take(limit).cloned().collect()
    }

    /// Returns the trace of a user's run.
    pub(super) fn get(&self, user: &str, id: &str) -> Option<Trace> {
        let traces = lock(&self.0);
        let mut traces = traces.iter().rev();
        let trace = traces.find(|trace| *trace.key.user == *user && *trace.id == *id);
        trace.cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::super::runs::StoreId;
    use super::*;
    use crate::session::{SessionStore, ThreadStore};

    fn trace(user: &str, id: usize) -> Trace {
        let store: Arc<dyn SessionStore> = Arc::new(ThreadStore::new());
        Trace {
            id: id.to_string().into(),
            key: RunKey {
                user: user.into(),
                store: StoreId::of(&store),
                thread: "th_1".into(),
            },
            agent: "default".into(),
            started_at: SystemTime::UNIX_EPOCH,
            recorder: BoundedRecorder::default(),
        }
    }

    #[test]
    fn traces_of_a_user_are_the_newest() {
        let log = TraceLog::default();
        log.add(trace("ann", 999));
        (0..PER_USER + 5).for_each(|id| log.add(trace("ben", id)));
        let list = log.list("ben", 1_000);
        assert_eq!((list.len(), &*list[0].id), (PER_USER, "104"));
        assert!(log.get("ben", "4").is_none() && log.get("ben", "5").is_some());
        assert!(log.get("ann", "5").is_none() && log.get("ann", "999").is_some());
    }

    #[test]
    fn full_log_loses_the_traces_of_its_busiest_user() {
        let log = TraceLog::default();
        log.add(trace("ann", 0));
        for user in 0..IN_ALL {
            let user = format!("u{}", user / 50);
            log.add(trace(&user, 0));
        }
        assert_eq!(lock(&log.0).len(), IN_ALL);
        assert!(log.get("ann", "0").is_some());
    }
}
