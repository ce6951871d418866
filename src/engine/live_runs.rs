//! The runs in progress of an agent, by session.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};

use crate::run::{RunHandle, RunShared};
use crate::util::sync::lock;

/// The runs in progress of an agent. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct LiveRuns(Arc<Mutex<BTreeMap<Arc<str>, LiveRun>>>);

struct LiveRun {
    shared: Weak<RunShared>,
    is_temporary: bool,
}

impl LiveRuns {
    /// Returns the handle of the run in progress in a session.
    pub(crate) fn handle(&self, session_id: &str) -> Option<RunHandle> {
        let shared = lock(&self.0).get(session_id)?.shared.upgrade()?;
        (!shared.is_ended()).then(|| RunHandle::new(shared))
    }

    /// Returns `true` if a run in progress has this temporary session, for which the store has no
    /// lease.
    pub(crate) fn has_temporary(&self, session_id: &str) -> bool {
        let runs = lock(&self.0);
        runs.get(session_id).is_some_and(|run| run.is_temporary)
    }

    /// Adds a run, so that its handle can be looked up by its session.
    pub(crate) fn register(&self, shared: &Arc<RunShared>, is_temporary: bool) -> Registration {
        let session_id = shared.session_id().clone();
        let run = LiveRun {
            shared: Arc::downgrade(shared),
            is_temporary,
        };
        lock(&self.0).insert(session_id.clone(), run);
        Registration {
            runs: self.clone(),
            session_id,
            shared: Arc::downgrade(shared),
        }
    }
}

/// Removes a run from the runs in progress when it is dropped.
pub(crate) struct Registration {
    runs: LiveRuns,
    session_id: Arc<str>,
    shared: Weak<RunShared>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut runs = lock(&self.runs.0);
        let registered = runs.get(&self.session_id);
        if registered.is_some_and(|run| run.shared.ptr_eq(&self.shared)) {
            runs.remove(&self.session_id);
        }
    }
}
