//! The description of a session for lists, which the last record of a write contains.

use std::fmt;
use std::sync::Arc;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::util::text::truncate;

/// The maximum size of a text, in bytes.
const MAX_TEXT: usize = 4096;

/// The description of a session for lists.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct LogSummary {
    pub(super) messages: usize,
    /// The number of pending calls.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) pending: usize,
    pub(super) created: u64,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_title"
    )]
    pub(super) title: Option<Arc<str>>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_text"
    )]
    pub(super) user_id: Option<Arc<str>>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_text"
    )]
    pub(super) cwd: Option<Arc<str>>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_text"
    )]
    pub(super) parent: Option<Arc<str>>,
    /// The position of the newest snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) snapshot: Option<SnapshotPosition>,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// The position of a snapshot's line in the log, in bytes. Stored as a pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u64, u64)", into = "(u64, u64)")]
pub(super) struct SnapshotPosition {
    pub(super) offset: u64,
    pub(super) len: u64,
}

impl From<(u64, u64)> for SnapshotPosition {
    fn from((offset, len): (u64, u64)) -> Self {
        Self { offset, len }
    }
}

impl From<SnapshotPosition> for (u64, u64) {
    fn from(position: SnapshotPosition) -> Self {
        (position.offset, position.len)
    }
}

/// Reads a text; a text that is too long for a list is cut.
fn read_title<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Arc<str>>, D::Error> {
    from.deserialize_option(Text(|text| match text.len() {
        ..=MAX_TEXT => Some(text.into()),
        _ => Some(truncate(text, MAX_TEXT / 4).into()),
    }))
}

/// Reads a text, unless it is too long for a list.
fn read_text<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Arc<str>>, D::Error> {
    from.deserialize_option(Text(|text| {
        (text.len() <= MAX_TEXT).then(|| Arc::from(text))
    }))
}

/// Reads a text of any length through a function, without a copy of the whole.
struct Text(fn(&str) -> Option<Arc<str>>);

impl<'de> Visitor<'de> for Text {
    type Value = Option<Arc<str>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_str(self)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok((self.0)(text))
    }
}
