//! One tool call, from its permission to its result.

use std::borrow::Cow;
use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use futures::FutureExt;
use serde_json::json;
use tokio::sync::Mutex;

use crate::hook::{Core, HookChain, Phases, guard};
use crate::message::{ToolCall, ToolResult};
use crate::run::{CallClock, ExitReason, RunContext};
use crate::sdk::ProgressData;
use crate::session::PendingCall;
use crate::tool::{Comparisons, Tool, UnansweredQuestion, Verdict, check_call_arguments};
use crate::util::Pace;
use crate::util::json::text_len;

use super::call_starts::{CallStart, CallStarts};
use super::config::{Config, OnUnanswered};
use super::history_size::HistorySize;
use super::result_context::ResultContext;
use super::result_limits::limit_result;
use super::session_writer::SessionWriter;
use super::tool_execution::{CallLimits, Execution};
use super::tool_permission::{PermissionCheck, Permit};

/// The cost of a permission check per byte of the arguments, where copying a byte costs 1: rules
/// read a command many times.
const CHECK_COST: usize = 128;

/// The outcome of a call.
pub(super) enum CallOutcome {
    Done(ToolResult),
    /// The call waits for the answer to a question.
    Pending(PendingCall),
    /// The call did not begin: the run ends, or the call stays pending because its start could not
    /// be stored.
    NotBegun,
}

/// Runs the calls of one turn.
pub(super) struct CallRunner<'a> {
    pub(super) config: &'a Arc<Config>,
    pub(super) cx: &'a RunContext,
    pub(super) writer: &'a SessionWriter,
    pub(super) starts: CallStarts,
    pub(super) byte_size: &'a HistorySize,
    /// The limit of each result in bytes.
    pub(super) max_result_bytes: usize,
    pub(super) halt: Halt,
    /// Paces the permission checks, which may otherwise all run in one poll.
    pub(super) decision_pace: Mutex<Pace>,
    /// Limits the comparisons of unknown tool names with known ones.
    pub(super) comparisons: Comparisons,
}

/// The flag that a call sets when it ends the run: calls that have not begun are then skipped.
/// Clones share it.
#[derive(Clone, Default)]
pub(super) struct Halt(Arc<AtomicU8>);

/// The effect of a call on the run, strongest last.
#[derive(Clone, Copy)]
#[repr(u8)]
enum HaltLevel {
    None = 0,
    /// The run ends.
    Ended = 1,
    /// The run ends because a gate interrupted it.
    Interrupted = 2,
}

impl Halt {
    /// Halts the calls if `exit` is a reason to end the run.
    fn set(&self, exit: Option<ExitReason>) {
        let level = match exit {
            None => HaltLevel::None,
            Some(ExitReason::Interrupted) => HaltLevel::Interrupted,
            Some(_) => HaltLevel::Ended,
        };
        self.0.fetch_max(level as u8, Ordering::AcqRel);
    }

    fn is_at_least(&self, level: HaltLevel) -> bool {
        self.0.load(Ordering::Acquire) >= level as u8
    }

    fn is_set(&self) -> bool {
        self.is_at_least(HaltLevel::Ended)
    }

    /// Returns `true` if a gate has ended the run.
    pub(super) fn is_interrupted(&self) -> bool {
        self.is_at_least(HaltLevel::Interrupted)
    }
}

impl CallRunner<'_> {
    /// Checks a call and runs it. Its start is stored just before the tool may run, unless the tool
    /// is read-only or the start was stored with the response.
    pub(super) async fn run(&self, call: &ToolCall, start: &CallStart) -> CallOutcome {
        if self.halt.is_set() {
            return CallOutcome::NotBegun;
        }

        let tool = match self.cx.tools().resolve(&call.name, &self.comparisons) {
            Ok(tool) => tool,
            Err(text) => {
                return CallOutcome::Done(self.limited(ToolResult::failed(call, text), call));
            }
        };

        let context = ResultContext::default();
        let check = PermissionCheck {
            config: self.config,
            cx: self.cx,
            tool: &tool,
            context: &context,
        };

        let mut outcome = match self.permitted_call(&check, call, start).await {
            Continue(_) if self.halt.is_set() => CallOutcome::NotBegun,
            Continue(call) => self.run_permitted(&check, &call, start).await,
            Break(outcome) => outcome,
        };

        if let CallOutcome::Done(result) = &mut outcome {
            context.add_to(result, self.max_result_bytes);
        }
        outcome
    }

    /// Returns the call as it is permitted to run, or its outcome if it is not permitted.
    async fn permitted_call<'c>(
        &self,
        check: &PermissionCheck<'_>,
        call: &'c ToolCall,
        start: &CallStart,
    ) -> ControlFlow<CallOutcome, Cow<'c, ToolCall>> {
        // A start that was stored with the response belongs to a call that was certain to run: its
        // arguments match the schema. Only the mode and the gates may have changed.
        if start.is_stored && check.is_permitted_by_mode_alone() {
            return Continue(Cow::Borrowed(call));
        }

        let check_cost = text_len(&call.args).saturating_mul(CHECK_COST);
        self.decision_pace.lock().await.step(check_cost).await;
        let result = match check.permit(call.clone()).await {
            Ok(Permit::Run(call)) => return Continue(Cow::Owned(call)),
            Ok(Permit::Pending(pending)) => return Break(CallOutcome::Pending(pending)),
            Ok(Permit::Reply(result)) => result,
            Err(refusal) => {
                self.halt.set(refusal.exit());
                refusal.into_result(call)
            }
        };
        Break(CallOutcome::Done(self.limited(result, call)))
    }

    /// Returns `true` if no hook, gate or question can stop or change the call, and its start has
    /// to be stored.
    pub(super) fn has_certain_start(&self, call: &ToolCall) -> bool {
        let Some(tool) = self.cx.tools().get_enabled(&call.name) else {
            return false;
        };
        let check = PermissionCheck {
            config: self.config,
            cx: self.cx,
            tool: &tool,
            context: &ResultContext::default(),
        };
        !tool.side_effect().is_read_only()
            && check.is_permitted_by_mode_alone()
            && check_call_arguments(call, tool.parameters()).is_ok()
    }

    /// Runs a permitted call: a call of this turn, or a pending one that was approved. If the tool
    /// leaves a question open, the call is pending and has no result, so neither `post_tool_use`
    /// hooks nor watchers receive one.
    pub(super) async fn run_permitted(
        &self,
        check: &PermissionCheck<'_>,
        call: &ToolCall,
        start: &CallStart,
    ) -> CallOutcome {
        let PermissionCheck { tool, context, .. } = *check;
        if !start.is_stored && !tool.side_effect().is_read_only() {
            let is_halted = || self.halt.is_set() || self.cx.shared().is_stopped();
            let call_id = call.id.clone();
            let store_future = self.starts.store(self.writer, self.cx, call_id, is_halted);
            let Some(store_result) = store_future.await else {
                return CallOutcome::NotBegun;
            };
            // Another call may have ended the run while the start was stored.
            if is_halted() {
                return CallOutcome::NotBegun;
            }
            if let Err(error) = store_result {
                let text =
                    format!("the call was not run because its start could not be stored: {error}");
                return CallOutcome::Done(ToolResult::failed(call, text));
            }
        }

        start.begin();
        let clock = CallClock::start(self.cx);
        self.report_progress(&clock, call, ProgressData::started(call.args.clone()));
        let result = self.run_wrapped(tool, call, context, &clock).await;
        if let Some(question) = self.take_pending_question(context, &result) {
            self.cx.drop_watchers(&call.id);
            self.report_progress(&clock, call, json!({"state": "waiting"}));
            return CallOutcome::Pending(check.pending(call.clone(), question));
        }

        let result = self.run_post_hooks(call, result).await;
        self.cx.report_result(&result);
        let end_data = ProgressData::done(result.is_error, &result.content.text());
        self.report_progress(&clock, call, end_data);
        CallOutcome::Done(result)
    }

    /// Takes the unanswered question of a tool. Returns it if the agent leaves such calls pending;
    /// the call then waits for the answer instead of failing.
    fn take_pending_question(
        &self,
        context: &ResultContext,
        result: &ToolResult,
    ) -> Option<UnansweredQuestion> {
        let question = context.take_question()?;
        let is_pending = self.config.limits.unanswered == OnUnanswered::Park && result.is_error;
        is_pending.then_some(question)
    }

    fn report_progress(&self, clock: &CallClock, call: &ToolCall, data: impl Into<ProgressData>) {
        let progress = clock.progress(self.cx, call).with_data(data);
        self.cx.shared().push(progress.into());
    }

    /// Returns a result that hooks or this engine made, without secrets and within its limit.
    pub(super) fn limited(&self, mut result: ToolResult, call: &ToolCall) -> ToolResult {
        result.redact();
        limit_result(&mut result, call, self.max_result_bytes);
        result
    }

    /// Runs a call inside the `wrap_tool_call` hooks.
    async fn run_wrapped(
        &self,
        tool: &Arc<dyn Tool>,
        call: &ToolCall,
        context: &ResultContext,
        clock: &Arc<CallClock>,
    ) -> ToolResult {
        let config = self.config;
        let limits = CallLimits {
            timeout: tool.timeout().unwrap_or(config.limits.tool_timeout),
            heartbeat: config.limits.heartbeat,
            max_result_bytes: self.max_result_bytes,
        };

        if config.hooks.wrap_tool_call.is_empty() {
            let execution = Execution {
                config,
                cx: self.cx,
                tool,
                call,
                clock,
                context,
                limits,
            };
            return execution.run().await;
        }

        let core = ToolCore {
            config: config.clone(),
            tool: tool.clone(),
            permitted_call: call.clone(),
            context: context.clone(),
            halt: self.halt.clone(),
            clock: clock.clone(),
            limits,
        };

        let chain = HookChain {
            hooks: config.hooks.wrap_tool_call.clone(),
            context: self.cx.clone(),
            core: core.into_core(),
            is_repeatable: tool.is_idempotent(),
        };

        match chain.run(call.clone()).await {
            Ok(mut result) => {
                // A hook may return a result with another id or name; it belongs to this call.
                result.tool_call_id = call.id.clone();
                result.name = call.name.clone();
                self.limited(result, call)
            }
            Err(error) => ToolResult::failed(call, error.to_string()),
        }
    }

    /// Passes a result through the `post_tool_use` hooks. If a hook fails, its error is the result.
    async fn run_post_hooks(&self, call: &ToolCall, mut result: ToolResult) -> ToolResult {
        let config = self.config;
        for hook in &config.hooks.post_tool_use {
            let future = hook.post_tool_use(self.cx, call, result.clone());
            match guard(self.cx, &**hook, Phases::POST_TOOL_USE, future).await {
                Ok(changed) => result = self.limited(changed, call),
                Err(error) => return ToolResult::failed(call, error.to_string()),
            }
        }

        result.tool_call_id = call.id.clone();
        result.name = call.name.clone();
        result
    }
}

/// The innermost step of a tool call: the execution of the call that the hooks pass on.
struct ToolCore {
    config: Arc<Config>,
    tool: Arc<dyn Tool>,
    permitted_call: ToolCall,
    context: ResultContext,
    halt: Halt,
    clock: Arc<CallClock>,
    limits: CallLimits,
}

impl ToolCore {
    fn into_core(self) -> Core<ToolCall> {
        let core = Arc::new(self);
        Arc::new(move |cx, call| {
            let core = core.clone();
            async move { Ok(core.run(&cx, call).await) }.boxed()
        })
    }

    fn execution<'a>(&'a self, cx: &'a RunContext, call: &'a ToolCall) -> Execution<'a> {
        Execution {
            config: &self.config,
            cx,
            tool: &self.tool,
            call,
            clock: &self.clock,
            context: &self.context,
            limits: self.limits,
        }
    }

    /// Runs a call. A call that a hook changed after its check is checked again.
    async fn run(&self, cx: &RunContext, mut call: ToolCall) -> ToolResult {
        let permitted_call = &self.permitted_call;
        if call.name != permitted_call.name {
            let text = format!(
                "a hook changed the tool of a call from {:?} to {:?}; hooks may change only the \
                 arguments",
                permitted_call.name, call.name
            );
            return ToolResult::failed(permitted_call, text);
        }

        call.id = permitted_call.id.clone();
        if call.args != permitted_call.args {
            let check = PermissionCheck {
                config: &self.config,
                cx,
                tool: &self.tool,
                context: &self.context,
            };
            call = match check.permit_after_hooks(call, Verdict::Continue).await {
                Ok(Permit::Run(call)) => call,
                Ok(Permit::Pending(_)) => {
                    let text = "the call was changed after it was permitted, and the question \
                                about the change was not answered";
                    return ToolResult::failed(permitted_call, text);
                }
                Ok(Permit::Reply(result)) => return result,
                Err(refusal) => {
                    self.halt.set(refusal.exit());
                    return refusal.into_result(permitted_call);
                }
            };
        }

        self.execution(cx, &call).run().await
    }
}
