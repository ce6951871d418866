//! The rules of Bedrock's endpoints that are compatible with other APIs.

use agentcore::testing::fault_server::Received;
use serde_json::{Value, json};

use super::chat::{Refusal, list, unknown_field};

/// The key that the doubles accept, as a bearer token.
pub const KEY: &str = "bedrock-api-key-1234";

/// The fields that a request to Chat Completions may have.
const FIELDS: &[&str] = &[
    "model",
    "messages",
    "stream",
    "stream_options",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "max_tokens",
    "max_completion_tokens",
    "temperature",
    "top_p",
    "stop",
    "reasoning_effort",
    "response_format",
];

/// The blocks that messages to the Messages API may have.
const BLOCKS: &[&str] = &[
    "text",
    "image",
    "document",
    "thinking",
    "redacted_thinking",
    "tool_use",
    "tool_result",
];

/// Checks a request to Chat Completions. Reasoning is accepted only in the field in which it was
/// sent.
pub fn check_chat(request: &Received, given: &[Vec<Value>]) -> Result<(), Refusal> {
    check_key(request, "/v1/chat/completions").map_err(of_openai)?;
    check_chat_body(&request.json(), given)
}

pub fn check_chat_body(body: &Value, given: &[Vec<Value>]) -> Result<(), Refusal> {
    let invalid = |text: String| Err(of_openai((400, "validation_error", text)));
    let model = body["model"].as_str().unwrap();
    if !model.starts_with("openai.gpt-oss") {
        return invalid(format!(
            "The model '{model}' does not support the '/v1/chat/completions' API"
        ));
    }
    if let Some(name) = unknown_field(body, FIELDS) {
        return invalid(unreadable(&format!("unknown field `{name}`")));
    }
    let efforts = ["low", "medium", "high"].map(Value::from);
    let effort = &body["reasoning_effort"];
    if !effort.is_null() && !efforts.contains(effort) {
        return invalid(unreadable(&format!(
            "reasoning_effort: unknown variant {effort}"
        )));
    }

    let messages = list(&body["messages"]);
    for (index, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap();
        let was_given = |name: &str| {
            let value = message.get(name);
            value.is_none()
                || given
                    .iter()
                    .any(|answer| joined(answer, name).as_ref() == value)
        };
        let fields: &[&str] = match role {
            "assistant" if !was_given("reasoning") || !was_given("reasoning_content") => &[],
            "assistant" => &[
                "role",
                "content",
                "tool_calls",
                "reasoning",
                "reasoning_content",
            ],
            "tool" => &["role", "content", "tool_call_id"],
            "system" | "user" => &["role", "content"],
            _ => &[],
        };
        if let Some(name) = unknown_field(message, fields) {
            let text = format!("messages[{index}]: unknown field `{name}` of {role}");
            return invalid(unreadable(&text));
        }
        let mut kinds = list(&message["content"]).iter().map(|part| &part["type"]);
        if let Some(kind) = kinds.find(|kind| **kind != "text") {
            let text = format!("messages[{index}]: data did not match any variant: {kind}");
            return invalid(unreadable(&text));
        }
    }

    let ids = |role: &str, name: &str, at: &str| -> Vec<Value> {
        let own = messages.iter().filter(|message| message["role"] == role);
        let objects = own.flat_map(|message| match at {
            "" => std::slice::from_ref(message),
            at => list(&message[at]),
        });
        objects.map(|object| object[name].clone()).collect()
    };
    let calls = ids("assistant", "id", "tool_calls");
    if calls != ids("tool", "tool_call_id", "") {
        return invalid("Tool results must follow the calls that they answer".to_owned());
    }
    match (1..calls.len()).find(|end| calls[..*end].contains(&calls[*end])) {
        Some(place) => invalid(format!("Duplicate tool call id {}", calls[place])),
        None => Ok(()),
    }
}

/// Checks the address, the key, the model and the tools of a request to the Messages API.
pub fn check_messages(request: &Received) -> Result<(), Refusal> {
    check_key(request, "/anthropic/v1/messages").map_err(of_anthropic)?;
    if request.header("anthropic-version").is_none() {
        let text = "anthropic-version: header is required".to_owned();
        return Err(of_anthropic((400, "invalid_request_error", text)));
    }
    check_messages_body(&request.json())
}

pub fn check_messages_body(body: &Value) -> Result<(), Refusal> {
    let model = body["model"].as_str().unwrap();
    if !model.starts_with("anthropic.") {
        let text = format!("model: {model}");
        return Err(of_anthropic((404, "not_found_error", text)));
    }

    // Bedrock has none of the tools that run on Anthropic's own server.
    let unknown = |place: &str, kind: &Value| {
        let text = format!("{place}: Input tag {kind} found using 'type' does not match");
        Err(of_anthropic((400, "invalid_request_error", text)))
    };
    let mut kinds = list(&body["tools"]).iter().map(|tool| &tool["type"]);
    if let Some(kind) = kinds.find(|kind| !kind.is_null() && **kind != "custom") {
        return unknown("tools.0", kind);
    }

    let messages = list(&body["messages"]).iter();
    for block in messages.flat_map(|message| list(&message["content"])) {
        if !BLOCKS.iter().any(|kind| block["type"] == *kind) {
            return unknown("messages.0.content.0", &block["type"]);
        }
        let mut citations = list(&block["citations"]).iter();
        let of_search = |citation: &&Value| citation["type"] == "web_search_result_location";
        if let Some(citation) = citations.find(of_search) {
            return unknown("messages.0.content.0.citations.0", &citation["type"]);
        }
    }
    Ok(())
}

/// Checks the address and the key of a request to the Responses API.
pub fn check_responses(request: &Received) -> Result<(), Refusal> {
    check_key(request, "/openai/v1/responses").map_err(of_openai)?;
    match list(&request.json()["tools"])
        .iter()
        .find(|tool| tool["type"] != "function")
    {
        Some(tool) => {
            let text = format!("tools[0].type: unknown variant {}", tool["type"]);
            Err(of_openai((400, "validation_error", unreadable(&text))))
        }
        None => Ok(()),
    }
}

/// The status, the code and the text of a refusal.
type Reason = (u16, &'static str, String);

fn check_key(request: &Received, path: &str) -> Result<(), Reason> {
    if request.path != path {
        return Err((404, "not_found", format!("no such path: {}", request.path)));
    }
    let token = request.header("authorization").unwrap_or_default();
    if token.strip_prefix("Bearer ") != Some(KEY) {
        return Err((401, "invalid_api_key", "Invalid bearer token".to_owned()));
    }
    if request.header("x-api-key").is_some() {
        return Err((401, "invalid_api_key", "Two keys were sent".to_owned()));
    }
    Ok(())
}

fn of_openai((status, code, text): Reason) -> Refusal {
    let error = json!({"code": code, "message": text, "param": null,
        "type": "invalid_request_error"});
    (status, json!({"error": error}))
}

fn of_anthropic((status, code, text): Reason) -> Refusal {
    let kind = if status == 401 {
        "authentication_error"
    } else {
        code
    };
    let error = json!({"type": kind, "message": text});
    (status, json!({"type": "error", "error": error}))
}

fn unreadable(text: &str) -> String {
    format!("Failed to deserialize the JSON body into the target type: {text}")
}

/// Joins the pieces of a field of an answer.
fn joined(answer: &[Value], name: &str) -> Option<Value> {
    let pieces: Vec<&str> = answer
        .iter()
        .filter_map(|delta| delta[name].as_str())
        .collect();
    (!pieces.is_empty()).then(|| pieces.concat().into())
}
