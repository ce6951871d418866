//! The open spans of a run, which are the parents of its further spans.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::run::RunContext;
use crate::util::sync::lock;

use super::span::{ParentSpan, SpanPair};

/// The open spans of a run, stored in its values: child runs look up their parent span here, even
/// if they are polled elsewhere.
#[derive(Default)]
pub(super) struct SpanTable {
    /// The span of the run itself, where there is one.
    run: Mutex<Option<SpanPair>>,
    calls: Mutex<HashMap<Arc<str>, ParentSpan>>,
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

    pub(super) fn begin_run(&self, pair: SpanPair) {
        *lock(&self.run) = Some(pair);
    }

    pub(super) fn end_run(&self) -> Option<SpanPair> {
        lock(&self.run).take()
    }

    pub(super) fn enter(self: Arc<Self>, call: Arc<str>, parent: ParentSpan) -> SpanGuard {
        lock(&self.calls).insert(call.clone(), parent);
        SpanGuard { open: self, call }
    }

    /// Returns the parent span of the calls of this run: its own span, or the parent of the run.
    pub(super) fn parent(&self, cx: &RunContext) -> ParentSpan {
        let run_span = lock(&self.run).as_ref().map(|pair| ParentSpan {
            is_run_span: true,
            ..pair.as_parent()
        });
        run_span.unwrap_or_else(|| parent_of_run(cx))
    }
}

/// Returns the parent of the spans of a child run: the span of the call that started the run. The
/// default for other runs.
pub(super) fn parent_of_run(cx: &RunContext) -> ParentSpan {
    let call_span = || {
        let parent_spans = cx.parent_run()?.value::<SpanTable>()?;
        lock(&parent_spans.calls)
            .get(&cx.parent()?.tool_use_id)
            .cloned()
    };
    call_span().unwrap_or_default()
}
