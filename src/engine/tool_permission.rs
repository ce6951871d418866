//! The decision whether a call may run.
//!
//! The hooks of `pre_tool_use` are asked first, because they may change the arguments. Then every
//! call takes the same steps, and the first that refuses it decides:
//!
//! 1. A hook **stops** the run.
//! 2. The arguments do not match the tool's **schema**.
//! 3. The **mode** is plan, and the tool does more than read.
//! 4. A hook **denies** the call.
//! 5. The **gate** denies it, stops the run, or fails.
//! 6. A **question** has no answer. If there are several, only one is asked: the rule's, else the
//!    hook's, else the mode's. Its answer applies to all of them. If a hook or the tool registry
//!    ([`ToolRegistry::allow`](crate::tool::ToolRegistry::allow)) allows the call, the question of
//!    the mode is not asked.
//!
//! The steps after an approval depend on it:
//!
//! * A call that was approved while its run waited: only the mode.
//! * A pending call that is approved later: the schema, the mode and the gate. Hooks are not asked
//!   again.
//! * A call with edited arguments: all steps, hooks included.
//!
//! In the last two cases, questions count as answered, and neither a hook nor the gate may change
//! the arguments.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::message::{ToolCall, ToolResult, dismantle, is_too_deep};
use crate::run::{ExitReason, RunContext};
use crate::session::PendingCall;
use crate::tool::{
    Answer, AnswerForm, AskOrigin, GateRequest, PermissionGate, PermissionMode, Tool, ToolDecision,
    UnansweredQuestion, Verdict, check_call_arguments, plan_mode_refusal,
};
use crate::util::panic::{self, DropContained};
use crate::util::time::{now_ms, now_us};

use super::config::{Config, OnUnanswered};
use super::hook_decision::{HookDecision, ask_hooks};
use super::refusal::Refusal;
use super::result_context::ResultContext;

/// The outcome of checking a call that was not refused.
pub(super) enum Permit {
    /// The call runs, with these arguments.
    Run(ToolCall),
    /// The call waits for a later answer.
    Pending(PendingCall),
    /// A person replied instead: the call does not run, and the reply is its result.
    Reply(ToolResult),
}

/// Checks the calls of one tool.
pub(super) struct PermissionCheck<'a> {
    pub(super) config: &'a Config,
    pub(super) cx: &'a RunContext,
    pub(super) tool: &'a Arc<dyn Tool>,
    /// Receives the texts of hooks and gates for the model.
    pub(super) context: &'a ResultContext,
}

impl PermissionCheck<'_> {
    /// Checks a call of the model.
    pub(super) async fn permit(&self, call: ToolCall) -> Result<Permit, Refusal> {
        let call = self.check_args_shape(call)?;
        let (call, verdict) = self.ask_hooks(call).await?;
        self.permit_after_hooks(call, verdict).await
    }

    /// Checks a call with the arguments that a person gave it.
    pub(super) async fn permit_edited(&self, call: ToolCall) -> Result<ToolCall, Refusal> {
        let call = self.check_args_shape(call)?;
        let (changed_call, mut verdict) = self.ask_hooks(call.clone()).await?;
        if changed_call.args != call.args {
            let reason = "a hook would run this call with other arguments than were approved";
            verdict = verdict.combine(Verdict::Deny(reason.to_owned()));
        }
        self.permit_approved(call, verdict).await
    }

    /// Checks a call that the hooks have seen, and asks the strongest question that has no answer,
    /// if there is one.
    pub(super) async fn permit_after_hooks(
        &self,
        call: ToolCall,
        hook_verdict: Verdict,
    ) -> Result<Permit, Refusal> {
        let (call, gate_decision) = self.check_refusals(call, &hook_verdict).await?;
        let call = self.replace_args(call, gate_decision.args)?;
        match self.question_to_ask(&call, hook_verdict, gate_decision.verdict) {
            Some(question) => self.ask(call, question).await,
            None => Ok(Permit::Run(call)),
        }
    }

    /// Checks a call that the hooks have seen and a person has approved.
    pub(super) async fn permit_approved(
        &self,
        call: ToolCall,
        hook_verdict: Verdict,
    ) -> Result<ToolCall, Refusal> {
        let (call, gate_decision) = self.check_refusals(call, &hook_verdict).await?;
        self.refuse_changed_args(&call, gate_decision.args).await?;
        Ok(call)
    }

    /// Runs the steps that may refuse the call, in order: a hook's stop, the schema, the mode, a
    /// hook's denial, the gate. Returns the decision of the gate if none refuses.
    async fn check_refusals(
        &self,
        call: ToolCall,
        hook_verdict: &Verdict,
    ) -> Result<(ToolCall, ToolDecision), Refusal> {
        if let Verdict::Stop(reason) = hook_verdict {
            self.cx.stop(reason.clone());
            return Err(self
                .denied(&call, "hook", reason)
                .ending_with(ExitReason::HookStopped));
        }

        let call = self.check_schema(call)?;
        self.check_mode(&call)?;
        if let Verdict::Deny(reason) = hook_verdict {
            return Err(self.denied(&call, "hook", reason));
        }

        let decision = self.check_gate(&call).await?;
        Ok((call, decision))
    }

    /// Refuses arguments that no hook may receive: arguments that are not an object or are nested
    /// too deep.
    fn check_args_shape(&self, call: ToolCall) -> Result<ToolCall, Refusal> {
        if call.args.is_object() && !is_too_deep(&call.args) {
            Ok(call)
        } else {
            // The schema check refuses both, and its error states the reason.
            self.check_schema(call)
        }
    }

    /// Runs the `pre_tool_use` hooks, whose texts replace all earlier ones.
    async fn ask_hooks(&self, call: ToolCall) -> Result<(ToolCall, Verdict), Refusal> {
        self.cx.apply_requested_mode();
        let decision = ask_hooks(self.config, self.cx, call).await;
        let HookDecision {
            call,
            verdict,
            context,
        } = decision.map_err(|error| Refusal::invalid(error.to_string()))?;
        self.context.replace(context);
        Ok((call, verdict))
    }

    fn check_schema(&self, mut call: ToolCall) -> Result<ToolCall, Refusal> {
        match check_call_arguments(&call, self.tool.parameters()) {
            Ok(()) => Ok(call),
            Err(text) => {
                // Arguments that are nested too deep must not be dropped recursively.
                call.limit_depth();
                Err(Refusal::invalid(text))
            }
        }
    }

    /// Refuses a call in plan mode if its tool does more than read, even if a hook or the gate
    /// would allow it.
    fn check_mode(&self, call: &ToolCall) -> Result<(), Refusal> {
        // A mode may have been set while the response streamed, a hook ran or a question was open.
        self.cx.apply_requested_mode();
        match refusal_by_mode(self.cx.permission_mode(), self.tool) {
            None => Ok(()),
            Some(reason) => Err(self.denied(call, "mode", reason)),
        }
    }

    /// Returns `true` if the mode permits the tool and there is no hook and no gate to ask. The
    /// schema is not checked.
    pub(super) fn is_permitted_by_mode_alone(&self) -> bool {
        self.cx.apply_requested_mode();
        self.config.hooks.pre_tool_use.is_empty()
            && self.cx.gates().allows_all()
            && refusal_by_mode(self.cx.permission_mode(), self.tool).is_none()
    }

    /// Asks the gate. A gate that fails or panics denies the call.
    async fn check_gate(&self, call: &ToolCall) -> Result<ToolDecision, Refusal> {
        let request = self.request(call);
        let gates = self.cx.gates();
        let check = DropContained::new(gates.check(&request), "a permission gate");
        let outcome = match panic::catch_async(check).await {
            Ok(Ok(decision)) => Ok(decision),
            Ok(Err(error)) => Err(error.to_string()),
            Err(text) => Err(format!("the gate panicked: {text}")),
        };

        let mut decision = outcome.map_err(|failure| {
            let reason = format!("the permission check failed: {failure}");
            self.denied(call, "other", &reason)
        })?;
        self.context.add(decision.context.take());
        let explanation = decision.take_explanation();
        let (reason, exit) = match decision.verdict {
            Verdict::Deny(reason) => (reason, None),
            Verdict::Stop(reason) => (reason, Some(ExitReason::Interrupted)),
            Verdict::Continue | Verdict::Allow | Verdict::Ask { .. } => return Ok(decision),
        };
        let refusal = Refusal::by_gate(self.cx, &request, &reason, explanation).await;
        Err(match exit {
            Some(exit) => refusal.ending_with(exit),
            None => refusal,
        })
    }

    /// Returns the call with the arguments of the gate after checking them against the schema.
    fn replace_args(&self, call: ToolCall, args: Option<Value>) -> Result<ToolCall, Refusal> {
        match args {
            None => Ok(call),
            Some(args) => self.check_schema(call.with_args(args)),
        }
    }

    /// Refuses an approved call that the gate would run with other arguments.
    async fn refuse_changed_args(
        &self,
        call: &ToolCall,
        args: Option<Value>,
    ) -> Result<(), Refusal> {
        match args {
            Some(args) if is_too_deep(&args) || args != *call.args => {
                dismantle(args);
                let reason =
                    "the rules would run this call with other arguments than were approved";
                Err(Refusal::by_gate(self.cx, &self.request(call), reason, None).await)
            }
            _ => Ok(()),
        }
    }

    /// Returns the question that has to be answered before the call runs: the strongest one that
    /// has no answer yet.
    fn question_to_ask(
        &self,
        call: &ToolCall,
        hook_verdict: Verdict,
        gate_verdict: Verdict,
    ) -> Option<String> {
        let mut hook_verdict = match hook_verdict {
            Verdict::Ask { question, .. } if self.is_granted(call, &question) => Verdict::Continue,
            verdict => verdict,
        };

        if self.cx.needs_no_mode_question(&call.name) {
            hook_verdict = hook_verdict.combine(Verdict::Allow);
        }

        match (hook_verdict, gate_verdict) {
            (
                Verdict::Allow,
                Verdict::Ask {
                    origin: AskOrigin::Mode,
                    ..
                },
            ) => None,
            (hook_verdict, gate_verdict) => match hook_verdict.combine(gate_verdict) {
                Verdict::Ask { question, .. } => Some(question),
                _ => None,
            },
        }
    }

    /// Asks a person, and decides by the answer.
    async fn ask(&self, call: ToolCall, question: String) -> Result<Permit, Refusal> {
        if self.cx.permission_mode() == PermissionMode::DontAsk {
            return Err(self.denied(&call, "mode", &dont_ask_reason(&question)));
        }

        let answer = self
            .cx
            .ask(&call, question.clone(), AnswerForm::Permission)
            .await;
        match answer {
            Answer::Allow | Answer::AllowForSession => {
                self.check_mode(&call)?;
                if answer == Answer::AllowForSession {
                    self.grant(&call, &question).await;
                }

                Ok(Permit::Run(call))
            }
            Answer::Edit(args) => {
                let call = self.permit_edited(call.with_args(args)).await?;
                Ok(Permit::Run(call))
            }
            Answer::Deny(reason) => Err(self.denied(&call, "user", &reason)),
            Answer::Reply { text, picked } => Ok(Permit::Reply(reply_result(&call, text, &picked))),
            Answer::Unanswered if self.config.limits.unanswered == OnUnanswered::Park => {
                let question = UnansweredQuestion::permission(question);
                Ok(Permit::Pending(self.pending(call, question)))
            }
            Answer::Unanswered => {
                let reason = format!(
                    "permission denied (the question cannot be answered): {question}; \
                     continue without this call, or report what you need"
                );
                Err(self.denied(&call, "mode", &reason))
            }
        }
    }

    /// Grants calls like this one for the rest of the session, so that no question is asked.
    pub(super) async fn grant(&self, call: &ToolCall, question: &str) {
        let request = self.request(call);
        let grants = self.cx.granted_questions();
        grants.add(&request.session_id, call, question);
        let gates = self.cx.gates();
        let failure = match panic::catch_async(gates.grant(&request)).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(text) => format!("the gate panicked: {text}"),
        };
        self.cx.warn(format!(
            "the grant for this session was not stored, so the next such call asks again: {failure}"
        ));
    }

    fn is_granted(&self, call: &ToolCall, question: &str) -> bool {
        let grants = self.cx.granted_questions();
        grants.contains(self.cx.session_id(), call, question)
    }

    /// Creates the pending call, which waits for a later answer.
    pub(super) fn pending(&self, call: ToolCall, question: UnansweredQuestion) -> PendingCall {
        let id = format!("pending_{}_{}", self.cx.run_id(), call.id).into();
        let mut pending = PendingCall::new(id, self.cx.session_id().clone(), call, question.text);
        pending.agent = Some(self.config.settings.agent.clone());
        pending.agent_id = self.config.settings.agent_id.clone();
        pending.expects_text = question.expects_text;
        let expiry = self.config.limits.approval_expiry;
        pending.expires_at_ms = expiry
            .and_then(|expiry| u64::try_from(expiry.as_millis()).ok())
            .map(|expiry| now_ms().saturating_add(expiry));
        pending.waits_since_us = Some(now_us());
        pending.context = self.context.texts();
        pending.context.extend(question.context);
        pending
    }

    fn request(&self, call: &ToolCall) -> GateRequest {
        self.cx.gate_request(self.tool, call)
    }

    fn denied(&self, call: &ToolCall, by: &str, reason: &str) -> Refusal {
        Refusal::denied(self.cx, call, by, reason)
    }
}

/// Returns the reply of a person as the result of a call that does not run.
pub(super) fn reply_result(call: &ToolCall, text: String, picked: &[usize]) -> ToolResult {
    let mut result = ToolResult::ok(call, text);
    result.details = (!picked.is_empty()).then(|| json!({"picked": picked}));
    result
}

/// Returns the reason for denying a call of a tool in this mode.
pub(super) fn refusal_by_mode(mode: PermissionMode, tool: &Arc<dyn Tool>) -> Option<&'static str> {
    plan_mode_refusal(mode, tool.side_effect().is_read_only())
}

/// Returns the reason for denying a call that needs a question in a mode without questions.
pub(super) fn dont_ask_reason(question: &str) -> String {
    format!("tool not explicitly allowed (dontAsk mode): {question}")
}
