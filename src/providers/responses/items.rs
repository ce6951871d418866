//! The output items of a response, while they arrive and whole.

use std::borrow::Cow;
use std::mem;
use std::sync::Arc;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use crate::error::{Error, ErrorKind, Result};
use crate::message::{Annotations, Citation, Part, ProviderBlock, ToolCall, parts_size};
use crate::model::ModelEvent;
use crate::util::hash::Fnv1a;

use super::super::events::Events;
use super::super::json::{fields_without, unquoted};
use super::events::{WireItem, WireText};

/// The fields of a call's item that [`ToolCall`] holds.
pub(super) const CALL_FIELDS: &[&str] = &["type", CALL_ID, "name", "arguments"];

/// The field of a call's id. Only the fields of a call that was given another id have it.
pub(super) const CALL_ID: &str = "call_id";

/// An output item that has begun.
pub(super) struct OpenItem {
    pub(super) state: ItemState,
    /// The events that wait for the end of the items before this one.
    waiting: Vec<ModelEvent>,
    pub(super) is_done: bool,
}

/// The part of an item that was emitted before its end.
pub(super) enum ItemState {
    Message(StreamedText),
    Call(StreamedCall),
    Reasoning(StreamedReasoning),
    Other,
}

/// A call whose start was emitted.
pub(super) struct StreamedCall {
    /// The number of the call in the response.
    pub(super) number: u32,
    pub(super) id: Arc<str>,
    pub(super) name: Arc<str>,
    pub(super) has_deltas: bool,
}

/// Reasoning of which pieces may have been emitted.
#[derive(Default)]
pub(super) struct StreamedReasoning {
    pub(super) has_deltas: bool,
    pub(super) last_summary: u64,
}

/// The length and a hash of the text that was emitted of the first part of a message.
#[derive(Default)]
pub(super) struct StreamedText {
    len: usize,
    hash: Fnv1a,
    /// True if half of a surrogate pair was replaced, so that the whole text differs.
    has_replacement: bool,
}

impl StreamedText {
    pub(super) fn push(&mut self, piece: &str) {
        self.len += piece.len();
        self.hash.push(piece.as_bytes());
        self.has_replacement |= !piece.is_ascii() && piece.contains('\u{FFFD}');
    }

    /// Returns the end of `text` that was not emitted; `None` if `text` does not begin with the
    /// emitted pieces.
    fn remainder_of<'a>(&self, text: &'a str) -> Option<&'a str> {
        if self.has_replacement {
            return Some("");
        }
        let (start, end) = text.split_at_checked(self.len)?;
        let mut hash = Fnv1a::default();
        hash.push(start.as_bytes());
        (hash.value() == self.hash.value()).then_some(end)
    }

    /// Returns the events that are left when the message has arrived.
    fn finish(&self, raw: &RawValue, tag: &Arc<str>, out: &mut Events) -> Result<Vec<ModelEvent>> {
        let mut events = self.part_events(raw, tag, out)?;
        if events.is_empty() && self.len == 0 {
            events.push(opaque_part(raw, tag));
        }
        Ok(events)
    }

    /// Returns the texts of a message that were not emitted, each with its citations and the fields
    /// that are to be sent back with it.
    fn part_events(
        &self,
        raw: &RawValue,
        tag: &Arc<str>,
        out: &mut Events,
    ) -> Result<Vec<ModelEvent>> {
        let mut message = fields(raw)?;
        let Some(Value::Array(parts)) = message.remove("content") else {
            return Ok(Vec::new());
        };
        let message = to_raw_value(&message)?;

        let mut events = Vec::new();
        for (index, part) in parts.into_iter().enumerate() {
            let Value::Object(mut part) = part else {
                continue;
            };
            let text = take_text(&mut part);
            events.extend(self.text_events(index, &text));
            if !text.is_empty() {
                // Each part repeats the fields of the message. They are counted here, because the
                // events are counted only when all of them exist.
                out.collect_bytes(message.get().len())?;
                events.push(annotations(&message, &part, tag)?);
            }
        }

        Ok(events)
    }

    /// Returns the events of the text of a part that was not emitted.
    fn text_events(&self, index: usize, text: &str) -> Vec<ModelEvent> {
        let is_streamed = index == 0 && self.len > 0;
        let remainder = if is_streamed {
            self.remainder_of(text)
        } else {
            Some(text)
        };
        match remainder {
            Some("") => Vec::new(),
            Some(remainder) => vec![ModelEvent::Text(remainder.to_owned())],
            None => vec![
                ModelEvent::Part(Part::Text(text.to_owned())),
                ModelEvent::Warning(DIFFERS.to_owned()),
            ],
        }
    }
}

impl StreamedCall {
    /// Returns the events that are left when the call has arrived.
    fn finish(
        &self,
        item: &WireItem<'_>,
        raw: &RawValue,
        tag: &Arc<str>,
    ) -> Result<Vec<ModelEvent>> {
        // Half a call never runs.
        if item.status.0 == "incomplete" {
            return Ok(Vec::new());
        }
        if self.name.is_empty() {
            let number = self.number;
            return Err(protocol_error(format!(
                "the tool call {number} has no name"
            )));
        }

        let args = item.arguments()?.into_owned();
        let mut events = Vec::new();
        if !self.has_deltas && !args.is_empty() {
            events.push(ModelEvent::ToolCallDelta {
                index: self.number,
                json: args.clone(),
            });
        }
        let mut call = ToolCall::from_raw(self.id.clone(), self.name.clone(), args);
        let is_renamed = *item.call_id.0 != *self.id;
        let own_id = is_renamed.then_some(&*item.call_id.0);
        if let Some(fields) = call_fields(raw, own_id)? {
            call = call.with_extra(ProviderBlock::new(tag.clone(), fields));
        }
        events.push(ModelEvent::ToolCall(call));
        Ok(events)
    }
}

impl StreamedReasoning {
    /// Returns the events that are left when the reasoning has arrived.
    fn finish(&self, item: &WireItem<'_>, raw: &RawValue, tag: &Arc<str>) -> Vec<ModelEvent> {
        let thoughts = item.thoughts();
        let is_new = !self.has_deltas && !thoughts.is_empty();
        let thinking = is_new.then_some(ModelEvent::Thinking(thoughts));
        let block = ProviderBlock::new(tag.clone(), raw.to_owned());
        let part = ModelEvent::Part(Part::Thinking(block));
        thinking.into_iter().chain([part]).collect()
    }
}

/// The warning about a text that differs from its pieces.
const DIFFERS: &str =
    "the whole text of a message is not that of its pieces; the whole one was kept";

/// Returns the error for a stream that breaks its rules.
pub(super) fn protocol_error(fault: impl std::fmt::Display) -> Error {
    let text = format!("the stream breaks the protocol: {fault}");
    Error::new(ErrorKind::Protocol, text)
}

impl WireItem<'_> {
    /// Returns the text of the reasoning: its summaries, or else the reasoning itself.
    fn thoughts(&self) -> String {
        let texts = |pieces: &Option<Vec<WireText<'_>>>| {
            pieces
                .iter()
                .flatten()
                .map(|piece| &*piece.text.0)
                .collect::<Vec<_>>()
                .join("\n\n")
        };
        match texts(&self.summary) {
            summary if summary.is_empty() => texts(&self.content),
            summary => summary,
        }
    }

    pub(super) fn has_refusal(&self) -> bool {
        let mut parts = self.content.iter().flatten();
        parts.any(|part| !part.refusal.is_empty())
    }

    /// Returns the arguments of a call, as JSON text.
    fn arguments(&self) -> Result<Cow<'_, str>> {
        Ok(match self.arguments.map(RawValue::get) {
            None | Some("null") => "".into(),
            Some(text) if text.starts_with('"') => unquoted(text)?,
            // Some servers send the value instead of its text.
            Some(value) => value.into(),
        })
    }
}

/// Returns the size of the text of an event that waits, in bytes.
fn waiting_size(event: &ModelEvent) -> usize {
    match event {
        ModelEvent::Text(text) | ModelEvent::Thinking(text) => text.len(),
        ModelEvent::ToolCallDelta { json, .. } => json.len(),
        ModelEvent::ToolCall(call) => call.raw_args.as_deref().map_or(0, str::len),
        ModelEvent::Part(part) => parts_size(std::slice::from_ref(part)),
        _ => 0,
    }
}

impl OpenItem {
    pub(super) fn new(state: ItemState) -> Self {
        Self {
            state,
            waiting: Vec::new(),
            is_done: false,
        }
    }

    /// Keeps an event until the items before this one have ended, and counts its memory. Deltas are
    /// joined.
    pub(super) fn wait(&mut self, event: ModelEvent, out: &mut Events) -> Result<()> {
        use ModelEvent::{Text, Thinking, ToolCallDelta};

        out.collect_bytes(waiting_size(&event))?;
        match (self.waiting.last_mut(), event) {
            (Some(Text(text)), Text(delta)) | (Some(Thinking(text)), Thinking(delta)) => {
                text.push_str(&delta);
            }
            (Some(ToolCallDelta { json, .. }), ToolCallDelta { json: delta, .. }) => {
                json.push_str(&delta);
            }
            (_, event) => {
                out.collect_bytes(size_of::<ModelEvent>())?;
                self.waiting.push(event);
            }
        }
        Ok(())
    }

    /// Returns the events that waited.
    pub(super) fn take_waiting(&mut self) -> Vec<ModelEvent> {
        mem::take(&mut self.waiting)
    }

    /// The events that are left when the whole item has arrived. `tag` names its blocks.
    pub(super) fn finish(
        &mut self,
        item: &WireItem<'_>,
        raw: &RawValue,
        tag: &Arc<str>,
        out: &mut Events,
    ) -> Result<Vec<ModelEvent>> {
        match &self.state {
            ItemState::Message(message) => message.finish(raw, tag, out),
            ItemState::Call(call) => call.finish(item, raw, tag),
            ItemState::Reasoning(reasoning) => Ok(reasoning.finish(item, raw, tag)),
            ItemState::Other => Ok(vec![opaque_part(raw, tag)]),
        }
    }
}

/// Returns an item as a part that is sent back as it is.
fn opaque_part(raw: &RawValue, tag: &Arc<str>) -> ModelEvent {
    let block = ProviderBlock::new(tag.clone(), raw.to_owned());
    ModelEvent::Part(Part::Opaque(block))
}

/// The fields that are sent back with a text: the fields of its item, and its own.
#[derive(Serialize)]
struct TextFields<'a> {
    item: &'a RawValue,
    part: &'a Map<String, Value>,
}

/// Removes the text of a part, and returns it; empty if there is none.
fn take_text(part: &mut Map<String, Value>) -> String {
    let text = ["text", "refusal"].into_iter().find_map(|field| {
        let is_text = part.get(field).is_some_and(Value::is_string);
        if is_text { part.remove(field) } else { None }
    });
    match text {
        Some(Value::String(text)) => text,
        _ => String::new(),
    }
}

/// Returns the citations of a part's text, and the fields that are to be sent back with it.
fn annotations(
    message: &RawValue,
    part: &Map<String, Value>,
    tag: &Arc<str>,
) -> Result<ModelEvent> {
    let fields = to_raw_value(&TextFields {
        item: message,
        part,
    })?;
    let block = ProviderBlock::new(tag.clone(), fields);
    let annotations = Annotations::new(citations(part)).with_block(block);
    Ok(ModelEvent::Part(Part::Annotations(annotations)))
}

/// Returns the sources of a part's text: addresses, and names of files.
fn citations(part: &Map<String, Value>) -> Vec<Citation> {
    let annotations = part
        .get("annotations")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let sources = annotations.filter_map(|annotation| {
        let text = |field: &str| annotation.get(field).and_then(Value::as_str);
        let url = text("url").unwrap_or_default();
        let title = text("title")
            .or_else(|| text("filename"))
            .unwrap_or_default();
        let is_source = !url.is_empty() || !title.is_empty();
        is_source.then(|| Citation::new(url).with_title(title))
    });
    sources.collect()
}

/// Returns the fields of an item.
fn fields(raw: &RawValue) -> Result<Map<String, Value>> {
    serde_json::from_str(raw.get()).map_err(|_| no_object())
}

fn no_object() -> Error {
    protocol_error("an item is no object")
}

/// Returns the fields of a call that no part of [`ToolCall`] holds, if there are any, with the id
/// that the server gave a call which has another one now.
fn call_fields(raw: &RawValue, own_id: Option<&str>) -> Result<Option<Box<RawValue>>> {
    let own_id = own_id.map(to_raw_value).transpose()?;
    let mut fields = fields_without(raw.get(), CALL_FIELDS).map_err(|_| no_object())?;
    if let Some(own_id) = &own_id {
        fields.insert(CALL_ID.into(), own_id);
    }
    if fields.is_empty() {
        return Ok(None);
    }
    Ok(Some(to_raw_value(&fields)?))
}
