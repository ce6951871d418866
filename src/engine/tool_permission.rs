//! The decision whether a call may run: hooks, schema, gate, questions.

use std::sync::Arc;

use serde_json::Value;

use crate::error::{Error, ErrorKind, Result};
use crate::hook::guard;
use crate::message::{MAX_JSON_DEPTH, ToolCall, ToolResult, dismantle, is_too_deep};
use crate::run::RunContext;
use crate::sdk::{PermissionDenial, PermissionDenied, SystemKind};
use crate::session::PendingCall;
use crate::tool::{
    Answer, AskOrigin, GateRequest, PermissionGate, PermissionMode, Tool, ToolDecision, Verdict,
    parse_arguments,
};
use crate::util::panic;
use crate::util::sync::lock;

use super::config::{Config, OnUnanswered};
use super::decision::now_ms;

/// The reason for denying a call in plan mode.
pub(super) const NOT_PLANNED: &str = "only read-only tools are allowed in plan mode";

/// The decision about a call.
pub(super) enum Permit {
    /// The call runs, with these arguments.
    Run(ToolCall),
    /// The call does not run; this is its result.
    Refuse(ToolResult),
    /// The call waits for a later answer.
    Park(PendingCall),
    /// The call does not run, and the run ends as interrupted.
    Interrupt(ToolResult),
}

/// The combined decision of the `pre_tool_use` hooks.
pub(super) struct HookOpinion {
    pub(super) call: ToolCall,
    pub(super) verdict: Verdict,
    pub(super) context: Vec<String>,
}

/// Asks every hook of `pre_tool_use`, in order. Each sees the arguments as the ones before it
/// left them.
pub(super) async fn ask_hooks(
    config: &Config,
    cx: &RunContext,
    mut call: ToolCall,
) -> Result<HookOpinion> {
    let mut verdict = Verdict::Continue;
    let mut context = Vec::new();
    for hook in &config.hooks.pre_tool_use {
        let future = hook.pre_tool_use(cx, &call);
        let decision = guard(cx, hook.name(), "pre_tool_use", None, future).await;
        let decision = match decision.and_then(|decision| check_depth(hook.name(), decision)) {
            Ok(decision) => decision,
            // The call will not run in any case, and the run has to end.
            Err(error) if matches!(verdict, Verdict::Stop(_)) => {
                cx.warn(error.to_string());
                continue;
            }
            Err(error) => return Err(error),
        };
        if let Some(args) = decision.args {
            call = call.with_args(args);
        }
        context.extend(decision.context);
        verdict = verdict.combine(of_hook(decision.verdict));
    }
    Ok(HookOpinion {
        call,
        verdict,
        context,
    })
}

/// The verdict of a hook: what it asks is a question of a hook, unless a rule asks it.
fn of_hook(verdict: Verdict) -> Verdict {
    match verdict {
        Verdict::Ask { question, origin } => Verdict::Ask {
            question,
            origin: origin.max(AskOrigin::Hook),
        },
        verdict => verdict,
    }
}

/// Refuses arguments of a hook that are nested too deep.
fn check_depth(hook: &str, mut decision: ToolDecision) -> Result<ToolDecision> {
    let Some(args) = decision.args.take_if(|args| is_too_deep(args)) else {
        return Ok(decision);
    };
    dismantle(args);
    let text = format!(
        "the hook {hook:?} set arguments that are nested deeper than {MAX_JSON_DEPTH} levels"
    );
    Err(Error::new(ErrorKind::Hook, text))
}

/// Decides about a call on its final arguments.
///
/// `verdict` is the hooks' decision; a hook's allow answers a question of the mode, never one of a
/// rule.
pub(super) async fn permit(
    config: &Config,
    cx: &RunContext,
    tool: &Arc<dyn Tool>,
    mut call: ToolCall,
    verdict: Verdict,
    context: &mut Vec<String>,
) -> Permit {
    if let Verdict::Stop(reason) = &verdict {
        cx.stop(reason.clone());
        return Permit::Refuse(deny(cx, &call, "hook", reason));
    }
    if let Err(text) = parse_arguments(&call, tool.parameters()) {
        call.limit_depth();
        return Permit::Refuse(ToolResult::failed(&call, text));
    }
    if let Some(refusal) = refuse_by_mode(cx, tool, &call) {
        return Permit::Refuse(refusal);
    }
    if let Verdict::Deny(reason) = &verdict {
        return Permit::Refuse(deny(cx, &call, "hook", reason));
    }
    let mut request = cx.gate_request(tool, &call);
    let decision = match check_gate(cx, &request).await {
        Ok(decision) => decision,
        Err(refusal) => return Permit::Refuse(refusal),
    };
    context.extend(decision.context);
    match decision.verdict {
        Verdict::Deny(reason) => return Permit::Refuse(deny_by_gate(cx, &request, &reason)),
        Verdict::Stop(reason) => return Permit::Interrupt(deny_by_gate(cx, &request, &reason)),
        Verdict::Continue | Verdict::Allow | Verdict::Ask { .. } => {}
    }
    if let Some(args) = decision.args {
        call = match replace_args(&call, tool, args) {
            Ok(call) => call,
            Err(refusal) => return Permit::Refuse(refusal),
        };
        request.call = call.clone();
    }
    let question = match (open_verdict(cx, &call, verdict), decision.verdict) {
        // A hook may allow what nothing else allows, and nothing that a rule asks about.
        (
            Verdict::Allow,
            Verdict::Ask {
                origin: AskOrigin::Mode,
                ..
            },
        ) => None,
        (by_hooks, by_gates) => match by_hooks.combine(by_gates) {
            Verdict::Ask { question, .. } => Some(question),
            _ => None,
        },
    };
    let Some(question) = question else {
        return Permit::Run(call);
    };
    ask(config, cx, &request, call, question).await
}

/// The verdict of the hooks on the final call, without a question that was answered for the
/// session.
fn open_verdict(cx: &RunContext, call: &ToolCall, verdict: Verdict) -> Verdict {
    let verdict = match verdict {
        Verdict::Ask { ref question, .. }
            if cx
                .granted_questions()
                .contains(cx.session_id(), call, question) =>
        {
            Verdict::Continue
        }
        verdict => verdict,
    };
    match cx.is_allowed(&call.name) {
        true => verdict.combine(Verdict::Allow),
        false => verdict,
    }
}

/// Returns `true` if the mode leaves the decision about calls of this tool to the gate.
pub(super) fn is_planned(mode: PermissionMode, tool: &Arc<dyn Tool>) -> bool {
    mode != PermissionMode::Plan || tool.side_effect().is_read_only()
}

/// Asks the gate. One that fails or panics denies the call.
async fn check_gate(cx: &RunContext, request: &GateRequest) -> Result<ToolDecision, ToolResult> {
    let gates = cx.gates();
    let reason = match panic::caught(gates.check(request)).await {
        Ok(Ok(decision)) => return Ok(decision),
        Ok(Err(error)) => error.to_string(),
        Err(text) => format!("the gate panicked: {text}"),
    };
    let text = format!("the permission check failed: {reason}");
    Err(deny(cx, &request.call, "other", &text))
}

/// The result of checking a call that was approved earlier.
pub(super) enum Approved {
    Run,
    Refuse(ToolResult),
    /// The call does not run, and the run ends.
    Interrupt(ToolResult),
}

/// Checks a call that was approved earlier like a new call. A question of the gate is what was
/// answered.
pub(super) async fn check_approved(
    cx: &RunContext,
    tool: &Arc<dyn Tool>,
    call: &ToolCall,
    context: &mut Vec<String>,
) -> Approved {
    if let Err(text) = parse_arguments(call, tool.parameters()) {
        return Approved::Refuse(ToolResult::failed(call, text));
    }
    let request = cx.gate_request(tool, call);
    if let Some(refusal) = refuse_by_mode(cx, tool, call) {
        return Approved::Refuse(refusal);
    }
    let decision = match check_gate(cx, &request).await {
        Ok(decision) => decision,
        Err(refusal) => return Approved::Refuse(refusal),
    };
    if let Some(text) = decision.context
        && !context.contains(&text)
    {
        context.push(text);
    }
    match (decision.verdict, decision.args) {
        (Verdict::Deny(reason), _) => Approved::Refuse(deny_by_gate(cx, &request, &reason)),
        (Verdict::Stop(reason), _) => Approved::Interrupt(deny_by_gate(cx, &request, &reason)),
        (_, Some(args)) if is_too_deep(&args) || args != *call.args => {
            dismantle(args);
            let reason = "the rules would run this call with other arguments than were approved";
            Approved::Refuse(deny_by_gate(cx, &request, reason))
        }
        _ => Approved::Run,
    }
}

/// Checks a call whose arguments were edited with the hooks; returns the refusal if they do not
/// allow it. A question of theirs is what was answered. `context` becomes their text for the model.
pub(super) async fn check_edited(
    config: &Config,
    cx: &RunContext,
    call: &ToolCall,
    context: &mut Vec<String>,
) -> Option<ToolResult> {
    let decisions = match ask_hooks(config, cx, call.clone()).await {
        Ok(decisions) => decisions,
        Err(error) => return Some(ToolResult::failed(call, error.to_string())),
    };
    *context = decisions.context;
    match decisions.verdict {
        Verdict::Stop(reason) => {
            cx.stop(reason.clone());
            Some(deny(cx, call, "hook", &reason))
        }
        Verdict::Deny(reason) => Some(deny(cx, call, "hook", &reason)),
        _ if decisions.call.args != call.args => {
            let explanation = "a hook would run this call with other arguments than were approved";
            Some(deny(cx, call, "hook", explanation))
        }
        _ => None,
    }
}

/// Refuses a call in plan mode, which takes precedence over gates and hooks.
fn refuse_by_mode(cx: &RunContext, tool: &Arc<dyn Tool>, call: &ToolCall) -> Option<ToolResult> {
    // A mode may have been set while the answer streamed, a hook ran or a question was open.
    cx.apply_requested_mode();
    let is_refused = !is_planned(cx.permission_mode(), tool);
    is_refused.then(|| deny(cx, call, "mode", NOT_PLANNED))
}

/// Calls like this one need no question for the rest of the session.
pub(super) async fn grant(cx: &RunContext, request: &GateRequest, question: &str) {
    let grants = cx.granted_questions();
    grants.add(&request.session_id, &request.call, question);
    if let Err(error) = cx.gates().grant(request).await {
        cx.warn(format!("the grant for this session was not kept: {error}"));
    }
}

async fn ask(
    config: &Config,
    cx: &RunContext,
    request: &GateRequest,
    call: ToolCall,
    question: String,
) -> Permit {
    if request.mode == PermissionMode::DontAsk {
        return Permit::Refuse(deny(cx, &call, "mode", &not_asked(&question)));
    }
    let answer = cx.ask(&call, question.clone()).await;
    let is_allowed = matches!(answer, Answer::Allow | Answer::AllowForSession);
    if is_allowed && let Some(refusal) = refuse_by_mode(cx, &request.tool, &call) {
        return Permit::Refuse(refusal);
    }
    match answer {
        Answer::Allow => Permit::Run(call),
        Answer::AllowForSession => {
            grant(cx, request, &question).await;
            Permit::Run(call)
        }
        Answer::Deny(reason) => Permit::Refuse(deny(cx, &call, "user", &reason)),
        Answer::Unanswered if config.limits.unanswered == OnUnanswered::Park => {
            let id = format!("pending_{}_{}", cx.run_id(), call.id).into();
            let mut pending = PendingCall::new(id, cx.session_id().clone(), call, question);
            let expiry = config.limits.approval_expiry;
            pending.expires_at_ms = expiry
                .and_then(|expiry| u64::try_from(expiry.as_millis()).ok())
                .map(|expiry| now_ms().saturating_add(expiry));
            Permit::Park(pending)
        }
        Answer::Unanswered => {
            let message = format!(
                "permission denied (nobody is there to answer): {question}; \
                 go on without this call or say what you would need"
            );
            Permit::Refuse(deny(cx, &call, "mode", &message))
        }
    }
}

/// The reason for denying a call that would need a question in a mode without questions.
pub(super) fn not_asked(question: &str) -> String {
    format!("tool not explicitly allowed (dontAsk mode): {question}")
}

fn replace_args(
    call: &ToolCall,
    tool: &Arc<dyn Tool>,
    args: Value,
) -> Result<ToolCall, ToolResult> {
    let mut call = call.clone().with_args(args);
    match parse_arguments(&call, tool.parameters()) {
        Ok(_) => Ok(call),
        Err(text) => {
            call.limit_depth();
            Err(ToolResult::failed(&call, text))
        }
    }
}

/// Like [`deny`], with the gate's explanation of the reason.
fn deny_by_gate(cx: &RunContext, request: &GateRequest, reason: &str) -> ToolResult {
    let explanation = panic::contained(|| cx.gates().explain(request));
    report(
        cx,
        &request.call,
        "rule",
        reason,
        explanation.ok().flatten(),
    )
}

/// Records and reports that a call was not allowed; its result contains the reason.
pub(super) fn deny(cx: &RunContext, call: &ToolCall, by: &str, reason: &str) -> ToolResult {
    report(cx, call, by, reason, None)
}

fn report(
    cx: &RunContext,
    call: &ToolCall,
    by: &str,
    reason: &str,
    explained: Option<String>,
) -> ToolResult {
    let reason = if reason.trim().is_empty() {
        "denied"
    } else {
        reason
    };
    let mut event = PermissionDenied::new(call.name.clone(), call.id.clone(), reason);
    event.decision_reason_type = Some(by.into());
    event.decision_reason = explained;
    cx.emit(SystemKind::PermissionDenied(Box::new(event)));
    let denial = PermissionDenial::new(call.name.clone(), call.id.clone(), call.args.clone());
    lock(&cx.shared().stats).permission_denials.push(denial);
    ToolResult::failed(call, reason)
}
