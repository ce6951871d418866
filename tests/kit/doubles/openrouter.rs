//! The rules of OpenRouter for models that sign their reasoning.

use agentcore::testing::fault_server::Received;
use serde_json::{Map, Value, json};

use super::chat::{Refusal, list};

/// Refuses a request whose reasoning is not that of the server's answers, in their order. `given`
/// has the deltas of each answer. Without calls of these answers, reasoning may be absent.
pub fn check(request: &Received, given: &[Vec<Value>]) -> Result<(), Refusal> {
    check_body(&request.json(), given)
}

pub fn check_body(body: &Value, given: &[Vec<Value>]) -> Result<(), Refusal> {
    let expected: Vec<Value> = given.iter().flat_map(|answer| joined(answer)).collect();
    let messages = list(&body["messages"]);
    let answers = messages
        .iter()
        .filter(|message| message["role"] == "assistant");
    let details = answers
        .clone()
        .flat_map(|answer| list(&answer["reasoning_details"]));
    let details: Vec<&Value> = details.collect();
    if details.iter().any(|detail| !expected.contains(detail)) {
        let text = "messages.1.content.0: Invalid `signature` in `thinking` block";
        return Err(refusal(text));
    }

    // Only calls of this server need its reasoning. The calls of another server have none.
    let is_own = |answer: &Value| {
        let ids = list(&answer["tool_calls"]).iter().map(|call| &call["id"]);
        ids.into_iter().any(|id| gave_call(given, id))
    };
    let own_answers = answers.filter(|answer| is_own(answer)).count();
    if own_answers > 0 && details.len() < expected.len() {
        let text = "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found \
                    `tool_use`. When `thinking` is enabled, a final `assistant` message must start with \
                    a thinking block.";
        return Err(refusal(text));
    }
    if !details.iter().copied().eq(expected.iter()) && !details.is_empty() {
        return Err(refusal("The reasoning is out of order."));
    }
    Ok(())
}

fn refusal(text: &str) -> Refusal {
    let metadata = json!({"raw": text, "provider_name": "Anthropic"});
    let error = json!({"message": "Provider returned error", "code": 400, "metadata": metadata});
    (400, json!({"error": error}))
}

fn gave_call(given: &[Vec<Value>], id: &Value) -> bool {
    let calls = given
        .iter()
        .flatten()
        .flat_map(|delta| list(&delta["tool_calls"]));
    calls.into_iter().any(|call| call["id"] == *id)
}

/// Returns the reasoning entries of an answer, with the texts of each index joined.
fn joined(answer: &[Value]) -> Vec<Value> {
    let mut entries: Vec<Map<String, Value>> = Vec::new();
    for piece in answer
        .iter()
        .flat_map(|delta| list(&delta["reasoning_details"]))
    {
        let is_text = piece["type"] == "reasoning.text";
        let same = entries.iter_mut().find(|own| {
            is_text && own["type"] == "reasoning.text" && own["index"] == piece["index"]
        });
        let Some(entry) = same else {
            entries.push(piece.as_object().unwrap().clone());
            continue;
        };
        if let Some(end) = piece["text"].as_str() {
            let start = entry["text"].as_str().unwrap();
            entry["text"] = format!("{start}{end}").into();
        }
        if let Some(signature) = piece.get("signature") {
            entry.insert("signature".to_owned(), signature.clone());
        }
    }
    entries.into_iter().map(Value::Object).collect()
}

/// A delta with a piece of the reasoning text of this index.
pub fn thought(index: usize, text: &str) -> Value {
    let piece = json!({"type": "reasoning.text", "text": text, "format": "anthropic-claude-v1",
        "index": index});
    json!({"content": "", "reasoning": text, "reasoning_details": [piece]})
}

/// A delta with the signature of the reasoning of this index.
pub fn signature(index: usize, signature: &str) -> Value {
    let piece = json!({"type": "reasoning.text", "signature": signature,
        "format": "anthropic-claude-v1", "index": index});
    json!({"content": "", "reasoning": null, "reasoning_details": [piece]})
}

/// A delta with encrypted reasoning.
pub fn encrypted(index: usize, id: &str) -> Value {
    let entry = json!({"type": "reasoning.encrypted", "data": format!("gAAAA-{id}"), "id": id,
        "format": "openai-responses-v1", "index": index});
    json!({"content": "", "reasoning_details": [entry]})
}
