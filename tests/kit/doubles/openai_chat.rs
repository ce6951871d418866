//! The rules of OpenAI's Chat Completions.

use agentcore::testing::fault_server::Received;
use serde_json::{Value, json};

use super::chat::{Refusal, list, unknown_field};

/// The key that the double accepts.
pub const KEY: &str = "sk-openai-1234";

/// The fields that a request may have.
const FIELDS: &[&str] = &[
    "model",
    "messages",
    "stream",
    "stream_options",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "max_completion_tokens",
    "temperature",
    "top_p",
    "seed",
    "stop",
    "reasoning_effort",
    "response_format",
];

/// The fields of the messages of each role.
const MESSAGE_FIELDS: &[(&str, &[&str])] = &[
    ("system", &["role", "content", "name"]),
    ("user", &["role", "content", "name"]),
    (
        "assistant",
        &["role", "content", "name", "refusal", "audio", "tool_calls"],
    ),
    ("tool", &["role", "content", "tool_call_id"]),
];

/// The maximum length of a call's id.
const ID_LEN: usize = 40;

/// The models of the double, with their default effort and the efforts that they accept. From
/// GPT-5.4 on, function tools require the effort `none`.
const MODELS: &[(&str, &str, &[&str])] = &[
    ("gpt-4.1", "none", &[]),
    ("gpt-audio", "none", &[]),
    (
        "gpt-5.4-mini",
        "none",
        &["none", "low", "medium", "high", "xhigh"],
    ),
    (
        "gpt-6-luna",
        "medium",
        &["none", "low", "medium", "high", "xhigh"],
    ),
    ("gpt-6-astra", "medium", &["low", "medium", "high", "xhigh"]),
];

/// Checks the key and the body of a request.
pub fn check(request: &Received, _: &[Vec<Value>]) -> Result<(), Refusal> {
    let token = request.header("authorization").unwrap_or_default();
    if token.strip_prefix("Bearer ") != Some(KEY) {
        let (_, body) = invalid("Incorrect API key provided.", None);
        return Err((401, body));
    }
    check_body(&request.json())
}

pub fn check_body(body: &Value) -> Result<(), Refusal> {
    if let Some(name) = unknown_field(body, FIELDS) {
        let text = format!("Unrecognized request argument supplied: {name}");
        return Err(invalid(&text, None));
    }

    check_model(body)?;
    let messages = list(&body["messages"]);
    for (index, message) in messages.iter().enumerate() {
        let name = body["model"].as_str().unwrap();
        check_message(index, name.contains("audio"), message)?;
    }
    check_results(messages)?;
    check_format(&body["response_format"])
}

fn invalid(text: &str, param: Option<&str>) -> Refusal {
    let error = json!({"message": text, "type": "invalid_request_error", "param": param,
        "code": null});
    (400, json!({"error": error}))
}

/// Checks that the model accepts the fields.
fn check_model(body: &Value) -> Result<(), Refusal> {
    let name = body["model"].as_str().unwrap();
    let Some((_, default_effort, efforts)) = MODELS.iter().find(|(known, ..)| *known == name)
    else {
        let text = "This is not a chat model and thus not supported in the v1/chat/completions \
                    endpoint.";
        let (_, body) = invalid(text, Some("model"));
        return Err((404, body));
    };

    let effort = body["reasoning_effort"].as_str();
    if let Some(effort) = effort.filter(|effort| !efforts.contains(effort)) {
        let text = format!(
            "Unsupported value: 'reasoning_effort' does not support '{effort}' with this model."
        );
        return Err(invalid(&text, Some("reasoning_effort")));
    }

    let reasons = effort.unwrap_or(default_effort) != "none";
    if reasons && !list(&body["tools"]).is_empty() {
        let text = format!(
            "Function tools with reasoning_effort are not supported for {name} in \
             /v1/chat/completions"
        );
        return Err(invalid(&text, Some("reasoning_effort")));
    }

    let refused_while_reasoning = ["temperature", "top_p"].iter().filter(|_| reasons);
    let refused_by_newest = ["stop"].iter().filter(|_| name.starts_with("gpt-6"));
    let mut refused = refused_while_reasoning.chain(refused_by_newest);
    match refused.find(|name| body.get(**name).is_some()) {
        Some(name) => {
            let text = format!("Unsupported parameter: '{name}' is not supported with this model.");
            Err(invalid(&text, Some(name)))
        }
        None => Ok(()),
    }
}

fn check_message(index: usize, takes_audio: bool, message: &Value) -> Result<(), Refusal> {
    let place = format!("messages[{index}]");
    let role = &message["role"];
    let Some((_, fields)) = MESSAGE_FIELDS.iter().find(|(known, _)| role == known) else {
        return Err(invalid(&format!("Invalid value: {role}."), Some(&place)));
    };
    if let Some(name) = unknown_field(message, fields) {
        let text = format!("Unknown parameter: '{place}.{name}'.");
        return Err(invalid(&text, Some(&place)));
    }

    for part in list(&message["content"]) {
        check_part(&place, role == "user", takes_audio, part)?;
    }

    for call in list(&message["tool_calls"]) {
        if let Some(name) = unknown_field(call, &["id", "type", "function"]) {
            let text = format!("Unknown parameter: '{place}.tool_calls[0].{name}'.");
            return Err(invalid(&text, Some(&place)));
        }
        let is_legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if !call["function"]["name"]
            .as_str()
            .unwrap()
            .chars()
            .all(is_legal)
        {
            let text = format!(
                "Invalid '{place}.tool_calls[0].function.name': string does not match pattern."
            );
            return Err(invalid(&text, Some(&place)));
        }
        if call["id"].as_str().unwrap().len() > ID_LEN {
            let text = format!(
                "Invalid '{place}.tool_calls[0].id': string too long. Expected a string with maximum \
                 length {ID_LEN}."
            );
            return Err(invalid(&text, Some(&place)));
        }
    }

    let is_empty = message["content"].is_null() && list(&message["tool_calls"]).is_empty();
    if is_empty {
        let text = format!("Invalid value for 'content': expected a string, got null. ({place})");
        return Err(invalid(&text, Some(&place)));
    }
    Ok(())
}

fn check_part(
    place: &str,
    is_of_user: bool,
    takes_audio: bool,
    part: &Value,
) -> Result<(), Refusal> {
    let is_known = match part["type"].as_str().unwrap() {
        "text" => true,
        "image_url" => is_of_user,
        "input_audio" => {
            let format = &part["input_audio"]["format"];
            is_of_user && takes_audio && (format == "wav" || format == "mp3")
        }
        "file" => {
            let data = part["file"]["file_data"].as_str().unwrap_or_default();
            let is_known = part["file"]["file_id"].is_string();
            is_of_user && (is_known || data.starts_with("data:application/pdf;base64,"))
        }
        _ => false,
    };
    if is_known {
        return Ok(());
    }
    let text = format!("Invalid value: {}.", part["type"]);
    Err(invalid(&text, Some(place)))
}

/// Checks that the results of an answer's calls directly follow it.
fn check_results(messages: &[Value]) -> Result<(), Refusal> {
    let mut open_ids: Vec<&Value> = Vec::new();
    for message in messages {
        if message["role"] == "tool" {
            let id = &message["tool_call_id"];
            let Some(place) = open_ids.iter().position(|open_id| *open_id == id) else {
                let text = "Invalid parameter: messages with role 'tool' must be a response to a \
                            preceeding message with 'tool_calls'.";
                return Err(invalid(text, Some("messages")));
            };
            open_ids.remove(place);
            continue;
        }
        check_closed(&open_ids)?;
        open_ids = list(&message["tool_calls"])
            .iter()
            .map(|call| &call["id"])
            .collect();
    }
    check_closed(&open_ids)
}

fn check_closed(open_ids: &[&Value]) -> Result<(), Refusal> {
    if open_ids.is_empty() {
        return Ok(());
    }
    let text = format!(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each \
         'tool_call_id'. The following tool_call_ids did not have response messages: {open_ids:?}"
    );
    Err(invalid(&text, Some("messages")))
}

/// Checks the schema of an answer: an object and, if strict, one that is closed and requires every
/// property.
fn check_format(format: &Value) -> Result<(), Refusal> {
    let form = &format["json_schema"];
    if format["type"] != "json_schema" {
        return Ok(());
    }

    let schema = &form["schema"];
    let refuse = |text: &str| {
        let text = format!(
            "Invalid schema for response_format {}: {text}",
            form["name"]
        );
        Err(invalid(&text, Some("response_format")))
    };
    if schema["type"] != "object" {
        return refuse("schema must be a JSON Schema of 'type: \"object\"'.");
    }
    if form["strict"] != true {
        return Ok(());
    }
    strict_fault(schema).map_or(Ok(()), refuse)
}

/// Returns the reason why the strict mode refuses a schema.
pub fn strict_fault(schema: &Value) -> Option<&'static str> {
    if schema.get("$ref").is_some() {
        let is_alone = schema.as_object().is_some_and(|fields| fields.len() == 1);
        return (!is_alone).then_some("$ref cannot have other keywords.");
    }
    if schema.get("type").is_none() && schema.get("anyOf").is_none() {
        return Some("schema must have a 'type' key.");
    }
    if schema["type"] == "array" && schema.get("items").is_none() {
        return Some("array schema missing items.");
    }
    if schema["pattern"]
        .as_str()
        .is_some_and(|pattern| pattern.contains("(?="))
    {
        return Some("regex lookaround is not supported.");
    }
    if schema["type"] == "object" && schema["additionalProperties"] != false {
        return Some("'additionalProperties' is required to be supplied and to be false.");
    }

    let fields = schema["properties"].as_object();
    let is_required = |name: &String| list(&schema["required"]).contains(&json!(name));
    if fields.is_some_and(|fields| !fields.keys().all(is_required)) {
        return Some(
            "'required' is required to be supplied and to be an array including every key.",
        );
    }
    let fields = fields.into_iter().flat_map(|fields| fields.values());
    let mut inner = fields
        .chain(schema.get("items"))
        .chain(list(&schema["anyOf"]));
    inner.find_map(strict_fault)
}
