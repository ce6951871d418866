//! The combined decision of the `pre_tool_use` hooks about a call.

use crate::error::{Error, ErrorKind, Result};
use crate::hook::{Phases, guard};
use crate::message::{MAX_JSON_DEPTH, ToolCall, dismantle, is_too_deep};
use crate::run::RunContext;
use crate::tool::{AskOrigin, ToolDecision, Verdict};

use super::config::Config;

/// The combined decision of the `pre_tool_use` hooks.
pub(super) struct HookDecision {
    /// The call with the arguments that the hooks gave it.
    pub(super) call: ToolCall,
    /// The strongest of their verdicts.
    pub(super) verdict: Verdict,
    /// Their texts for the model.
    pub(super) context: Vec<String>,
}

/// Runs the `pre_tool_use` hooks, in order. Each hook receives the arguments that the hooks before
/// it have set.
pub(super) async fn ask_hooks(
    config: &Config,
    cx: &RunContext,
    call: ToolCall,
) -> Result<HookDecision> {
    let mut combined = HookDecision {
        call,
        verdict: Verdict::Continue,
        context: Vec::new(),
    };

    for hook in &config.hooks.pre_tool_use {
        let future = hook.pre_tool_use(cx, &combined.call);
        let decision = guard(cx, &**hook, Phases::PRE_TOOL_USE, future).await;
        let decision = match decision.and_then(|decision| check_depth(hook.name(), decision)) {
            Ok(decision) => decision,
            // The call is already refused and the run stops, so the error is only reported.
            Err(error) if matches!(combined.verdict, Verdict::Stop(_)) => {
                cx.warn(error.to_string());
                continue;
            }
            Err(error) => return Err(error),
        };

        if let Some(args) = decision.args {
            combined.call = combined.call.with_args(args);
        }

        combined.context.extend(decision.context);
        combined.verdict = combined.verdict.combine(with_hook_origin(decision.verdict));
    }

    Ok(combined)
}

/// Returns the verdict of a hook, with the origin `Hook` for its question unless a rule asks it.
fn with_hook_origin(verdict: Verdict) -> Verdict {
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
