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

/// The maximum size of the traces of all users when a run starts, in bytes.
const MAX_BYTES: usize = 128 * 1024 * 1024;

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
            let oldest = Self::next_to_remove(&traces, |_| 1);
            oldest.and_then(|index| traces.remove(index));
        }

        let size = |trace: &Trace| trace.recorder.bytes();
        let mut bytes: usize = traces.iter().map(size).sum();
        while bytes > MAX_BYTES {
            let oldest = Self::next_to_remove(&traces, size);
            let Some(trace) = oldest.and_then(|index| traces.remove(index)) else {
                break;
            };
            // It may have grown meanwhile.
            bytes = bytes.saturating_sub(size(&trace));
        }
        traces.push_back(trace);
    }

    /// Returns the index of the trace to remove next: the oldest trace of the user whose traces
    /// have the largest sum of sizes. So no user can evict the traces of all others.
    fn next_to_remove(traces: &VecDeque<Trace>, size: impl Fn(&Trace) -> usize) -> Option<usize> {
        let mut sums: HashMap<&str, usize> = HashMap::new();
        for trace in traces {
            *sums.entry(&trace.key.user).or_default() += size(trace);
        }
        let (user, _) = sums.into_iter().max_by_key(|(_, sum)| *sum)?;
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

    #[test]
    fn large_traces_are_removed_from_the_user_with_the_largest() {
        const LARGE: usize = 2 * 1024 * 1024;
        let log = TraceLog::default();
        let add = |user: &str, id: usize, bytes: usize| {
            let mut trace = trace(user, id);
            trace.recorder = BoundedRecorder::of_size(bytes);
            log.add(trace);
        };
        (0..50).for_each(|id| add("ann", id, 1024));
        for id in 0..PER_USER {
            add("ben", id, LARGE);
            let bytes = log.list("ben", 1_000).len() * LARGE;
            assert!(bytes <= MAX_BYTES + LARGE, "{bytes}");
        }
        assert_eq!(log.list("ann", 1_000).len(), 50);
        assert!(log.get("ben", "0").is_none() && log.get("ben", "99").is_some());
    }
}
