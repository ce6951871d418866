//! The messages of the type `user`: inputs and results of tools.

use std::sync::Arc;

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::block::{self, Parsed, TextOrBlocks, ToolResultBlock};
use super::envelope::Envelope;
use super::fields::{Fields, read};
use crate::message::{Content, Message, Part};

/// A message to the model: input, or the results of a turn's tool calls. Type `user`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct UserEvent {
    /// The common fields of every message.
    pub envelope: Envelope,
    /// One user message, or the tool results of a turn: together one message on the wire.
    pub messages: Vec<Arc<Message>>,
    /// The tools' data for programs; the model does not see it. If a run emitted the message and it
    /// has one result, this is an object with `tool_use_id` and the fields `details`, `display`,
    /// `silent` and `is_async` that are present. If it has several results, this is an array of
    /// such objects, for the results with such fields.
    pub tool_use_result: Option<Value>,
    /// True if the program made the message, rather than a person.
    pub is_synthetic: bool,
}

#[derive(serde::Deserialize)]
struct Wire {
    message: MessageWire,
    tool_use_result: Option<Value>,
    #[serde(rename = "isSynthetic")]
    is_synthetic: Option<bool>,
}

#[derive(serde::Deserialize)]
struct MessageWire {
    content: Box<RawValue>,
}

impl UserEvent {
    /// Creates a user message, or the tool results of a turn.
    pub fn new<M: Into<Arc<Message>>>(
        envelope: Envelope,
        messages: impl IntoIterator<Item = M>,
    ) -> Self {
        Self {
            envelope,
            messages: messages.into_iter().map(Into::into).collect(),
            tool_use_result: None,
            is_synthetic: false,
        }
    }

    /// Marks the event as created by the program.
    #[must_use]
    pub(crate) fn synthetic(mut self) -> Self {
        self.is_synthetic = true;
        self
    }

    pub(super) fn read(text: &str) -> serde_json::Result<Self> {
        let wire: Wire = read(text)?;
        Ok(Self {
            envelope: read(text)?,
            messages: messages(&wire.message.content)?,
            tool_use_result: wire.tool_use_result,
            is_synthetic: wire.is_synthetic.unwrap_or_default(),
        })
    }

    pub(super) fn write<M: SerializeMap>(&self, to: &mut Fields<'_, M>) -> Result<(), M::Error> {
        to.put("type", "user")?;
        to.put("message", &Param(&self.messages))?;
        to.maybe("tool_use_result", &self.tool_use_result)?;
        to.flag("isSynthetic", self.is_synthetic)?;
        self.envelope.write(to, true)
    }
}

/// Messages as one `MessageParam`.
struct Param<'a>(&'a [Arc<Message>]);

impl Serialize for Param<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(2))?;
        map.serialize_entry("role", "user")?;
        match self.0 {
            [one] if one.as_tool_result().is_none() => {
                map.serialize_entry("content", &TextOrBlocks(one.content()))?;
            }
            all => map.serialize_entry("content", &All(all))?,
        }
        map.end()
    }
}

/// Results and the parts of other messages as blocks, in order.
struct All<'a>(&'a [Arc<Message>]);

impl Serialize for All<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut seq = to.serialize_seq(None)?;
        for message in self.0 {
            if let Some(result) = message.as_tool_result() {
                seq.serialize_element(&ToolResultBlock(result))?;
                continue;
            }

            for block in block::blocks(message.content().parts()) {
                seq.serialize_element(&block)?;
            }
        }

        seq.end()
    }
}

/// Returns the messages of a content. Each result is a message, and so is the content before,
/// between and after results.
fn messages(raw: &RawValue) -> serde_json::Result<Vec<Arc<Message>>> {
    if !raw.get().starts_with('[') {
        return Ok(vec![Arc::new(Message::human(block::content(raw)?))]);
    }

    let blocks: Vec<&RawValue> = serde_json::from_str(raw.get())?;
    let mut messages: Vec<Message> = Vec::new();
    for raw in blocks {
        match (block::parse(raw), messages.last_mut()) {
            (Parsed::Result(result), _) => messages.push(Message::Tool(*result)),
            (Parsed::Part(part), Some(Message::User(user))) => user.content.push(part),
            (Parsed::Part(part), _) => messages.push(Message::human(Content::from(part))),
            (Parsed::Cited(text, annotations), last) => {
                let parts = [Part::Text(text), Part::Annotations(annotations)];
                match last {
                    Some(Message::User(user)) => user.content.parts_mut().extend(parts),
                    _ => messages.push(Message::human(parts)),
                }
            }
        }
    }

    if messages.is_empty() {
        messages.push(Message::human(Content::new()));
    }

    Ok(messages.into_iter().map(Arc::new).collect())
}
