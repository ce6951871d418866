//! The common fields of every message.

use std::sync::Arc;

use serde::de::{Deserialize, Deserializer};
use serde::ser::SerializeMap;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::fields::Fields;

/// The common fields of every message.
///
/// The default has no id, no session and the number 0, like a client's message without these
/// fields.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
#[non_exhaustive]
pub struct Envelope {
    /// The message's own id. Nil when a client sent the message without one.
    #[serde(default, deserialize_with = "lenient_uuid")]
    pub uuid: Uuid,
    /// The id of its session. Empty when a client did not set it.
    #[serde(default, deserialize_with = "lenient_text")]
    pub session_id: Arc<str>,
    /// The message's number in the run, from 0. An extension of the format: other emitters do not
    /// set it.
    #[serde(default, deserialize_with = "lenient_number")]
    pub seq: u64,
    /// The tool call it happened in, for messages of a subagent.
    #[serde(default)]
    pub parent_tool_use_id: Option<Arc<str>>,
    /// Fields this crate does not interpret, written back as they were read. Unknown fields inside
    /// a known field are stored under the name of the known field.
    #[serde(skip)]
    pub extra: Map<String, Value>,
}

impl Envelope {
    /// The keys that are the envelope's on every message.
    pub(super) const KEYS: [&str; 6] = [
        "type",
        "subtype",
        "uuid",
        "session_id",
        "seq",
        "parent_tool_use_id",
    ];

    /// Creates an envelope with a new random id.
    pub fn new(session_id: impl Into<Arc<str>>, seq: u64) -> Self {
        // Ids are names, not secrets, so the fast generator is sufficient: a system call for each
        // streamed delta would cost more than the delta.
        let random_bytes = fastrand::u128(..).to_be_bytes();
        Self {
            uuid: uuid::Builder::from_random_bytes(random_bytes).into_uuid(),
            session_id: session_id.into(),
            seq,
            parent_tool_use_id: None,
            extra: Map::new(),
        }
    }

    /// Writes the fields. `parent` is true if the message declares `parent_tool_use_id`, as `null`
    /// when there is none.
    pub(super) fn write<M: SerializeMap>(
        &self,
        to: &mut Fields<'_, M>,
        parent: bool,
    ) -> Result<(), M::Error> {
        if parent || self.parent_tool_use_id.is_some() {
            to.put("parent_tool_use_id", &self.parent_tool_use_id)?;
        }
        if !self.uuid.is_nil() {
            to.put("uuid", &self.uuid)?;
        }
        if !self.session_id.is_empty() {
            to.put("session_id", &*self.session_id)?;
        }
        to.put("seq", &self.seq)
    }
}

/// An id that is no UUID reads as nil; its text stays among the unknown fields.
fn lenient_uuid<'de, D: Deserializer<'de>>(from: D) -> Result<Uuid, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    Ok(text
        .and_then(|text| Uuid::parse_str(&text).ok())
        .unwrap_or_default())
}

fn lenient_text<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<str>, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

fn lenient_number<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}
