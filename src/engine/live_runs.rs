//! The runs in progress of an agent, by session.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};

use crate::run::{RunHandle, RunShared};
use crate::util::sync::lock;

/// The runs in progress of an agent. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct LiveRuns(Arc<Mutex<BTreeMap<Arc<str>, Weak<RunShared>>>>);

impl LiveRuns {
    /// Returns the handle of the run in progress in a session.
    pub(crate) fn handle(&self, session_id: &str) -> Option<RunHandle> {
        let shared = lock(&self.0).get(session_id)?.upgrade()?;
        (!shared.is_ended()).then(|| RunHandle::new(shared))
    }

    /// Adds a run, so that its handle can be looked up by its session.
    pub(crate) fn register(&self, shared: &Arc<RunShared>) -> Registration {
        let session_id = shared.session_id().clone();
        lock(&self.0).insert(session_id.clone(), Arc::downgrade(shared));
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
        if registered.is_some_and(|shared| shared.ptr_eq(&self.shared)) {
            runs.remove(&self.session_id);
        }
    }
}
