//! The rules of xAI.

use agentcore::testing::fault_server::Received;
use serde_json::{Value, json};

use super::chat::{Refusal, list};

/// The efforts of each model.
const EFFORTS: &[(&str, &[&str])] = &[
    ("grok-4.3", &["none", "low", "medium", "high"]),
    ("grok-4.5", &["low", "medium", "high"]),
    ("grok-4.6", &["low", "medium", "high"]),
    ("grok-4.7", &["low", "medium", "high", "xhigh"]),
];

pub fn check(request: &Received, _: &[Vec<Value>]) -> Result<(), Refusal> {
    check_body(&request.json())
}

pub fn check_body(body: &Value) -> Result<(), Refusal> {
    let refuse = |text: String| {
        let code = "Client specified an invalid argument";
        Err((400, json!({"code": code, "error": text})))
    };
    for name in ["stop", "presence_penalty", "frequency_penalty", "top_k"] {
        if body.get(name).is_some() {
            return refuse(format!("Argument not supported on this model: {name}"));
        }
    }

    let model = body["model"].as_str().unwrap();
    let efforts = EFFORTS.iter().find(|(start, _)| model.starts_with(start));
    if let (Some((_, efforts)), Some(effort)) = (efforts, body["reasoning_effort"].as_str())
        && !efforts.contains(&effort)
    {
        return refuse(format!(
            "This model does not support reasoning_effort value {effort}."
        ));
    }

    let contents = list(&body["messages"])
        .iter()
        .map(|message| &message["content"]);
    let mut kinds = contents.flat_map(list).map(|part| &part["type"]);
    match kinds.find(|kind| **kind != "text" && **kind != "image_url") {
        Some(kind) => refuse(format!("Unknown content type {kind}")),
        None => Ok(()),
    }
}
