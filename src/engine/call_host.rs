//! The run as seen from one tool call.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::time::Instant;

use crate::backend::{Backend, PathFilter};
use crate::message::{MAX_JSON_DEPTH, ToolCall, dismantle, is_too_deep};
use crate::run::{AskParent, RunContext};
use crate::sdk::{PermissionRequest, SdkMessage, ToolProgress};
use crate::tool::{Answer, PermissionGate, StateView, TaskScope, Tool, ToolContext, ToolHost};
use crate::util::sync::lock;
use crate::util::{Values, secret};

use super::tool_permission::gate_request;

/// The start time of a call and the time of its last progress.
pub(super) struct CallClock {
    started: Instant,
    moved: Mutex<Instant>,
    /// Questions that are open: while there are any, no time passes.
    asking: AtomicUsize,
}

impl CallClock {
    pub(super) fn start() -> Arc<Self> {
        let now = Instant::now();
        Arc::new(Self {
            started: now,
            moved: Mutex::new(now),
            asking: AtomicUsize::new(0),
        })
    }

    pub(super) fn elapsed(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// The time of the call's last progress; now, while it waits for an answer.
    pub(super) fn moved(&self) -> Instant {
        if self.asking.load(Ordering::Acquire) > 0 {
            return Instant::now();
        }
        *lock(&self.moved)
    }

    pub(super) fn touch(&self) {
        *lock(&self.moved) = Instant::now();
    }
}

struct Asking<'a>(&'a CallClock);

impl<'a> Asking<'a> {
    fn begin(clock: &'a CallClock) -> Self {
        clock.asking.fetch_add(1, Ordering::AcqRel);
        Self(clock)
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.touch();
        self.0.asking.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The host of the [`ToolContext`] in runs of this engine.
pub(super) struct CallHost {
    pub(super) cx: RunContext,
    pub(super) tool: Arc<dyn Tool>,
    pub(super) clock: Arc<CallClock>,
}

/// The call that a child run belongs to.
#[derive(Clone)]
pub(crate) struct Parent {
    pub(crate) cx: RunContext,
    pub(crate) call_id: Arc<str>,
    clock: Arc<CallClock>,
}

impl Parent {
    /// The run and the call that `cx` belongs to; `None` for a detached context.
    pub(crate) fn of(cx: &ToolContext) -> Option<Self> {
        let host = cx.host().downcast_ref::<CallHost>()?;
        Some(Self {
            cx: host.cx.clone(),
            call_id: cx.call_id().into(),
            clock: host.clock.clone(),
        })
    }

    /// Passes a child's question on; the call's time stands still meanwhile.
    pub(super) fn ask(&self) -> AskParent {
        let parent = self.clone();
        Arc::new(move |mut request: PermissionRequest| {
            let parent = parent.clone();
            async move {
                let _asking = Asking::begin(&parent.clock);
                let call = &mut request.envelope.parent_tool_use_id;
                call.get_or_insert_with(|| parent.call_id.clone());
                parent.cx.answer(request).await
            }
            .boxed()
        })
    }
}

pub(super) fn progress(cx: &RunContext, call: &ToolCall, clock: &CallClock) -> ToolProgress {
    ToolProgress::new(
        cx.shared().envelope(),
        call.id.clone(),
        call.name.clone(),
        clock.elapsed(),
    )
}

impl ToolHost for CallHost {
    fn as_any(&self) -> &(dyn std::any::Any + Send + Sync) {
        self
    }

    fn session_id(&self) -> &Arc<str> {
        self.cx.session_id()
    }

    fn run_id(&self) -> &str {
        self.cx.run_id()
    }

    fn progress(&self, call: &ToolCall, mut data: Value) {
        if is_too_deep(&data) {
            dismantle(data);
            data =
                format!("(progress nested deeper than {MAX_JSON_DEPTH} levels was removed)").into();
        }
        secret::redact(&mut data);
        let progress = progress(&self.cx, call, &self.clock).with_data(data);
        self.cx.shared().push(progress.into());
    }

    fn forward(&self, call: &ToolCall, mut message: SdkMessage) {
        let parent = &mut message.envelope_mut().parent_tool_use_id;
        parent.get_or_insert_with(|| call.id.clone());
        self.cx.shared().push(message);
    }

    fn drained(&self) -> BoxFuture<'_, ()> {
        self.cx.shared().drained().boxed()
    }

    fn ask<'a>(&'a self, call: &'a ToolCall, question: String) -> BoxFuture<'a, Answer> {
        async move {
            let _asking = Asking::begin(&self.clock);
            self.cx.ask(call, question).await
        }
        .boxed()
    }

    fn with_state(&self, live: bool, f: &mut dyn FnMut(StateView<'_>)) {
        self.cx.view_state(live, f);
    }

    fn values(&self) -> Values {
        self.cx.values()
    }

    fn backend(&self) -> Option<Arc<dyn Backend>> {
        self.cx.backend().cloned()
    }

    fn readable(&self, call: &ToolCall) -> PathFilter {
        let request = gate_request(&self.cx, &self.tool, call);
        self.cx.gates().readable(&request)
    }

    fn tasks(&self) -> TaskScope {
        self.cx.tasks().clone()
    }

    fn touch(&self, _call: &ToolCall) {
        self.clock.touch();
    }
}
