//! A second request without the thinking that the server refused.

use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::error::Error;

use super::super::ask::Remedy;
use super::super::encode::Reasoning;
use super::super::raw_object::{Change, bytes_of, change_elements, type_of};
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
    let body = change_elements(body, "messages", None::<&Value>, without_thinking)?;
    reasoning.leave_out();
    Some(Remedy {
        body: bytes_of(body),
        warning: "the server refused thinking of earlier answers; it was left out".to_owned(),
    })
}
