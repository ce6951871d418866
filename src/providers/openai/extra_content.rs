//! The field `extra_content` of Gemini, in which calls and texts have their signatures.

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::error::Result;
use crate::message::{Part, ProviderBlock};

use super::super::events::Events;
use super::super::gemini_family::PLACEHOLDER;
use super::super::json::replace_refused;
use super::super::lenient::is_empty_value;

/// The name of the field.
const FIELD: &str = "extra_content";

/// The value that the field had last in the texts of an answer.
#[derive(Default)]
pub(super) struct ExtraContent(Option<Box<RawValue>>);

impl ExtraContent {
    /// Replaces the field. An empty field is ignored.
    pub(super) fn set(&mut self, raw: &RawValue, out: &mut Events) -> Result<()> {
        let former = self.0.as_deref().map(RawValue::get);
        if former != Some(raw.get()) && !is_empty_value(raw) {
            out.collect_json(raw)?;
            self.0 = Some(raw.to_owned());
        }
        Ok(())
    }

    /// Takes the block that sends the field back with the answer.
    pub(super) fn take(&mut self, tag: &str) -> Result<Option<Part>> {
        match self.0.take() {
            Some(raw) => Ok(Some(Part::Thinking(block(tag, &raw)?))),
            None => Ok(None),
        }
    }
}

/// Returns the block that sends the field back.
pub(super) fn block(tag: &str, raw: &RawValue) -> Result<ProviderBlock> {
    let fields = format!("{{\"{FIELD}\":{}}}", replace_refused(raw.get()));
    Ok(ProviderBlock::new(tag, RawValue::from_string(fields)?))
}

/// Returns `true` if the text with this field is a thought.
pub(super) fn is_thought(raw: &RawValue) -> bool {
    let value: Value = serde_json::from_str(raw.get()).unwrap_or_default();
    value
        .pointer("/google/thought")
        .is_some_and(|thought| thought == true)
}

/// Returns `true` if the fields of a call, without braces, have a signature. It stands in an object
/// that is named after the server.
pub(super) fn is_signed(fields: &str) -> bool {
    let fields: Value = serde_json::from_str(&format!("{{{fields}}}")).unwrap_or_default();
    let mut servers = fields
        .get(FIELD)
        .and_then(Value::as_object)
        .into_iter()
        .flat_map(Map::values);
    servers.any(|server| {
        server
            .get("thought_signature")
            .is_some_and(Value::is_string)
    })
}

/// Appends the field for a call that the server did not make.
pub(super) fn write_placeholder(out: &mut Vec<u8>) {
    let field = format!(",\"{FIELD}\":{{\"google\":{{\"thought_signature\":\"{PLACEHOLDER}\"}}}}");
    out.extend_from_slice(field.as_bytes());
}
