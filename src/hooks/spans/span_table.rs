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
    /// The spans of the calls of tools. An entry stays when its call ends, without the `tracing`
    /// span: the call may have started a child run in the background.
    calls: Mutex<HashMap<Arc<str>, ParentSpan>>,
}

/// Keeps the `tracing` span in a call's entry while the call is in progress.
pub(super) struct SpanGuard {
    open: Arc<SpanTable>,
    call: Arc<str>,
}

impl Drop for SpanGuard {
    fn drop(&mut self) {
        let span = lock(&self.open.calls)
            .get_mut(&self.call)
            .and_then(|parent| parent.span.take());
        // Without the lock: a subscriber may act on the end of a span.
        drop(span);
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

/// Returns the parent of the spans of a child run: the span of the call that started the run. If
/// the call has ended, its `tracing` span is replaced by the parent of the spans of its run. The
/// default for other runs.
pub(super) fn parent_of_run(cx: &RunContext) -> ParentSpan {
    let call_span = || {
        let parent_run = cx.parent_run()?;
        let parent_spans = parent_run.value::<SpanTable>()?;
        let mut call_span = lock(&parent_spans.calls)
            .get(&cx.parent()?.tool_use_id)
            .cloned()?;
        if call_span.span.is_none() {
            let run_span = parent_spans.parent(parent_run);
            (call_span.span, call_span.is_run_span) = (run_span.span, run_span.is_run_span);
        }
        Some(call_span)
    };
    call_span().unwrap_or_default()
}
