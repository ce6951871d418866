//! The wait for results of calls.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::message::ToolResult;
use crate::util::sync::lock;

use super::context::RunContext;

type Watcher = Box<dyn FnOnce(&ToolResult) + Send>;

/// The watchers of the results of a run's calls, by call.
#[derive(Default)]
pub(super) struct ResultWatchers(Mutex<BTreeMap<Arc<str>, Vec<Watcher>>>);

impl RunContext {
    /// Calls `watcher` with the result of a call in progress, as the last hook leaves it. The
    /// watcher is dropped if the call ends without a result.
    pub(crate) fn on_result(
        &self,
        call_id: Arc<str>,
        watcher: impl FnOnce(&ToolResult) + Send + 'static,
    ) {
        lock(&self.0.result_watchers.0)
            .entry(call_id)
            .or_default()
            .push(Box::new(watcher));
    }

    /// Drops the watchers of a call that has no result.
    pub(crate) fn drop_watchers(&self, call_id: &str) {
        let watchers = lock(&self.0.result_watchers.0).remove(call_id);
        drop(watchers);
    }

    /// Reports a result that no further hook changes.
    pub(crate) fn report_result(&self, result: &ToolResult) {
        let watchers = lock(&self.0.result_watchers.0).remove(&result.tool_call_id);
        for watcher in watchers.into_iter().flatten() {
            watcher(result);
        }
    }
}
