//! The validation of what models, hooks, tools and callers add to the history.
//!
//! A provider that refuses one message refuses every later request of the session too, so only
//! valid messages are added to the history.

use crate::message::{
    Message, Messages, NO_OUTPUT, Part, ProviderBlock, ToolResult, is_text_too_deep,
};
use crate::model::{ModelEvent, ModelResponse};

/// Drops invalid parts: empty texts, citations that are not directly after a text, calls without a
/// tool name, and JSON that is nested too deep to be stored.
pub(super) fn response(response: &mut ModelResponse) {
    let mut is_after_text = false;
    response.content.parts_mut().retain_mut(|part| {
        let is_text = matches!(part, Part::Text(text) if !text.is_empty());
        let follows_text = std::mem::replace(&mut is_after_text, is_text);
        limit_depth(part)
            && match part {
                Part::Text(_) => is_text,
                Part::ToolCall(call) => !call.name.is_empty(),
                Part::Annotations(_) => follows_text,
                _ => true,
            }
    });
}

/// Removes JSON that is nested too deep from an event. Returns `false` if nothing of the event is
/// left.
pub(super) fn event(event: &mut ModelEvent) -> bool {
    match event {
        ModelEvent::ToolCall(call) => {
            call.limit_depth();
            true
        }
        ModelEvent::Part(part) => limit_depth(part),
        _ => true,
    }
}

/// Removes JSON that is nested too deep from a part: from the arguments and further fields of a
/// call, and from blocks. Returns `false` if nothing of the part is left.
fn limit_depth(part: &mut Part) -> bool {
    match part {
        Part::ToolCall(call) => call.limit_depth(),
        Part::Thinking(block) | Part::Opaque(block) => return !is_text_too_deep(block.raw.get()),
        Part::Annotations(annotations) => {
            let is_too_deep = |block: &mut ProviderBlock| is_text_too_deep(block.raw.get());
            let removed_block = annotations.block.take_if(is_too_deep);
            return removed_block.is_none() || !annotations.citations.is_empty();
        }
        _ => {}
    }
    true
}

/// Drops the parts of a result that are reserved for the model, and fills it if nothing is left.
pub(super) fn result(result: &mut ToolResult) {
    result.content.parts_mut().retain(|part| match part {
        Part::Text(text) => !text.is_empty(),
        Part::ToolCall(_) | Part::Thinking(_) | Part::Annotations(_) => false,
        _ => true,
    });
    if result.content.is_blank() {
        result.content = NO_OUTPUT.into();
    }
}

/// Returns `true` if a message may be sent to the model during a run: a valid user or system
/// message that is not empty.
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
    use crate::message::{Annotations, Citation, ToolCall};

    fn annotations(url: &str) -> Part {
        Part::Annotations(Annotations::new([Citation::new(url)]))
    }

    #[test]
    fn annotations_without_a_text_are_dropped() {
        let mut response = ModelResponse::default();
        let call = Part::ToolCall(ToolCall::new("a", "f", json!({})));
        response.content = [
            annotations("first"),
            Part::text("a"),
            annotations("of a"),
            annotations("second of a"),
            Part::text("b"),
            Part::text(""),
            annotations("of an empty text"),
            call.clone(),
            annotations("of a call"),
        ]
        .into();
        super::response(&mut response);
        let expected = [Part::text("a"), annotations("of a"), Part::text("b"), call];
        assert_eq!(response.content.parts(), expected);
    }

    #[test]
    fn annotations_in_a_result_are_dropped() {
        let call = ToolCall::new("a", "f", json!({}));
        let mut odd_result = ToolResult::ok(&call, [Part::text("x"), annotations("u")]);
        result(&mut odd_result);
        assert_eq!(odd_result.content, "x".into());
    }

    #[test]
    fn result_without_allowed_content_is_filled() {
        let call = ToolCall::new("a", "f", json!({}));
        let inner = Part::ToolCall(call.clone());
        let mut odd_result = ToolResult::ok(&call, [Part::text(""), inner, Part::text(" ")]);
        result(&mut odd_result);
        assert_eq!(odd_result.content, NO_OUTPUT.into());
    }
}
