//! The rules of Gemini's endpoint for Chat Completions.

use agentcore::testing::fault_server::Received;
use serde_json::{Value, json};

use super::chat::{Refusal, list};
use super::gemini::PLACEHOLDER;

/// The fields that the server does not accept.
const UNKNOWN: &[&str] = &["seed", "top_k", "reasoning", "extra_content"];

pub fn check(request: &Received, given: &[Vec<Value>]) -> Result<(), Refusal> {
    check_body(&request.json(), given)
}

pub fn check_body(body: &Value, given: &[Vec<Value>]) -> Result<(), Refusal> {
    if let Some(name) = UNKNOWN.iter().find(|name| body.get(**name).is_some()) {
        return Err(refusal(&format!(
            "Invalid JSON payload received. Unknown name \"{name}\": Cannot find field."
        )));
    }

    let messages = list(&body["messages"]);
    if messages
        .iter()
        .any(|message| message["role"] == "tool" && message.get("name").is_none())
    {
        return Err(refusal("Request contains an invalid argument."));
    }

    for answer in messages
        .iter()
        .filter(|message| message["role"] == "assistant")
    {
        let calls = list(&answer["tool_calls"]);
        let signature = |object: &Value| object["extra_content"]["google"].clone();
        if calls.first().is_some_and(|call| signature(call).is_null()) {
            return Err(refusal(
                "Function call is missing a thought_signature in functionCall parts.",
            ));
        }

        let deltas = || given.iter().flatten();
        let given_calls = deltas().flat_map(|delta| list(&delta["tool_calls"]));
        let places: Vec<_> = given_calls.chain(deltas()).map(signature).collect();
        for own in calls.iter().chain([answer]).map(signature) {
            let is_placeholder = own["thought_signature"] == PLACEHOLDER;
            if !own.is_null() && !is_placeholder && !places.contains(&own) {
                return Err(refusal("Corrupted thought signature."));
            }
        }
    }
    Ok(())
}

fn refusal(text: &str) -> Refusal {
    let error = json!({"code": 400, "message": text, "status": "INVALID_ARGUMENT"});
    (400, json!([{"error": error}]))
}

/// The field that holds a signature.
pub fn signed(signature: &str) -> Value {
    json!({"google": {"thought_signature": signature}})
}

/// A delta with a call that has no index, and a signature unless it is empty.
pub fn call(id: &str, text: &str, signature: &str) -> Value {
    let arguments = json!({"text": text}).to_string();
    let mut call = json!({"id": id, "type": "function",
        "function": {"name": "echo", "arguments": arguments}});
    if !signature.is_empty() {
        call["extra_content"] = signed(signature);
    }
    json!({"role": "assistant", "tool_calls": [call]})
}
