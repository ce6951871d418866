//! The conversation as the OpenTelemetry conventions write it.

use serde_json::{Value, json};

use crate::message::{Message, Messages, Part, Role, ToolCall};
use crate::model::{ModelResponse, SystemPrompt};

/// Returns the system prompt of a request; empty when there is none.
pub(super) fn instructions(system: &SystemPrompt) -> String {
    let text = system.to_string();
    if text.is_empty() {
        text
    } else {
        json!([{"type": "text", "content": text}]).to_string()
    }
}

/// Returns the messages of a request.
pub(super) fn input(messages: &Messages) -> String {
    let messages = messages.iter().map(|message| {
        let role = match message.role() {
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
            Role::System => "system",
        };
        json!({"role": role, "parts": parts(message)})
    });
    Value::Array(messages.collect()).to_string()
}

/// Returns the answer of the model.
pub(super) fn output(response: &ModelResponse) -> String {
    let reason = response.stop_reason.as_ref();
    let message = Message::Assistant(response.message());
    json!([{
        "role": "assistant",
        "parts": parts(&message),
        "finish_reason": reason.map(|reason| reason.as_str()),
    }])
    .to_string()
}

fn parts(message: &Message) -> Vec<Value> {
    if let Some(result) = message.as_tool_result() {
        return vec![json!({
            "type": "tool_call_response",
            "id": &*result.tool_call_id,
            "response": result.content.text(),
        })];
    }
    message.content().parts().iter().filter_map(part).collect()
}

fn part(part: &Part) -> Option<Value> {
    match part {
        Part::Text(text) => Some(json!({"type": "text", "content": text})),
        Part::ToolCall(call) => Some(tool_call(call)),
        // The bytes of media are not recorded.
        Part::Image(_) => Some(json!({"type": "image"})),
        Part::Document(_) => Some(json!({"type": "document"})),
        Part::Audio(_) => Some(json!({"type": "audio"})),
        Part::Thinking(_) | Part::Opaque(_) | Part::Annotations(_) => None,
    }
}

fn tool_call(call: &ToolCall) -> Value {
    json!({"type": "tool_call", "id": &*call.id, "name": &*call.name, "arguments": &*call.args})
}
