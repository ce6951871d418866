//! The content blocks of an answer while they stream.

use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::error::Result;
use crate::message::{Annotations, Part, ProviderBlock, ToolCall};
use crate::sdk::citations::annotations;

use super::super::events::Events;
use super::super::json::{RawText, fields_without};
use super::events::{WireBlock, WireDelta};

/// A block that has begun and not ended.
pub(super) enum OpenBlock {
    Text(Box<OpenText>),
    Thinking(Box<EchoedBlock>),
    Tool {
        id: Arc<str>,
        name: Arc<str>,
        json: String,
        /// Arguments that came with the block's beginning.
        input: Option<String>,
        /// Further fields of the block, an object, which are sent back with the call.
        extra: Option<Box<RawValue>>,
    },
    /// A block of any other kind.
    Other(Box<EchoedBlock>),
}

/// The data of a text block except its text, which is emitted at once.
#[derive(Default)]
pub(super) struct OpenText {
    pub(super) has_text: bool,
    citations: Vec<Box<RawValue>>,
}

impl OpenText {
    pub(super) fn add_citation(&mut self, citation: &RawValue) {
        self.citations.push(citation.to_owned());
    }

    /// Returns the citations as annotations; `None` without a citation, or without a text that has
    /// them.
    pub(super) fn finish(&self, tag: &str) -> Result<Option<Annotations>> {
        if self.citations.is_empty() || !self.has_text {
            return Ok(None);
        }
        let list = serde_json::value::to_raw_value(&self.citations)?;
        let mut annotations = annotations(&list);
        let blocks = annotations.iter_mut().filter_map(|own| own.block.as_mut());
        for block in blocks {
            block.provider = Some(tag.into());
        }
        Ok(annotations)
    }
}

/// A block that is sent back unchanged: its beginning and its deltas.
pub(super) struct EchoedBlock {
    start: Box<RawValue>,
    thinking: String,
    signature: Option<String>,
    /// Deltas of other kinds, in order.
    deltas: Vec<Box<RawValue>>,
}

impl EchoedBlock {
    pub(super) fn new(start: &RawValue) -> Self {
        Self {
            start: start.to_owned(),
            thinking: String::new(),
            signature: None,
            deltas: Vec::new(),
        }
    }

    pub(super) fn add_thinking(&mut self, text: &str) {
        self.thinking.push_str(text);
    }

    pub(super) fn add_signature(&mut self, text: &str) {
        self.signature
            .get_or_insert_with(String::new)
            .push_str(text);
    }

    pub(super) fn add_raw(&mut self, delta: &RawValue) {
        self.deltas.push(delta.to_owned());
    }

    fn has_no_deltas(&self) -> bool {
        self.thinking.is_empty() && self.signature.is_none() && self.deltas.is_empty()
    }

    /// Returns the whole block. Without deltas, it is the JSON text of the beginning.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::ResponseTooLarge`](crate::ErrorKind::ResponseTooLarge) if there are too
    /// many values in `input`, which arrives as pieces of text.
    pub(super) fn finish(self, tag: &str, out: &mut Events) -> Result<ProviderBlock> {
        if self.has_no_deltas() {
            return Ok(ProviderBlock::new(tag, self.start));
        }

        let mut block: Map<String, Value> = serde_json::from_str(self.start.get())?;
        append(&mut block, "thinking", &self.thinking);
        if let Some(signature) = &self.signature {
            append(&mut block, "signature", signature);
        }

        let mut input = String::new();
        for delta in &self.deltas {
            let delta: Map<String, Value> = serde_json::from_str(delta.get())?;
            for (name, value) in delta {
                merge(&mut block, &mut input, &name, value);
            }
        }

        out.collect_values(&input)?;
        if let Ok(input) = serde_json::from_str::<Value>(&input) {
            block.insert("input".to_owned(), input);
        }

        let raw = serde_json::value::to_raw_value(&block)?;
        Ok(ProviderBlock::new(tag, raw))
    }
}

/// Adds a field of a delta to a block. A text is appended to the field's text, a citation to
/// `citations`, and a piece of JSON to `input`; any other value replaces the field's value.
fn merge(block: &mut Map<String, Value>, input: &mut String, name: &str, value: Value) {
    match (name, value) {
        ("type", _) => {}
        ("partial_json", Value::String(json)) => input.push_str(&json),
        ("citation", citation) => match block.get_mut("citations") {
            Some(Value::Array(list)) => list.push(citation),
            _ => {
                block.insert("citations".to_owned(), Value::Array(vec![citation]));
            }
        },
        (name, Value::String(text)) => append(block, name, &text),
        (name, value) => {
            block.insert(name.to_owned(), value);
        }
    }
}

/// Appends a text to a field. An empty text creates no field, except for `signature`.
fn append(block: &mut Map<String, Value>, name: &str, text: &str) {
    match block.get_mut(name) {
        Some(Value::String(before)) => before.push_str(text),
        _ if text.is_empty() && name != "signature" => {}
        _ => {
            block.insert(name.to_owned(), Value::String(text.to_owned()));
        }
    }
}

impl OpenBlock {
    /// Takes the piece of text in a delta for a block of this kind.
    pub(super) fn piece<'a>(&self, delta: &mut WireDelta<'a>) -> Option<RawText<'a>> {
        match self {
            Self::Text(_) => delta.text.take(),
            Self::Tool { .. } => delta.partial_json.take(),
            Self::Thinking(_) => delta.thinking.take(),
            Self::Other(_) => None,
        }
    }

    /// Creates the block from its beginning. `fallback_id` returns the id of a call without one.
    pub(super) fn new(
        raw: &RawValue,
        block: &WireBlock<'_>,
        fallback_id: impl FnOnce() -> String,
    ) -> Self {
        match block.kind.as_str() {
            "text" => Self::Text(Box::default()),
            "thinking" | "redacted_thinking" => Self::Thinking(Box::new(EchoedBlock::new(raw))),
            "tool_use" => Self::Tool {
                id: match block.id.as_deref() {
                    Some(id) if !id.is_empty() => id.into(),
                    _ => fallback_id().into(),
                },
                name: block.name.as_deref().unwrap_or_default().into(),
                json: String::new(),
                input: block
                    .input
                    .map(|input| input.get().to_owned())
                    .filter(|input| !matches!(&**input, "{}" | "null" | "\"\"")),
                extra: further_fields(raw),
            },
            _ => Self::Other(Box::new(EchoedBlock::new(raw))),
        }
    }
}

/// Returns the fields of a call that a [`ToolCall`] does not have; `None` if there are none.
fn further_fields(block: &RawValue) -> Option<Box<RawValue>> {
    let mut fields = fields_without(block.get(), &["type", "id", "name", "input"]).ok()?;
    fields.retain(|_, value| value.get() != "null");
    let fields = Some(fields).filter(|fields| !fields.is_empty())?;
    serde_json::value::to_raw_value(&fields).ok()
}

/// Returns the arguments of a finished call, from its deltas or else from its beginning.
pub(super) fn written_args(json: String, input: Option<String>) -> String {
    match input {
        Some(input) if json.is_empty() => input,
        _ => json,
    }
}

/// Returns `true` if the output limit may have cut the call off: its arguments are unreadable or
/// have not begun.
pub(super) fn may_be_cut_off(call: &ToolCall) -> bool {
    !call.args.is_object()
        || call
            .raw_args
            .as_deref()
            .is_none_or(|raw| raw.trim().is_empty())
}

/// Returns a block that is sent back as a part with this tag; `None` for a text or a call.
pub(super) fn echoed_part(block: OpenBlock, tag: &str, out: &mut Events) -> Result<Option<Part>> {
    Ok(match block {
        OpenBlock::Thinking(block) => Some(Part::Thinking(block.finish(tag, out)?)),
        OpenBlock::Other(block) => Some(Part::Opaque(block.finish(tag, out)?)),
        OpenBlock::Text(_) | OpenBlock::Tool { .. } => None,
    })
}
