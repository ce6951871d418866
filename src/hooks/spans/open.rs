//! The open spans of a run, which are the parents of its further spans.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::run::RunContext;
use crate::util::sync::lock;

use super::span::{Pair, Place};

/// The open spans of a run, stored in its values: child runs look up their parent span here, even
/// if they are polled elsewhere.
#[derive(Default)]
pub(super) struct SpanTable {
    /// The span of the run itself, where there is one.
    run: Mutex<Option<Pair>>,
    calls: Mutex<HashMap<Arc<str>, Place>>,
}

/// Keeps a call's entry while the call is in progress.
pub(super) struct SpanGuard {
    open: Arc<SpanTable>,
    call: Arc<str>,
}

impl Drop for SpanGuard {
    fn drop(&mut self) {
        lock(&self.open.calls).remove(&self.call);
    }
}

impl SpanTable {
    pub(super) fn of(cx: &RunContext) -> Arc<Self> {
        cx.value().unwrap_or_else(|| {
            cx.set_value(Self::default());
            cx.value().unwrap_or_default()
        })
    }

    pub(super) fn begin_run(&self, pair: Pair) {
        *lock(&self.run) = Some(pair);
    }

    pub(super) fn end_run(&self) -> Option<Pair> {
        lock(&self.run).take()
    }

    pub(super) fn enter(self: Arc<Self>, call: Arc<str>, place: Place) -> SpanGuard {
        lock(&self.calls).insert(call.clone(), place);
        SpanGuard { open: self, call }
    }

    /// Returns the parent span of the calls of this run: its own span, or the parent of the run.
    pub(super) fn place(&self, cx: &RunContext) -> Place {
        let run_place = lock(&self.run).as_ref().map(|pair| Place {
            own: true,
            ..pair.place()
        });
        run_place.unwrap_or_else(|| outside(cx))
    }
}

/// Returns the place of a run: the call of the parent run that started it.
pub(super) fn outside(cx: &RunContext) -> Place {
    let place = || {
        let parent_spans = cx.parent_run()?.value::<SpanTable>()?;
        lock(&parent_spans.calls)
            .get(&cx.parent()?.tool_use_id)
            .cloned()
    };
    place().unwrap_or_default()
}
