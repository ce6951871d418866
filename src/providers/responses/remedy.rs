//! A second request without the reasoning and the ids that the server refused.

use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use crate::error::Error;
use crate::util::sync::lock;

use super::super::encode::Reasoning;
use super::super::raw_object::{Change, RawFields, bytes_of, change_elements, type_of};
use super::super::send::Remedy;
use super::super::status::has_code;

/// The code of a refusal of reasoning that another account or another server encrypted.
const FOREIGN: &str = "invalid_encrypted_content";

/// The text of a refusal of items that have the same id, in lower case. A server that gives an id
/// again, in another answer, makes such a history.
const DUPLICATE: &str = "duplicate item found with id";

/// The texts of refusals that a request without reasoning and ids avoids, in lower case.
const REFUSALS: &[&str] = &[
    FOREIGN,
    DUPLICATE,
    "encrypted content",
    "required 'reasoning' item",
    "required following item",
];

/// The text of a refusal to give reasoning in its encrypted form, in lower case.
const UNSUPPORTED: &str = "encrypted content is not supported";

/// The entry of a request's `include` that requests reasoning in its encrypted form.
const ENCRYPTED: &str = "\"reasoning.encrypted_content\"";

/// The address of a server, and the name of a model.
type ServedModel = (String, Arc<str>);

/// The maximum number of remembered models. A request to a forgotten model is refused once more.
const MAX_MODELS: usize = 256;

/// The models that refused to give reasoning in its encrypted form. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Unencrypted(Arc<Mutex<Vec<ServedModel>>>);

impl Unencrypted {
    pub(super) fn contains(&self, base: &str, model: &str) -> bool {
        let models = lock(&self.0);
        models
            .iter()
            .any(|(server, name)| server == base && **name == *model)
    }

    pub(super) fn insert(&self, base: String, model: Arc<str>) {
        if self.contains(&base, &model) {
            return;
        }

        let mut models = lock(&self.0);
        if models.len() >= MAX_MODELS {
            models.remove(0);
        }
        models.push((base, model));
    }
}

/// Returns the second body for `error`, if the server refused the reasoning or the ids in `body`.
/// It has neither, and later requests of the run then have none of this reasoning either. If the
/// model gives no encrypted reasoning, `record_unencrypted` is called.
///
/// A server that gives the same id in each answer refuses the third request of a run and every
/// second one after it, because the ids of answers after a refusal are sent again.
pub(super) fn remedy(
    error: &Error,
    body: &[u8],
    reasoning: &Reasoning,
    record_unencrypted: impl FnOnce(),
) -> Option<Remedy> {
    let text = error.text().to_lowercase();
    let is_refused = REFUSALS.iter().any(|refusal| text.contains(refusal));
    if !is_refused && !has_code(error, FOREIGN) {
        return None;
    }

    let unasked_body = text.contains(UNSUPPORTED).then(|| unasked(body)).flatten();
    let is_unasked = unasked_body.is_some();
    let unasked_body = unasked_body.map(bytes_of);
    let body = unasked_body.as_deref().unwrap_or(body);

    let without_reasoning = |item: &RawValue| match type_of(item).as_deref() {
        None | Some("function_call_output") => Change::Keep,
        Some("function_call") => without_id(item).map_or(Change::Keep, Change::Replace),
        Some("message") => short_form(item).map_or(Change::Keep, Change::Replace),
        // Reasoning, and the items of hosted tools, whose ids are required.
        Some(_) => Change::Remove,
    };
    let body = change_elements(body, "input", None::<&Value>, without_reasoning).map(bytes_of);
    if is_unasked {
        record_unencrypted();
        return Some(Remedy {
            body: body.or(unasked_body)?,
            warning: "the model gives no encrypted reasoning; it was not requested".to_owned(),
        });
    }

    reasoning.leave_out();
    let warning = if text.contains(DUPLICATE) {
        "the server refused ids of earlier answers; they and the reasoning were left out"
    } else {
        "the server refused reasoning of earlier answers; it was left out"
    };
    Some(Remedy {
        body: body?,
        warning: warning.to_owned(),
    })
}

/// Returns the body without the request for encrypted reasoning.
fn unasked(body: &[u8]) -> Option<Box<RawValue>> {
    change_elements(body, "include", None::<&Value>, |part| {
        if part.get() == ENCRYPTED {
            Change::Remove
        } else {
            Change::Keep
        }
    })
}

/// Returns a call without its id; `None` if it has none.
fn without_id(call: &RawValue) -> Option<Box<RawValue>> {
    let mut fields: RawFields<'_> = serde_json::from_str(call.get()).ok()?;
    fields.remove("id")?;
    fields.remove("status");
    to_raw_value(&fields).ok()
}

/// A message of the model, with the texts of its parts.
#[derive(Deserialize)]
struct WireMessage<'a> {
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    phase: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct ShortMessage<'a> {
    role: &'a str,
    content: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<&'a RawValue>,
}

/// Returns a message without its id: its text and its phase.
fn short_form(message: &RawValue) -> Option<Box<RawValue>> {
    let message: WireMessage<'_> = serde_json::from_str(message.get()).ok()?;
    let parts = message.content.map(RawValue::get);
    let parts = parts.and_then(|parts| serde_json::from_str::<Vec<&RawValue>>(parts).ok());
    let texts = parts.into_iter().flatten().filter_map(text_of);
    let short = ShortMessage {
        role: "assistant",
        content: texts.collect(),
        phase: message.phase,
    };
    to_raw_value(&short).ok()
}

fn text_of(part: &RawValue) -> Option<String> {
    let fields: RawFields<'_> = serde_json::from_str(part.get()).ok()?;
    let text = fields.get("text").or_else(|| fields.get("refusal"))?;
    serde_json::from_str(text.get()).ok()
}
