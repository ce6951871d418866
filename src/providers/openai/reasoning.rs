//! The reasoning of an answer, assembled in the form in which its server accepts it back.
//!
//! The block of the reasoning is an object with the fields of the message that had it. Of the field
//! `content`, the block has the chunks of thinking and not the chunks of text.

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use crate::error::Result;
use crate::message::{Part, ProviderBlock};

use super::super::chat::reasoning_part;
use super::super::events::Events;
use super::super::json::replace_refused;
use super::super::lenient::Text;
use super::details::{Collected, DETAILS, Details, shown_text};

/// The field with chunks of thinking.
pub(super) const CHUNKS: &str = "content";

/// The extent of a message that a server sends at once.
#[derive(Clone, Copy)]
pub(super) enum Extent {
    /// A piece, which continues the pieces before.
    Piece,
    /// The whole answer.
    Answer,
}

/// The reasoning of an answer while it streams.
#[derive(Default)]
pub(super) struct StreamedReasoning {
    /// The name of a field of text, and the text.
    text: Option<(&'static str, String)>,
    details: Details,
    /// A chunk of thinking.
    chunk: Option<Map<String, Value>>,
}

impl StreamedReasoning {
    /// Collects a text of this field.
    pub(super) fn push_text(
        &mut self,
        field: &'static str,
        text: &str,
        out: &mut Events,
    ) -> Result<()> {
        out.collect_bytes(text.len())?;
        let (_, collected) = self.text.get_or_insert((field, String::new()));
        collected.push_str(text);
        Ok(())
    }

    /// Collects a list of details and returns their text to show. The entries of a whole answer
    /// stay as they are.
    pub(super) fn push_details(
        &mut self,
        list: &RawValue,
        extent: Extent,
        out: &mut Events,
    ) -> Result<String> {
        let list: Vec<&RawValue> = serde_json::from_str(list.get()).unwrap_or_default();
        let mut text = String::new();
        for raw in list {
            let Some(piece) = object(raw) else {
                continue;
            };

            text.push_str(shown_text(&piece));
            let collected = match extent {
                Extent::Piece => self.details.join(piece),
                Extent::Answer => {
                    self.details.add(piece);
                    Collected::Whole
                }
            };

            match collected {
                Collected::Text(len) => out.collect_bytes(len)?,
                Collected::Whole => out.collect_json(raw)?,
            }
        }

        Ok(text)
    }

    /// Collects a chunk of thinking and returns its text to show. `None` for a chunk of another
    /// type.
    pub(super) fn push_chunk(
        &mut self,
        raw: &RawValue,
        out: &mut Events,
    ) -> Result<Option<String>> {
        let piece = object(raw).filter(|chunk| chunk.get("type").is_some_and(|t| t == "thinking"));
        let Some(piece) = piece else {
            return Ok(None);
        };

        let text = piece.get("thinking").map(text_of).unwrap_or_default();
        match &mut self.chunk {
            None => {
                out.collect_json(raw)?;
                self.chunk = Some(piece);
            }
            Some(chunk) => match join_chunk(chunk, piece) {
                Collected::Text(len) => out.collect_bytes(len)?,
                Collected::Whole => out.collect_json(raw)?,
            },
        }

        Ok(Some(text))
    }

    /// Takes the block of the reasoning that was collected; `None` without any. This is called
    /// before every piece of text, so the common case is fast.
    pub(super) fn take(&mut self, tag: &str) -> Result<Option<Part>> {
        if self.text.is_none() && self.chunk.is_none() && self.details.is_empty() {
            return Ok(None);
        }
        self.take_collected(tag)
    }

    #[cold]
    fn take_collected(&mut self, tag: &str) -> Result<Option<Part>> {
        let text = self.text.take();
        let chunk = self.chunk.take();
        if let (Some((field, text)), None, true) = (&text, &chunk, self.details.is_empty()) {
            return reasoning_part(tag, field, text).map(Some);
        }

        let mut fields = Map::new();
        if let Some((field, text)) = text {
            fields.insert(field.to_owned(), text.into());
        }
        if !self.details.is_empty() {
            fields.insert(DETAILS.to_owned(), self.details.take());
        }
        if let Some(chunk) = chunk {
            fields.insert(CHUNKS.to_owned(), vec![Value::Object(chunk)].into());
        }

        if fields.is_empty() {
            return Ok(None);
        }

        let raw = to_raw_value(&fields)?;
        Ok(Some(Part::Thinking(ProviderBlock::new(tag, raw))))
    }
}

/// Adds a piece of thinking to its chunk.
fn join_chunk(chunk: &mut Map<String, Value>, piece: Map<String, Value>) -> Collected {
    let mut text_len = 0;
    let mut has_new_values = false;
    for (name, value) in piece {
        match (chunk.get_mut(&name), value) {
            (_, Value::Null) => {}
            (Some(Value::Array(thoughts)), Value::Array(more)) if name == "thinking" => {
                for thought in more {
                    match join_text(thoughts.last_mut(), &thought) {
                        Some(len) => text_len += len,
                        None => {
                            has_new_values = true;
                            thoughts.push(thought);
                        }
                    }
                }
            }
            (Some(former), value) if *former == value => {}
            (_, value) => {
                has_new_values = true;
                chunk.insert(name, value);
            }
        }
    }

    if has_new_values {
        Collected::Whole
    } else {
        Collected::Text(text_len)
    }
}

/// Appends a text to the text before it and returns its length, if both chunks consist of text
/// alone.
fn join_text(last: Option<&mut Value>, next: &Value) -> Option<usize> {
    let is_text = |value: &Value| {
        let fields = value.as_object();
        fields.is_some_and(|fields| fields.len() == 2)
            && value["type"] == "text"
            && value["text"].is_string()
    };
    let last = last.filter(|last| is_text(last))?;
    let text = next["text"].as_str().filter(|_| is_text(next))?;
    if let Value::String(former) = &mut last["text"] {
        former.push_str(text);
    }
    Some(text.len())
}

/// Returns the text in a value of any of the shapes that servers send.
fn text_of(value: &Value) -> String {
    let json = value.to_string();
    serde_json::from_str::<Text<'_>>(&json)
        .map_or_else(|_| String::new(), |text| text.0.into_owned())
}

/// Returns the fields of an object; `None` for another value. Halves of surrogate pairs are
/// replaced.
fn object(raw: &RawValue) -> Option<Map<String, Value>> {
    serde_json::from_str(&replace_refused(raw.get())).ok()
}
