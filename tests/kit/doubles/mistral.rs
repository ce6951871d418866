//! The rules of Mistral.

use agentcore::testing::fault_server::Received;
use serde_json::{Value, json};

use super::chat::{Refusal, list, unknown_field};

/// The fields that a request may have.
const FIELDS: &[&str] = &[
    "model",
    "messages",
    "stream",
    "temperature",
    "top_p",
    "max_tokens",
    "stop",
    "random_seed",
    "metadata",
    "response_format",
    "tools",
    "tool_choice",
    "presence_penalty",
    "frequency_penalty",
    "n",
    "parallel_tool_calls",
    "prompt_mode",
    "reasoning_effort",
    "safe_prompt",
];

/// The fields of the messages of each role.
const MESSAGE_FIELDS: &[(&str, &[&str])] = &[
    ("system", &["role", "content"]),
    ("user", &["role", "content"]),
    ("assistant", &["role", "content", "tool_calls", "prefix"]),
    ("tool", &["role", "content", "tool_call_id", "name"]),
];

/// The fields of the chunks of each type.
const CHUNK_FIELDS: &[(&str, &[&str])] = &[
    ("text", &["type", "text"]),
    ("thinking", &["type", "thinking", "closed", "signature"]),
    ("image_url", &["type", "image_url"]),
    ("document_url", &["type", "document_url", "document_name"]),
    ("input_audio", &["type", "input_audio"]),
];

pub fn check(request: &Received, _: &[Vec<Value>]) -> Result<(), Refusal> {
    check_body(&request.json())
}

pub fn check_body(body: &Value) -> Result<(), Refusal> {
    if let Some(name) = unknown_field(body, FIELDS) {
        return Err(forbidden(&[name]));
    }

    let messages = list(&body["messages"]);
    for message in messages {
        check_message(message)?;
        for chunk in list(&message["content"]) {
            check_media(&body["model"], chunk)?;
        }
    }
    check_order(messages)
}

/// The refusal of an unknown field.
fn forbidden(place: &[&str]) -> Refusal {
    let place: Vec<&str> = ["body"].iter().chain(place).copied().collect();
    let detail = json!({"type": "extra_forbidden", "loc": place,
        "msg": "Extra inputs are not permitted"});
    (422, json!({"detail": [detail]}))
}

fn invalid(kind: &str, code: &str, text: &str) -> Refusal {
    let body = json!({"object": "error", "message": text, "type": kind, "param": null,
        "code": code});
    (400, body)
}

fn check_message(message: &Value) -> Result<(), Refusal> {
    let of = |table: &[(&str, &'static [&'static str])], name: &Value| {
        table
            .iter()
            .find(|(known, _)| name == known)
            .map(|(_, fields)| *fields)
    };
    let Some(fields) = of(MESSAGE_FIELDS, &message["role"]) else {
        return Err(forbidden(&["messages", "role"]));
    };
    if let Some(name) = unknown_field(message, fields) {
        return Err(forbidden(&["messages", name]));
    }

    for chunk in list(&message["content"]) {
        let Some(fields) = of(CHUNK_FIELDS, &chunk["type"]) else {
            return Err(forbidden(&["messages", "content", "type"]));
        };
        if let Some(name) = unknown_field(chunk, fields) {
            return Err(forbidden(&["messages", "content", name]));
        }
    }

    let calls = list(&message["tool_calls"]);
    if let Some(name) = calls
        .iter()
        .find_map(|call| unknown_field(call, &["id", "type", "function", "index"]))
    {
        return Err(forbidden(&["messages", "tool_calls", name]));
    }

    let ids = calls.iter().map(|call| &call["id"]);
    for id in ids.chain(message.get("tool_call_id")) {
        let id = id.as_str().unwrap();
        let is_valid = id.len() == 9 && id.chars().all(|c| c.is_ascii_alphanumeric());
        if !is_valid {
            let text =
                format!("Tool call id was {id} but must be a-z, A-Z, 0-9, with a length of 9.");
            return Err(invalid("invalid_function_call", "3280", &text));
        }
    }

    let is_empty = message["content"].is_null() || message["content"] == "";
    if message["role"] == "assistant" && is_empty && calls.is_empty() {
        let text = "Assistant message must have either content or tool_calls.";
        return Err(invalid("invalid_request_message", "3240", text));
    }
    Ok(())
}

/// Checks documents and audio.
fn check_media(model: &Value, chunk: &Value) -> Result<(), Refusal> {
    let invalid = |text: &str| Err(invalid("invalid_request_file", "3310", text));
    if let Some(url) = chunk.get("document_url") {
        let url = url.as_str().unwrap_or_default();
        let is_taken = ["https://", "data:application/pdf;base64,"];
        if !is_taken.iter().any(|start| url.starts_with(start)) {
            return invalid("Document could not be fetched");
        }
    }
    let Some(recording) = chunk.get("input_audio") else {
        return Ok(());
    };
    if !recording.is_string() {
        return Err(forbidden(&["messages", "content", "input_audio"]));
    }
    if !model.as_str().unwrap_or_default().starts_with("voxtral") {
        return invalid("Audio input is not enabled for this model");
    }
    Ok(())
}

/// Checks the order of the roles, and that there are as many results as calls.
fn check_order(messages: &[Value]) -> Result<(), Refusal> {
    let wrong_order = |text: &str| invalid("invalid_request_message_order", "3230", text);
    for pair in messages.windows(2) {
        let roles = [&pair[0], &pair[1]].map(|message| message["role"].as_str().unwrap());
        let is_allowed = match roles {
            ["system", next] => next == "user",
            ["user", next] => next == "assistant",
            ["assistant", "tool"] => pair[0].get("tool_calls").is_some(),
            ["assistant", next] => next == "user" && pair[0].get("tool_calls").is_none(),
            ["tool", next] => next == "tool" || next == "assistant",
            _ => false,
        };
        if !is_allowed {
            let text = format!("Unexpected role '{}' after role '{}'", roles[1], roles[0]);
            return Err(wrong_order(&text));
        }
    }

    let last = messages
        .last()
        .map_or("", |last| last["role"].as_str().unwrap());
    if !matches!(last, "user" | "tool") {
        let text = format!(
            "Expected last role User or Tool (or Assistant with prefix True) for serving but got {last}"
        );
        return Err(wrong_order(&text));
    }

    let calls = messages
        .iter()
        .map(|message| list(&message["tool_calls"]).len());
    let results = messages.iter().filter(|message| message["role"] == "tool");
    if calls.sum::<usize>() != results.count() {
        return Err(wrong_order(
            "Not the same number of function calls and responses",
        ));
    }
    Ok(())
}

/// A chunk of thinking.
pub fn thinking(text: &str) -> Value {
    json!({"type": "thinking", "thinking": [{"type": "text", "text": text}]})
}
