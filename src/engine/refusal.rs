//! The refusal of a call, and its report.

use std::borrow::Cow;

use crate::message::{ToolCall, ToolResult};
use crate::run::{ExitReason, RunContext, Stop};
use crate::sdk::{PermissionDenial, PermissionDenied, SystemKind};
use crate::tool::{GateRequest, PermissionGate};
use crate::util::blocking::{LARGE_CALL, blocking};
use crate::util::json::text_len;
use crate::util::panic;
use crate::util::secret::redacted;
use crate::util::sync::lock;

/// The refusal of a call.
#[derive(Debug)]
pub(super) struct Refusal {
    /// The text for the model.
    reason: String,
    /// The exit reason of the run, if the refusal ends the run.
    exit: Option<ExitReason>,
}

/// The maximum length of the reason of a denial, in characters.
const MAX_REASON: usize = 10_000;

/// Cuts a reason to [`MAX_REASON`] characters, with a note.
fn cut_reason(reason: &str) -> Cow<'_, str> {
    let Some((end, _)) = reason.char_indices().nth(MAX_REASON) else {
        return reason.into();
    };
    let count = MAX_REASON + reason[end..].chars().count();
    let head = &reason[..end];
    format!("{head}\n... (cut: {count} characters are more than the limit of {MAX_REASON})").into()
}

impl Refusal {
    /// Refuses a call that cannot run as it is. The call does not count as denied.
    pub(super) fn invalid(reason: String) -> Self {
        Self { reason, exit: None }
    }

    /// Denies a call. `by` is the kind of the reason on the wire.
    pub(super) fn denied(cx: &RunContext, call: &ToolCall, by: &str, reason: &str) -> Self {
        Self::report(cx, call, by, reason, None)
    }

    /// Denies a call because a gate does, with the explanation that its decision has. Without one,
    /// the gate is asked for it, which may take as long as the decision: the explanation of a
    /// large call is made on a thread for blocking work.
    pub(super) async fn by_gate(
        cx: &RunContext,
        request: &GateRequest,
        reason: &str,
        explanation: Option<String>,
    ) -> Self {
        let gates = cx.gates();
        let explain =
            move |request: &GateRequest| panic::catch(|| gates.explain(request)).ok().flatten();
        let explanation = if explanation.is_some() {
            explanation
        } else if text_len(&request.call.args) < LARGE_CALL {
            explain(request)
        } else {
            let request = request.clone();
            blocking(move || Ok(explain(&request))).await.ok().flatten()
        };
        Self::report(cx, &request.call, "rule", reason, explanation)
    }

    /// Makes the refusal end the run.
    pub(super) fn ending_with(mut self, exit: ExitReason) -> Self {
        self.exit = Some(exit);
        self
    }

    /// Returns the exit reason of the run, if the refusal ends the run.
    pub(super) fn exit(&self) -> Option<ExitReason> {
        self.exit
    }

    /// Interrupts the run if that is the exit reason of this refusal. If a hook ended the run, the
    /// stop was recorded before.
    pub(super) fn interrupt(&self, cx: &RunContext) {
        if self.exit == Some(ExitReason::Interrupted) {
            cx.shared().request_stop(Stop::Interrupt);
        }
    }

    /// Returns the result of the call.
    pub(super) fn into_result(self, call: &ToolCall) -> ToolResult {
        ToolResult::failed(call, self.reason)
    }

    /// Records and reports that a call was denied.
    fn report(
        cx: &RunContext,
        call: &ToolCall,
        by: &str,
        reason: &str,
        explanation: Option<String>,
    ) -> Self {
        // Redacted before it is cut, which may leave a part of a secret.
        let reason = redacted(reason);
        let reason = match &*reason {
            reason if reason.trim().is_empty() => "denied".into(),
            reason => cut_reason(reason),
        };
        let reason = &*reason;

        let mut event = PermissionDenied::new(call.name.clone(), call.id.clone(), reason);
        event.decision_reason_type = Some(by.into());
        event.decision_reason = explanation.map(|text| redacted(&text).into_owned());
        cx.emit(SystemKind::PermissionDenied(Box::new(event)));
        let denial = PermissionDenial::new(call.name.clone(), call.id.clone(), call.args.clone());
        lock(&cx.shared().stats).permission_denials.push(denial);
        Self::invalid(reason.to_owned())
    }
}
