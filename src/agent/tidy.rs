//! Making what models, hooks, tools and callers hand in fit for the history.
//!
//! A provider that is sent one message it refuses refuses every later request of the session too,
//! so nothing goes into the history unless it may be sent.

use std::collections::HashSet;
use std::sync::Arc;

use crate::message::{Content, Message, Messages, Part, ToolCall, ToolResult};
use crate::model::ModelResponse;

/// What a result says that says nothing.
const NO_OUTPUT: &str = "(no output)";

/// Drops what no model may say and gives every call an id that `history` does not have.
pub(super) fn answer(response: &mut ModelResponse, history: &Messages) {
    let is_fine = |part: &Part| match part {
        Part::Text(text) => !text.is_empty(),
        Part::ToolCall(call) => !call.name.is_empty(),
        _ => true,
    };
    response.content.parts_mut().retain(is_fine);
    if response.tool_calls().next().is_none() {
        return;
    }
    let mut taken: HashSet<Arc<str>> = history
        .iter()
        .flat_map(|message| message.tool_calls())
        .map(|call| call.id.clone())
        .collect();
    for part in response.content.parts_mut() {
        if let Part::ToolCall(call) = part {
            if call.id.is_empty() || taken.contains(&call.id) {
                call.id = free_id(call, &taken);
            }
            taken.insert(call.id.clone());
        }
    }
}

fn free_id(call: &ToolCall, taken: &HashSet<Arc<str>>) -> Arc<str> {
    let base = match &*call.id {
        "" => "call",
        id => id,
    };
    let mut number = 2;
    loop {
        let id: Arc<str> = format!("{base}_{number}").into();
        if !taken.contains(&id) {
            return id;
        }
        number += 1;
    }
}

/// Whether an answer has nothing that could be kept or sent back: neither visible text nor
/// anything but thinking.
pub(super) fn says_nothing(content: &Content) -> bool {
    content.parts().iter().all(|part| match part {
        Part::Text(text) => text.trim().is_empty(),
        Part::Thinking(_) => true,
        _ => false,
    })
}

/// Drops from a result what only the model may say, and fills it if nothing is left.
pub(super) fn result(result: &mut ToolResult) {
    result.content.parts_mut().retain(|part| match part {
        Part::Text(text) => !text.is_empty(),
        Part::ToolCall(_) | Part::Thinking(_) => false,
        _ => true,
    });
    if says_nothing(&result.content) {
        result.content = NO_OUTPUT.into();
    }
}

/// Whether a message may be said to the model while it works: only as the user or the system,
/// and not without a word.
pub(super) fn is_said_to_model(message: &Message) -> bool {
    message.role().is_user_input()
        && !says_nothing(message.content())
        && Messages::from(message.clone())
            .validate_user_input()
            .is_ok()
        && !message
            .content()
            .parts()
            .iter()
            .any(|part| matches!(part, Part::Text(text) if text.is_empty()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn calls_get_ids_of_their_own() {
        let call = |id: &str| ToolCall::new(id, "f", json!({}));
        let history = Messages::from("Hi")
            .ai_calling("", [call("a"), call("a_2")])
            .tool("a", "f", "1")
            .tool("a_2", "f", "1");
        let parts = ["a", "b", "", "b", ""].map(|id| Part::ToolCall(call(id)));
        let mut response = ModelResponse::new(parts);
        answer(&mut response, &history);
        let ids: Vec<_> = response.tool_calls().map(|call| &*call.id).collect();
        assert_eq!(ids, ["a_3", "b", "call_2", "b_2", "call_3"]);
    }

    #[test]
    fn results_say_something_a_tool_may_say() {
        let call = ToolCall::new("a", "f", json!({}));
        let inner = Part::ToolCall(call.clone());
        let mut odd = ToolResult::ok(&call, [Part::text(""), inner, Part::text(" ")]);
        result(&mut odd);
        assert_eq!(odd.content, NO_OUTPUT.into());
    }
}
