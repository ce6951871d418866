//! A tool call in progress, which is the host of its context.

use std::any::Any;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::Value;

use crate::backend::{Backend, DeniedPath, PathFilter};
use crate::message::{MAX_JSON_DEPTH, Message, ToolCall, dismantle, is_too_deep};
use crate::model::Model;
use crate::run::{CallClock, Parent, PausedClock, RunContext};
use crate::sdk::SdkMessage;
use crate::tool::{
    Answer, AnswerForm, Asking, BackgroundTasks, LoadPermit, PermissionGate, PermissionMode,
    StateView, Tool, ToolContext, ToolHost, TurnTools,
};
use crate::util::sync::lock;
use crate::util::{Values, secret};

use super::config::Config;
use super::forwarded_runs::ForwardedRuns;
use super::tool_execution::CallLimits;

/// A tool call in progress: the host of its [`ToolContext`], from which child runs get their
/// [`Parent`].
pub(crate) struct RunningCall {
    config: Arc<Config>,
    run: RunContext,
    tool: Arc<dyn Tool>,
    call: Arc<ToolCall>,
    clock: Arc<CallClock>,
    limits: CallLimits,
    forwarded: ForwardedRuns,
    /// The question that was answered with yes while the call waited.
    approved_question: Mutex<Option<String>>,
}

impl RunningCall {
    pub(super) fn new(
        config: Arc<Config>,
        run: RunContext,
        tool: Arc<dyn Tool>,
        call: Arc<ToolCall>,
        clock: Arc<CallClock>,
        limits: CallLimits,
    ) -> Self {
        Self {
            config,
            run,
            tool,
            call,
            clock,
            limits,
            forwarded: ForwardedRuns::default(),
            approved_question: Mutex::default(),
        }
    }

    /// Sets the question that was answered with yes while the call waited: it is not asked again.
    pub(super) fn with_approved_question(mut self, question: Option<String>) -> Self {
        self.approved_question = Mutex::new(question);
        self
    }

    fn is_approved(&self, question: &str) -> bool {
        let mut approved_question = lock(&self.approved_question);
        let is_same = |approved: &mut String| *approved == question;
        approved_question.take_if(is_same).is_some()
    }

    /// Returns the call that `cx` belongs to; `None` for a detached context.
    pub(crate) fn of(cx: &ToolContext) -> Option<Arc<Self>> {
        let host: Arc<dyn Any + Send + Sync> = cx.host().clone();
        host.downcast().ok()
    }

    /// Returns the configuration of the run's agent.
    pub(crate) fn config(&self) -> &Arc<Config> {
        &self.config
    }

    pub(crate) fn run(&self) -> &RunContext {
        &self.run
    }

    /// Returns the id of the response with the call, if it is known.
    pub(crate) fn response_id(&self) -> Option<String> {
        self.run.state(|state| {
            let has_call = |message: &Arc<Message>| {
                let mut calls = message.tool_calls();
                calls.any(|call| call.id == self.call.id)
            };
            let index = state.messages.as_slice().iter().rposition(has_call)?;
            state.message_info(index).map(|info| info.uuid.to_string())
        })
    }

    /// Returns the time that the call may run without progress.
    pub(crate) fn timeout(&self) -> Duration {
        self.limits.timeout
    }

    /// Returns the child runs whose messages the call passes on.
    pub(crate) fn forwarded(&self) -> &ForwardedRuns {
        &self.forwarded
    }

    /// Returns a guard that ends the call: when it is dropped, the child runs that have not ended
    /// are reported as stopped.
    pub(super) fn end_guard(self: &Arc<Self>) -> EndGuard {
        EndGuard(self.clone())
    }

    /// Returns the call as its child runs use it.
    pub(crate) fn to_parent(&self) -> Parent {
        Parent::new(self.run.clone(), self.clock.clone(), self.call.id.clone())
    }
}

/// Ends a call when it is dropped.
pub(super) struct EndGuard(Arc<RunningCall>);

impl Drop for EndGuard {
    fn drop(&mut self) {
        let shared = self.0.run.shared();
        for message in self.0.forwarded.take_stopped() {
            shared.push(message);
        }
    }
}

impl ToolHost for RunningCall {
    fn session_id(&self) -> &Arc<str> {
        self.run.session_id()
    }

    fn run_id(&self) -> &str {
        self.run.run_id()
    }

    fn progress(&self, mut data: Value) {
        if is_too_deep(&data) {
            dismantle(data);
            data =
                format!("(progress nested deeper than {MAX_JSON_DEPTH} levels was removed)").into();
        }
        secret::redact(&mut data);
        let progress = self.clock.progress(&self.run, &self.call).with_data(data);
        self.run.shared().push(progress.into());
    }

    fn forward(&self, message: SdkMessage) {
        let message = self.forwarded.forward(&self.call.id, message);
        self.run.shared().push(message);
    }

    fn warn_once(&self, text: &str) {
        self.run.warn_once(text);
    }

    fn drained(&self) -> BoxFuture<'_, ()> {
        self.run.shared().drained().boxed()
    }

    fn ask(&self, mut question: String, form: AnswerForm) -> BoxFuture<'_, Answer> {
        async move {
            // Stored questions are redacted as well.
            secret::redact_text(&mut question);
            if form == AnswerForm::Permission && self.is_approved(&question) {
                return Answer::Allow;
            }

            let _paused = PausedClock::begin(&self.clock);
            self.run.ask(&self.call, question, form).await
        }
        .boxed()
    }

    fn with_state(&self, live: bool, f: &mut dyn FnMut(StateView<'_>)) {
        self.run.view_state(live, f);
    }

    fn values(&self) -> Values {
        self.run.values()
    }

    fn user_id(&self) -> Option<Arc<str>> {
        self.run.state(|state| state.user_id.clone())
    }

    fn asking(&self) -> Asking {
        self.run.asking(&self.call.id)
    }

    fn depth(&self) -> u32 {
        self.run.depth()
    }

    fn can_start_agents_below(&self) -> bool {
        self.run.depth() + 2 <= self.run.shared().tree.max_depth
    }

    fn model(&self) -> Option<Arc<dyn Model>> {
        Some(self.run.model())
    }

    fn tools(&self) -> TurnTools {
        self.run.tools()
    }

    fn permission_mode(&self) -> PermissionMode {
        self.run.permission_mode()
    }

    fn backend(&self) -> Option<Arc<dyn Backend>> {
        self.run.backend().cloned()
    }

    fn readable(&self) -> PathFilter {
        let request = self.run.gate_request(&self.tool, &self.call);
        self.run.gates().readable(&request)
    }

    fn denied_paths(&self) -> Vec<DeniedPath> {
        let request = self.run.gate_request(&self.tool, &self.call);
        self.run.gates().denied_paths(&request)
    }

    fn tasks(&self) -> BackgroundTasks {
        self.run.tasks().clone()
    }

    fn max_result_bytes(&self) -> usize {
        self.limits.max_result_bytes
    }

    fn load_permit(&self) -> BoxFuture<'_, LoadPermit> {
        async move {
            let _paused = PausedClock::begin(&self.clock);
            self.run.shared().tree.loads.next().await
        }
        .boxed()
    }

    fn restart_timeout(&self) {
        self.clock.touch();
    }
}
