//! The pieces of responses: the stream events of the Messages API.
//!
//! Format: <https://docs.anthropic.com/en/docs/build-with-claude/streaming>.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::assistant::ApiMessage;
use super::envelope::Envelope;
use super::fields::{Fields, read};
use crate::usage::{Usage, UsageDetails, maybe_count};

/// A piece of a response, while it is written. Type `stream_event`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PartialEvent {
    /// The common fields of every message.
    pub envelope: Envelope,
    /// The piece.
    pub event: ApiStreamEvent,
    /// The number of earlier attempts at the response. An extension, absent when 0.
    pub attempt: u32,
    /// The time to the first token, in milliseconds.
    pub ttft_ms: Option<u64>,
}

/// A stream event of the Messages API.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ApiStreamEvent {
    /// The response begins.
    MessageStart {
        /// The response, still empty.
        message: Box<ApiMessage>,
    },
    /// A block begins.
    ContentBlockStart {
        /// The index of the block in the response.
        index: u32,
        /// The kind of the block.
        block: BlockStart,
    },
    /// A block grows.
    ContentBlockDelta {
        /// The index of the block in the response.
        index: u32,
        /// The added piece.
        delta: BlockDelta,
    },
    /// A block has ended.
    ContentBlockStop {
        /// The index of the block in the response.
        index: u32,
    },
    /// The data at the end of the response.
    MessageDelta {
        /// The reason it stopped.
        stop_reason: Option<Arc<str>>,
        /// The stop sequence that was met.
        stop_sequence: Option<Arc<str>>,
        /// The tokens so far.
        usage: Usage,
    },
    /// The response is complete.
    MessageStop,
    /// A sign that the connection is alive.
    Ping,
    /// The provider failed in the middle.
    Error {
        /// The provider's error object.
        error: Value,
    },
    /// An event unknown to this version, unchanged.
    Unknown(Value),
}

/// The kind of a block that begins.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum BlockStart {
    /// Text.
    Text,
    /// Reasoning.
    Thinking,
    /// A tool call.
    ToolUse {
        /// The call's id.
        id: Arc<str>,
        /// The tool's name.
        name: Arc<str>,
    },
    /// A block of another kind, unchanged.
    Other(Value),
}

/// The piece that is added to a block.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum BlockDelta {
    /// Text.
    Text(String),
    /// A piece of the arguments' JSON. The loop emits no pieces that arrive after the next block
    /// has begun.
    InputJson(String),
    /// Reasoning.
    Thinking(String),
    /// The signature of the reasoning.
    Signature(String),
    /// A delta of another kind, unchanged.
    Other(Value),
}

#[derive(serde::Deserialize)]
struct Wire {
    event: Box<RawValue>,
    #[serde(default)]
    attempt: u32,
    #[serde(default, deserialize_with = "maybe_count")]
    ttft_ms: Option<u64>,
}

impl PartialEvent {
    /// Creates a piece of a response's first attempt.
    pub fn new(envelope: Envelope, event: ApiStreamEvent) -> Self {
        Self {
            envelope,
            event,
            attempt: 0,
            ttft_ms: None,
        }
    }

    /// Sets the number of the attempt.
    #[must_use]
    pub(crate) fn with_attempt(mut self, attempt: u32) -> Self {
        self.attempt = attempt;
        self
    }

    pub(super) fn read(text: &str) -> serde_json::Result<Self> {
        let wire: Wire = read(text)?;
        Ok(Self {
            envelope: read(text)?,
            event: event(wire.event.get())?,
            attempt: wire.attempt,
            ttft_ms: wire.ttft_ms,
        })
    }

    pub(super) fn write<M: SerializeMap>(&self, to: &mut Fields<'_, M>) -> Result<(), M::Error> {
        to.put("type", "stream_event")?;
        to.put("event", &self.event)?;
        if self.attempt > 0 {
            to.put("attempt", &self.attempt)?;
        }
        to.maybe("ttft_ms", &self.ttft_ms)?;
        self.envelope.write(to, true)
    }
}

impl Serialize for ApiStreamEvent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Self::Unknown(event) = self {
            return event.serialize(serializer);
        }

        let no_fields = Map::new();
        let mut fields = Fields::new(serializer.serialize_map(None)?, &no_fields);
        match self {
            Self::MessageStart { message } => {
                fields.put("type", "message_start")?;
                fields.put("message", message)?;
            }
            Self::ContentBlockStart { index, block } => {
                fields.put("type", "content_block_start")?;
                fields.put("index", index)?;
                fields.put("content_block", block)?;
            }
            Self::ContentBlockDelta { index, delta } => {
                fields.put("type", "content_block_delta")?;
                fields.put("index", index)?;
                fields.put("delta", delta)?;
            }
            Self::ContentBlockStop { index } => {
                fields.put("type", "content_block_stop")?;
                fields.put("index", index)?;
            }
            Self::MessageDelta {
                stop_reason,
                stop_sequence,
                usage,
            } => {
                let delta = json!({"stop_reason": stop_reason, "stop_sequence": stop_sequence});
                fields.put("type", "message_delta")?;
                fields.put("delta", &delta)?;
                fields.put("usage", &ReportedUsage::from(usage))?;
            }
            Self::MessageStop => fields.put("type", "message_stop")?,
            // An unknown event was written above.
            Self::Ping | Self::Unknown(_) => fields.put("type", "ping")?,
            Self::Error { error } => {
                fields.put("type", "error")?;
                fields.put("error", error)?;
            }
        }

        fields.end()
    }
}

/// The usage of a `message_delta`, where a count replaces the count of `message_start`: unreported
/// counts must be absent.
#[derive(serde::Serialize)]
struct ReportedUsage {
    #[serde(skip_serializing_if = "is_zero")]
    input_tokens: u64,
    #[serde(skip_serializing_if = "is_zero")]
    cache_read_input_tokens: u64,
    #[serde(skip_serializing_if = "is_zero")]
    cache_creation_input_tokens: u64,
    output_tokens: u64,
    #[serde(flatten)]
    details: UsageDetails,
}

impl From<&Usage> for ReportedUsage {
    fn from(usage: &Usage) -> Self {
        Self {
            input_tokens: usage.input_tokens,
            cache_read_input_tokens: usage.cache_read_tokens,
            cache_creation_input_tokens: usage.cache_write_tokens,
            output_tokens: usage.output_tokens,
            details: UsageDetails::of(usage),
        }
    }
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Serialize for BlockStart {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if let Self::Other(block) = self {
            return block.serialize(to);
        }

        let mut map = to.serialize_map(None)?;
        match self {
            // A block of another kind was written above.
            Self::Text | Self::Other(_) => {
                map.serialize_entry("type", "text")?;
                map.serialize_entry("text", "")?;
            }
            Self::Thinking => {
                map.serialize_entry("type", "thinking")?;
                map.serialize_entry("thinking", "")?;
            }
            Self::ToolUse { id, name } => {
                map.serialize_entry("type", "tool_use")?;
                map.serialize_entry("id", &**id)?;
                map.serialize_entry("name", &**name)?;
                map.serialize_entry("input", &Map::new())?;
            }
        }

        map.end()
    }
}

impl Serialize for BlockDelta {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let (kind, key, text) = match self {
            Self::Text(text) => ("text_delta", "text", text),
            Self::InputJson(text) => ("input_json_delta", "partial_json", text),
            Self::Thinking(text) => ("thinking_delta", "thinking", text),
            Self::Signature(text) => ("signature_delta", "signature", text),
            Self::Other(delta) => return delta.serialize(to),
        };
        let mut map = to.serialize_map(Some(2))?;
        map.serialize_entry("type", kind)?;
        map.serialize_entry(key, text)?;
        map.end()
    }
}

/// An event with the fields of all known kinds.
#[derive(serde::Deserialize)]
struct EventWire {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    index: u32,
    message: Option<Box<ApiMessage>>,
    content_block: Option<Value>,
    delta: Option<Value>,
    usage: Option<Usage>,
    error: Option<Value>,
}

/// Reads an event; one of a kind or shape that is not known stays as it is.
fn event(text: &str) -> serde_json::Result<ApiStreamEvent> {
    let parsed_event = read::<EventWire>(text).ok().and_then(known_event);
    parsed_event.map_or_else(|| Ok(ApiStreamEvent::Unknown(read(text)?)), Ok)
}

fn known_event(wire: EventWire) -> Option<ApiStreamEvent> {
    let index = wire.index;
    Some(match &*wire.kind {
        "message_start" => ApiStreamEvent::MessageStart {
            message: wire.message?,
        },
        "content_block_start" => ApiStreamEvent::ContentBlockStart {
            index,
            block: block_start(wire.content_block?),
        },
        "content_block_delta" => ApiStreamEvent::ContentBlockDelta {
            index,
            delta: block_delta(wire.delta?),
        },
        "content_block_stop" => ApiStreamEvent::ContentBlockStop { index },
        "message_delta" => {
            let mut delta = wire.delta.filter(Value::is_object)?;
            ApiStreamEvent::MessageDelta {
                stop_reason: take(&mut delta, "stop_reason")?,
                stop_sequence: take(&mut delta, "stop_sequence")?,
                usage: wire.usage.unwrap_or_default(),
            }
        }
        "message_stop" => ApiStreamEvent::MessageStop,
        "ping" => ApiStreamEvent::Ping,
        "error" => ApiStreamEvent::Error { error: wire.error? },
        _ => return None,
    })
}

/// Returns the kind of a block. A block that begins with content stays as it is, because the known
/// kinds begin without any.
fn block_start(block: Value) -> BlockStart {
    let is_empty = |key| block.get(key).is_none_or(|text| text == "");
    match block["type"].as_str() {
        Some("text") if is_empty("text") => BlockStart::Text,
        Some("thinking") if is_empty("thinking") && is_empty("signature") => BlockStart::Thinking,
        Some("tool_use") if block.get("input").is_none_or(|input| *input == json!({})) => {
            match (block["id"].as_str(), block["name"].as_str()) {
                (Some(id), Some(name)) => BlockStart::ToolUse {
                    id: id.into(),
                    name: name.into(),
                },
                _ => BlockStart::Other(block),
            }
        }
        _ => BlockStart::Other(block),
    }
}

fn block_delta(mut delta: Value) -> BlockDelta {
    let (key, constructor): (_, fn(String) -> BlockDelta) = match delta["type"].as_str() {
        Some("text_delta") => ("text", BlockDelta::Text),
        Some("input_json_delta") => ("partial_json", BlockDelta::InputJson),
        Some("thinking_delta") => ("thinking", BlockDelta::Thinking),
        Some("signature_delta") => ("signature", BlockDelta::Signature),
        _ => return BlockDelta::Other(delta),
    };
    match delta.get_mut(key) {
        Some(Value::String(text)) => constructor(std::mem::take(text)),
        _ => BlockDelta::Other(delta),
    }
}

/// Removes a field from an object; an absent one counts as `null`.
fn take<T: DeserializeOwned>(object: &mut Value, key: &str) -> Option<T> {
    let value = object.get_mut(key).map(Value::take).unwrap_or_default();
    serde_json::from_value(value).ok()
}
