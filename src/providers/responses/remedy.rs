//! A second request without the reasoning that the server refused.

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::error::Error;

use super::super::ask::Remedy;
use super::super::encode::Reasoning;

/// The texts of refusals that a request without reasoning avoids.
const REFUSALS: &[&str] = &[
    "invalid_encrypted_content",
    "encrypted content",
    "required 'reasoning' item",
    "required following item",
];

/// The second body for `error`, if the server refused the reasoning in `body`. Later requests of
/// the run then have none of it either.
pub(super) fn remedy(error: &Error, body: &[u8], reasoning: &Reasoning) -> Option<Remedy> {
    let text = error.text();
    if !REFUSALS.iter().any(|refusal| text.contains(refusal)) {
        return None;
    }

    let mut fields: Map<String, Value> = serde_json::from_slice(body).ok()?;
    let Some(Value::Array(items)) = fields.get_mut("input") else {
        return None;
    };
    let old_len = items.len();
    let mut has_changed = false;
    items.retain_mut(|item| {
        let Some(fields) = item.as_object_mut() else {
            return true;
        };
        match fields.get("type").and_then(Value::as_str) {
            None | Some("function_call_output") => true,
            Some("function_call") => {
                has_changed |= fields.remove("id").is_some();
                fields.remove("status");
                true
            }
            Some("message") => {
                has_changed = true;
                *item = short_form(fields);
                true
            }
            // Reasoning, and the items of hosted tools, whose ids are required.
            Some(_) => false,
        }
    });
    if !has_changed && items.len() == old_len {
        return None;
    }

    let body = serde_json::to_vec(&fields).ok()?;
    reasoning.leave_out();
    Some(Remedy {
        body: Bytes::from(body),
        warning: "the server refused reasoning of earlier answers; it was left out".to_owned(),
    })
}

/// A message without its id: its text and its phase.
fn short_form(message: &Map<String, Value>) -> Value {
    let contents = message.get("content").and_then(Value::as_array);
    let texts = contents.into_iter().flatten().filter_map(|part| {
        let text = part.get("text").or_else(|| part.get("refusal"));
        text.and_then(Value::as_str)
    });
    let mut short = Map::new();
    short.insert("role".to_owned(), "assistant".into());
    short.insert("content".to_owned(), texts.collect::<String>().into());
    if let Some(phase) = message.get("phase") {
        short.insert("phase".to_owned(), phase.clone());
    }
    short.into()
}
