//! A second request without the thinking that the server refused.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::error::Error;

use super::super::ask::Remedy;
use super::super::encode::Reasoning;
use super::wire::NOTHING;

/// The texts of refusals that a request without thinking avoids.
const REFUSALS: &[&str] = &[
    "bound to a different conversation",
    "prefix_mismatch_behavior",
    "Invalid `signature` in `thinking` block",
];

/// The second body for `error`, if the server refused the thinking in `body`. Later requests of the
/// run then have none of it either.
pub(super) fn remedy(error: &Error, body: &[u8], reasoning: &Reasoning) -> Option<Remedy> {
    let text = error.text();
    if !REFUSALS.iter().any(|refusal| text.contains(refusal)) {
        return None;
    }

    let mut fields: Map<String, Value> = serde_json::from_slice(body).ok()?;
    let messages = fields.get_mut("messages")?.as_array_mut()?;
    let mut has_changed = false;
    for message in messages {
        let Some(blocks) = message.get_mut("content").and_then(Value::as_array_mut) else {
            continue;
        };
        let old_len = blocks.len();
        blocks.retain(|block| !is_thinking(block));
        has_changed |= blocks.len() < old_len;
        if blocks.is_empty() {
            blocks.push(json!({"type": "text", "text": NOTHING}));
        }
    }
    if !has_changed {
        return None;
    }

    let body = serde_json::to_vec(&fields).ok()?;
    reasoning.leave_out();
    Some(Remedy {
        body: Bytes::from(body),
        warning: "the server refused thinking of earlier answers; it was left out".to_owned(),
    })
}

fn is_thinking(block: &Value) -> bool {
    let kind = block.get("type").and_then(Value::as_str);
    matches!(kind, Some("thinking" | "redacted_thinking"))
}
