//! A second request without the signatures that the server refused.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use crate::error::Error;

use super::super::encode::Reasoning;
use super::super::raw_object::{Change, RawFields, bytes_of, change_elements};
use super::super::send::Remedy;
use super::contents::NOTHING;
use super::signatures::{SIGNATURE, strip};

/// Returns the second body for `error`, if the server refused a signature in `body` or required a
/// missing one. The signatures are removed; the first call of each answer has the placeholder
/// instead. Later requests of the run omit the signatures as well.
pub(super) fn remedy(error: &Error, body: &[u8], reasoning: &Reasoning) -> Option<Remedy> {
    let text = error.text().to_lowercase();
    if !text.contains("thought signature") && !text.contains("thought_signature") {
        return None;
    }

    let without_signatures = |content: &RawValue| match role_of(content).as_deref() {
        Some("model") => strip_parts(content).map_or(Change::Keep, Change::Replace),
        _ => Change::Keep,
    };
    let body = change_elements(body, "contents", None::<&Value>, without_signatures)?;
    reasoning.leave_out();
    Some(Remedy {
        body: bytes_of(body),
        warning: "the server refused thought signatures of earlier answers; they were left out"
            .to_owned(),
    })
}

fn role_of(content: &RawValue) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct ContentRole<'a> {
        #[serde(borrow, default)]
        role: Option<Cow<'a, str>>,
    }

    serde_json::from_str::<ContentRole<'_>>(content.get())
        .ok()?
        .role
}

fn strip_parts(content: &RawValue) -> Option<Box<RawValue>> {
    let mut has_call = false;
    let nothing = json!({"text": NOTHING});
    let content = content.get().as_bytes();
    change_elements(content, "parts", Some(&nothing), |part| {
        strip_part(part, &mut has_call).unwrap_or(Change::Keep)
    })
}

/// Returns the change of a part; `None` if it is no object.
fn strip_part(part: &RawValue, has_call: &mut bool) -> Option<Change> {
    let mut fields: RawFields<'_> = serde_json::from_str(part.get()).ok()?;

    // A call may have many values, and only its presence counts.
    let known_fields = fields.iter().map(|(name, value)| {
        let value = match name.as_str() {
            SIGNATURE | "text" | "thought" => serde_json::from_str(value.get()),
            _ => Ok(Value::Null),
        };
        Some((name.clone(), value.ok()?))
    });
    let mut known_fields: Map<String, Value> = known_fields.collect::<Option<_>>()?;
    let old_signature = known_fields.get(SIGNATURE).cloned();
    if !strip(&mut known_fields, has_call) {
        return Some(Change::Remove);
    }

    let signature = known_fields.get(SIGNATURE);
    if signature == old_signature.as_ref() {
        return Some(Change::Keep);
    }
    let signature = signature.map(to_raw_value).transpose().ok()?;
    fields.remove(SIGNATURE);
    fields.extend(
        signature
            .as_deref()
            .map(|text| (SIGNATURE.to_owned(), text)),
    );
    to_raw_value(&fields).ok().map(Change::Replace)
}
