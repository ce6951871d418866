//! The rules of local servers that render messages with the template of a model: vLLM, llama.cpp
//! and LM Studio.
//!
//! The template is one that accepts one system message, at the beginning, and requires alternating
//! roles.

use agentcore::testing::fault_server::Received;
use serde_json::{Value, json};

use super::chat::{Refusal, list};

pub fn vllm(request: &Received, _: &[Vec<Value>]) -> Result<(), Refusal> {
    let kinds = ["text", "image_url", "input_audio"];
    check_body(&request.json(), &kinds).map_err(|text| {
        let error = json!({"message": text, "type": "BadRequestError", "param": null, "code": 400});
        (400, json!({"error": error}))
    })
}

pub fn llama_cpp(request: &Received, _: &[Vec<Value>]) -> Result<(), Refusal> {
    let kinds = ["text", "image_url", "input_audio"];
    check_body(&request.json(), &kinds).map_err(|text| {
        let text = format!("Jinja Exception: {text}");
        let error = json!({"code": 400, "message": text, "type": "invalid_request_error"});
        (400, json!({"error": error}))
    })
}

pub fn lm_studio(request: &Received, _: &[Vec<Value>]) -> Result<(), Refusal> {
    check_body(&request.json(), &["text", "image_url"]).map_err(|text| {
        let text = format!("Error rendering prompt with jinja template: \"{text}\".");
        (400, json!({"error": text}))
    })
}

pub fn check_body(body: &Value, kinds: &[&str]) -> Result<(), String> {
    let messages = list(&body["messages"]);
    let is_system = |message: &Value| message["role"] == "system";
    if messages.iter().skip(1).any(is_system) {
        return Err("System message must be at the beginning.".to_owned());
    }

    // Several results in a row are one turn.
    let roles = messages
        .iter()
        .map(|message| message["role"].as_str().unwrap());
    let roles: Vec<&str> = roles.filter(|role| *role != "system").collect();
    let starts_with_user = roles.first().is_some_and(|role| *role == "user");
    let repeats = |pair: &[&str]| pair[0] == pair[1] && pair[0] != "tool";
    if !starts_with_user || roles.windows(2).any(repeats) {
        let text = "After the optional system message, conversation roles must alternate \
                    user/assistant/user/assistant/...";
        return Err(text.to_owned());
    }

    let parts = messages
        .iter()
        .flat_map(|message| list(&message["content"]));
    let mut unknown = parts
        .map(|part| part["type"].as_str().unwrap())
        .filter(|kind| !kinds.contains(kind));
    match unknown.next() {
        Some(kind) => Err(format!("unsupported content[].type {kind}")),
        None => Ok(()),
    }
}
