//! The rules of Groq.

use agentcore::testing::Reply;
use agentcore::testing::fault_server::Received;
use serde_json::{Value, json};

use super::chat::{Refusal, list, unknown_field};

/// The fields of the messages of each role.
const FIELDS: &[(&str, &[&str])] = &[
    ("system", &["role", "content", "name"]),
    ("user", &["role", "content", "name"]),
    (
        "assistant",
        &["role", "content", "name", "tool_calls", "reasoning"],
    ),
    ("tool", &["role", "content", "tool_call_id", "name"]),
];

pub fn check(request: &Received, _: &[Vec<Value>]) -> Result<(), Refusal> {
    check_body(&request.json())
}

pub fn check_body(body: &Value) -> Result<(), Refusal> {
    let refuse = |text: String| {
        let error = json!({"message": text, "type": "invalid_request_error"});
        Err((400, json!({"error": error})))
    };
    if body.get("top_k").is_some() {
        return refuse("property 'top_k' is unsupported".to_owned());
    }

    for (index, message) in list(&body["messages"]).iter().enumerate() {
        let role = message["role"].as_str().unwrap();
        let (_, fields) = FIELDS.iter().find(|(known, _)| *known == role).unwrap();
        if let Some(name) = unknown_field(message, fields) {
            return refuse(format!(
                "'messages.{index}' : for 'role:{role}' the following must be satisfied\
                 [('messages.{index}' : property '{name}' is unsupported)]"
            ));
        }
        let mut types = list(&message["content"]).iter().map(|part| &part["type"]);
        if let Some(kind) = types.find(|kind| *kind != "text" && *kind != "image_url") {
            return refuse(format!("'messages.{index}.content' : unknown type {kind}"));
        }
    }

    // The efforts that each family of models accepts.
    let model = body["model"].as_str().unwrap();
    let efforts: &[&str] = match model {
        _ if model.starts_with("openai/gpt-oss") => &["low", "medium", "high"],
        _ if model.starts_with("qwen/qwen3") => &["none", "default"],
        _ => return Ok(()),
    };
    match body["reasoning_effort"].as_str() {
        Some(effort) if !efforts.contains(&effort) => refuse(format!(
            "`reasoning_effort` must be one of {efforts:?} for this model"
        )),
        _ => Ok(()),
    }
}

/// The error about an invalid call of the model.
pub fn tool_use_failed() -> Value {
    json!({"error": {
        "message": "Failed to call a function. Please adjust your prompt. See 'failed_generation' for \
                    more details.",
        "type": "invalid_request_error",
        "code": "tool_use_failed",
        "failed_generation": "<function=echo>{\"text\": \"a\"</function>",
    }})
}

/// The same error as an event of a stream.
pub fn tool_use_failed_in_stream() -> Reply {
    Reply::sse([format!("event: error\ndata: {}\n\n", tool_use_failed())])
}
