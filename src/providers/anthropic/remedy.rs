//! A second request without the thinking that the server refused.

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use crate::error::Error;

use super::super::encode::Reasoning;
use super::super::raw_object::{Change, RawFields, bytes_of, change_elements, type_of};
use super::super::send::Remedy;
use super::wire::NOTHING;

/// The text of a refusal of a budget after calls that were made without thinking.
const UNEXPECTED: &str = "Expected `thinking` or `redacted_thinking`";

/// The texts of refusals that a request without thinking avoids.
const REFUSALS: &[&str] = &[
    UNEXPECTED,
    "bound to a different conversation",
    "prefix_mismatch_behavior",
    "Invalid `signature` in `thinking` block",
    "blocks in the latest assistant message cannot be modified",
];

/// Returns the second body for `error`, if the server refused the thinking in `body`. Later
/// requests of the run then have none of it either.
pub(super) fn remedy(error: &Error, body: &[u8], reasoning: &Reasoning) -> Option<Remedy> {
    let text = error.text();
    if !REFUSALS.iter().any(|refusal| text.contains(refusal)) {
        return None;
    }

    let nothing = json!({"type": "text", "text": NOTHING});
    let without_thinking = |message: &RawValue| {
        let message = message.get().as_bytes();
        change_elements(message, "content", Some(&nothing), |block| {
            match type_of(block).as_deref() {
                Some("thinking" | "redacted_thinking") => Change::Remove,
                _ => Change::Keep,
            }
        })
        .map_or(Change::Keep, Change::Replace)
    };
    let stripped = change_elements(body, "messages", None::<&Value>, without_thinking);
    if stripped.is_some() {
        reasoning.leave_out();
    }

    // Without the blocks the server would refuse a budget.
    let text_of_body = stripped.as_ref().map_or(body, |body| body.get().as_bytes());
    let unbudgeted = without_budget(text_of_body);
    let warning = if stripped.is_some() {
        "the server refused thinking of earlier answers; it was left out"
    } else {
        "the server refused a thinking budget behind calls without thinking; it was left out"
    };
    let body = match (unbudgeted, stripped) {
        (Some(body), Some(_)) | (None, Some(body)) => body,
        (Some(body), None) if text.contains(UNEXPECTED) => body,
        (_, None) => return None,
    };
    Some(Remedy {
        body: bytes_of(body),
        warning: warning.to_owned(),
    })
}

/// Returns the body without the thinking budget; `None` if it has none, or does not end with
/// results.
fn without_budget(body: &[u8]) -> Option<Box<RawValue>> {
    let mut fields: RawFields<'_> = serde_json::from_slice(body).ok()?;
    let is_budget = type_of(fields.get("thinking")?)? == "enabled";
    let messages: Vec<&RawValue> = serde_json::from_str(fields.get("messages")?.get()).ok()?;
    let has_results = messages.last()?.get().contains("\"tool_result\"");
    if !is_budget || !has_results {
        return None;
    }
    fields.remove("thinking");
    to_raw_value(&fields).ok()
}
