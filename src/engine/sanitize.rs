//! The validation of what models, hooks, tools and callers add to the history.
//!
//! A provider that receives one message it refuses refuses every later request of the session too,
//! so only valid messages are added to the history.

use crate::message::{Message, Messages, NO_OUTPUT, Part, ToolResult, is_text_too_deep};
use crate::model::{ModelEvent, ModelResponse};

/// Drops invalid parts: empty texts, calls without a tool name, and JSON that is nested too deep to
/// be stored.
pub(super) fn answer(response: &mut ModelResponse) {
    response.content.parts_mut().retain_mut(limit_depth);
    response.content.parts_mut().retain(|part| match part {
        Part::Text(text) => !text.is_empty(),
        Part::ToolCall(call) => !call.name.is_empty(),
        _ => true,
    });
}

/// The event without JSON that is nested too deep; `None` if the whole event was.
pub(super) fn event(event: ModelEvent) -> Option<ModelEvent> {
    match event {
        ModelEvent::ToolCall(mut call) => {
            call.limit_depth();
            Some(ModelEvent::ToolCall(call))
        }
        ModelEvent::Part(mut part) => limit_depth(&mut part).then_some(ModelEvent::Part(part)),
        event => Some(event),
    }
}

/// Removes arguments and further fields of a call that are nested too deep; false for a block that
/// is.
fn limit_depth(part: &mut Part) -> bool {
    match part {
        Part::ToolCall(call) => call.limit_depth(),
        Part::Thinking(block) | Part::Opaque(block) => return !is_text_too_deep(block.raw.get()),
        _ => {}
    }
    true
}

/// Drops the parts of a result that are reserved for the model, and fills it if nothing is left.
pub(super) fn result(result: &mut ToolResult) {
    result.content.parts_mut().retain(|part| match part {
        Part::Text(text) => !text.is_empty(),
        Part::ToolCall(_) | Part::Thinking(_) => false,
        _ => true,
    });
    if result.content.is_blank() {
        result.content = NO_OUTPUT.into();
    }
}

/// Returns `true` if a message may be sent to the model during a run: only of the user or the
/// system, and not empty.
pub(super) fn is_valid_input(message: &Message) -> bool {
    message.role().is_user_input()
        && !message.content().is_blank()
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
    use crate::message::ToolCall;

    #[test]
    fn result_without_allowed_content_is_filled() {
        let call = ToolCall::new("a", "f", json!({}));
        let inner = Part::ToolCall(call.clone());
        let mut odd_result = ToolResult::ok(&call, [Part::text(""), inner, Part::text(" ")]);
        result(&mut odd_result);
        assert_eq!(odd_result.content, NO_OUTPUT.into());
    }
}
