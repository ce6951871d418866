//! A second request without the signatures that the server refused.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::error::Error;

use super::super::ask::Remedy;
use super::super::encode::Reasoning;
use super::contents::NOTHING;
use super::signatures::strip;

/// The second body for `error`, if the server refused a signature in `body`, or missed one. Later
/// requests of the run then have none of the refused ones either.
pub(super) fn remedy(error: &Error, body: &[u8], reasoning: &Reasoning) -> Option<Remedy> {
    let text = error.text().to_lowercase();
    if !text.contains("thought signature") && !text.contains("thought_signature") {
        return None;
    }

    let mut fields: Map<String, Value> = serde_json::from_slice(body).ok()?;
    let contents = fields.get_mut("contents")?.as_array_mut()?;
    let former = contents.clone();
    for content in contents.iter_mut() {
        strip_parts(content);
    }

    if *contents == former {
        return None;
    }

    let body = serde_json::to_vec(&fields).ok()?;
    reasoning.leave_out();
    Some(Remedy {
        body: Bytes::from(body),
        warning: "the server refused thought signatures of earlier answers; they were left out"
            .to_owned(),
    })
}

fn strip_parts(content: &mut Value) {
    if content["role"] != "model" {
        return;
    }

    let Some(parts) = content.get_mut("parts").and_then(Value::as_array_mut) else {
        return;
    };

    let mut has_call = false;
    parts.retain_mut(|part| {
        part.as_object_mut()
            .is_none_or(|part| strip(part, &mut has_call))
    });
    if parts.is_empty() {
        parts.push(json!({"text": NOTHING}));
    }
}
