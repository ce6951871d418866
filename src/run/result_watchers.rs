//! The wait for results of calls.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use crate::message::ToolResult;
use crate::util::sync::lock;

use super::context::RunContext;

type Watcher = Box<dyn FnOnce(&ToolResult) + Send>;

/// The watchers of the results of a run's calls, by call.
#[derive(Default)]
struct Watchers(Mutex<HashMap<Arc<str>, Vec<Watcher>>>);

impl fmt::Debug for Watchers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watchers").finish_non_exhaustive()
    }
}

impl RunContext {
    /// Calls `watcher` with the result of a call that is going on, as the last hook leaves it. It is
    /// dropped when the call has none.
    pub(crate) fn on_result(
        &self,
        call_id: Arc<str>,
        watcher: impl FnOnce(&ToolResult) + Send + 'static,
    ) {
        let watchers = self.value().unwrap_or_else(|| {
            self.set_value(Watchers::default());
            self.value::<Watchers>().unwrap_or_default()
        });
        let mut watchers = lock(&watchers.0);
        watchers.entry(call_id).or_default().push(Box::new(watcher));
    }

    /// Reports a result that no hook changes any more.
    pub(crate) fn settle(&self, result: &ToolResult) {
        let Some(watchers) = self.value::<Watchers>() else {
            return;
        };
        let result_watchers = lock(&watchers.0).remove(&result.tool_call_id);
        for watcher in result_watchers.into_iter().flatten() {
            watcher(result);
        }
    }
}
