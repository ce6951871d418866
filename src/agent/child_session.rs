//! The ids of the sessions of subagents.

use crate::engine::RunningCall;
use crate::tool::ToolContext;

/// The number of digits of a response's id.
const DIGITS: usize = 8;

/// Returns the id of the session of a subagent with this id: `PARENT:sub:NAME:ID`.
pub(crate) fn sub_session_id(cx: &ToolContext, name: &str, id: &str) -> String {
    format!("{}:sub:{name}:{id}", cx.session_id())
}

/// Returns the id of the session of the subagent that a call starts:
/// `PARENT:sub:NAME:CALL-RESPONSE`, where `RESPONSE` is the end of the id of the response with the
/// call.
///
/// A server may use the id of a call again once the history with the first one was cut, and two
/// calls must not continue one session. The response is the same when the call is run again, such
/// as after a question about it.
pub(crate) fn child_session_id(cx: &ToolContext, name: &str) -> String {
    let call_id = cx.call_id();
    let Some(call) = RunningCall::of(cx) else {
        return sub_session_id(cx, name, call_id);
    };

    // A response that a hook has moved has no id. Nothing but this run then starts the subagent.
    let response_id = call
        .response_id()
        .unwrap_or_else(|| call.run().run_id().to_owned());
    let digits: Vec<_> = response_id
        .chars()
        .filter(char::is_ascii_hexdigit)
        .collect();
    let end: String = digits[digits.len().saturating_sub(DIGITS)..]
        .iter()
        .collect();
    sub_session_id(cx, name, &format!("{call_id}-{end}"))
}
