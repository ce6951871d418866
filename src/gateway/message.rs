//! The messages between channels and the gateway.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::{Error, ErrorKind, Result};
use crate::message::Part;
use crate::util::hash::fnv1a;
use crate::util::text::{floor_char_boundary, quoted};
use crate::util::time::now_us;

use super::channels::SYSTEM;

/// The maximum length of an id, in bytes. Buses keep ids after their messages are gone.
const MAX_ID: usize = 1_024;
/// The maximum length of the name of a channel, a chat or a sender, in bytes.
const MAX_NAME: usize = 1_024;
/// The maximum length of `CHANNEL:CHAT_ID`, in bytes.
const MAX_ORIGIN: usize = 2 * MAX_NAME + 1;

/// A message that a person wrote in a channel.
///
/// In JSON, empty fields are omitted. All fields except `channel` and `chat_id` are optional.
///
/// ```
/// use agentcore::gateway::InboundMessage;
///
/// let message = InboundMessage::new("telegram", "123", "u1", "hi").with_id("tg:77");
/// assert_eq!(
///     serde_json::to_string(&message)?,
///     r#"{"id":"tg:77","channel":"telegram","chat_id":"123","sender_id":"u1","content":"hi"}"#,
/// );
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct InboundMessage {
    /// The id, the same each time the message is published. An empty one becomes a UUID of version
    /// 7 when the message is published, or else when a gateway receives it. `NatsBus` makes it of
    /// the message's place in its stream, so that it is the same when the message is delivered
    /// again.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub id: Arc<str>,
    /// The channel, such as `telegram`: at most 1,024 bytes, without a colon.
    pub channel: Arc<str>,
    /// The chat in the channel.
    pub chat_id: Arc<str>,
    /// The person who wrote it.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub sender_id: Arc<str>,
    /// The text, which the copies of a message share.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub content: Arc<str>,
    /// The id of the session that the message belongs to. An empty one becomes `CHANNEL:CHAT_ID`
    /// when the message is published, or else when a gateway receives it.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub session_key: Arc<str>,
    /// Images and documents: [`Part::Image`] and [`Part::Document`]. They become parts of the
    /// user's message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub media: Vec<Part>,
    /// The time at which it was published, in microseconds since the Unix epoch. Set when the
    /// message is published, unless the adapter has set the time at which the person wrote it. A
    /// message without one answers no question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published_at_us: Option<u64>,
    /// Data of the channel. The gateway reads it only in messages of the channel `system`, which it
    /// publishes itself.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

impl InboundMessage {
    /// Creates a message without an id, media or metadata, for the session of its chat.
    pub fn new(
        channel: impl Into<Arc<str>>,
        chat_id: impl Into<Arc<str>>,
        sender_id: impl Into<Arc<str>>,
        content: impl Into<Arc<str>>,
    ) -> Self {
        Self {
            channel: channel.into(),
            chat_id: chat_id.into(),
            sender_id: sender_id.into(),
            content: content.into(),
            ..Self::default()
        }
    }

    /// Sets the id, of at most 1,024 bytes. Use the id that the channel gave to the message, so
    /// that a message that the channel delivers twice is answered once.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<Arc<str>>) -> Self {
        self.id = id.into();
        self
    }

    /// Sets the id of the session, of at most 2,049 bytes.
    #[must_use]
    pub fn with_session_key(mut self, key: impl Into<Arc<str>>) -> Self {
        self.session_key = key.into();
        self
    }

    /// Adds an image or a document.
    #[must_use]
    pub fn with_media(mut self, part: Part) -> Self {
        self.media.push(part);
        self
    }

    /// Adds data of the channel.
    #[must_use]
    pub fn with_metadata(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.metadata.insert(key.into(), value.into());
        self
    }

    /// Sets the id, the session and the time if they are missing. Each bus calls this when a
    /// message is published.
    #[must_use]
    pub fn completed(mut self) -> Self {
        self.fill_id();
        self.published_at_us.get_or_insert_with(now_us);
        self.fill_session_key();
        self
    }

    /// Sets a new id if the message has none.
    pub(super) fn fill_id(&mut self) {
        fill_id(&mut self.id);
    }

    /// Sets the session of the chat if the message names none.
    pub(super) fn fill_session_key(&mut self) {
        if self.session_key.is_empty() {
            self.session_key = format!("{}:{}", self.channel, self.chat_id).into();
        }
    }

    /// Checks the id and the names.
    pub(super) fn check(&self) -> Result<()> {
        // The chat of a message about background work is `CHANNEL:CHAT_ID`.
        let is_system = *self.channel == *SYSTEM;
        let max_chat = if is_system { MAX_ORIGIN } else { MAX_NAME };
        check_id(&self.id)?;
        check_channel(&self.channel)?;
        check_name("chat", &self.chat_id, max_chat)?;
        check_name("sender", &self.sender_id, MAX_NAME)?;
        check_name("session", &self.session_key, MAX_ORIGIN)
    }
}

/// A message for a chat of a channel.
///
/// ```
/// use agentcore::gateway::OutboundMessage;
///
/// let message = OutboundMessage::new("telegram", "123", "hello").with_id("tg:77:reply");
/// assert_eq!(
///     serde_json::to_string(&message)?,
///     r#"{"id":"tg:77:reply","channel":"telegram","chat_id":"123","content":"hello"}"#,
/// );
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OutboundMessage {
    /// The id, the same each time the message is published. An empty one becomes a UUID of version
    /// 7 when the message is published.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub id: Arc<str>,
    /// The channel that sends it.
    pub channel: Arc<str>,
    /// The chat in the channel.
    pub chat_id: Arc<str>,
    /// The text, which the copies of a message share.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub content: Arc<str>,
    /// Data for the channel.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

impl OutboundMessage {
    /// Creates a message without an id or metadata.
    pub fn new(
        channel: impl Into<Arc<str>>,
        chat_id: impl Into<Arc<str>>,
        content: impl Into<Arc<str>>,
    ) -> Self {
        Self {
            channel: channel.into(),
            chat_id: chat_id.into(),
            content: content.into(),
            ..Self::default()
        }
    }

    /// Sets the id, of at most 1,024 bytes.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<Arc<str>>) -> Self {
        self.id = id.into();
        self
    }

    /// Sets the id `INPUT:SUFFIX`. Leaves the id to the bus if the input has none.
    #[must_use]
    pub(super) fn with_id_of_input(self, input_id: &str, suffix: &str) -> Self {
        if input_id.is_empty() {
            return self;
        }
        self.with_derived_id(format!("{input_id}:{suffix}"))
    }

    /// Sets an id that was made from other ids. An id that is too long is cut and ends in its hash.
    #[must_use]
    pub(super) fn with_derived_id(self, mut id: String) -> Self {
        if id.len() > MAX_ID {
            let end = format!("~{:016x}", fnv1a([id.as_bytes()]));
            id.truncate(floor_char_boundary(&id, MAX_ID - end.len()));
            id.push_str(&end);
        }
        self.with_id(id)
    }

    /// Adds data for the channel.
    #[must_use]
    pub fn with_metadata(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.metadata.insert(key.into(), value.into());
        self
    }

    /// Sets the id if it is empty. Each bus calls this when a message is published.
    #[must_use]
    pub fn completed(mut self) -> Self {
        fill_id(&mut self.id);
        self
    }

    /// Checks the id and the names.
    pub(super) fn check(&self) -> Result<()> {
        check_id(&self.id)?;
        check_channel(&self.channel)?;
        check_name("chat", &self.chat_id, MAX_NAME)
    }
}

fn check_id(id: &str) -> Result<()> {
    let len = id.len();
    if len <= MAX_ID {
        return Ok(());
    }
    let text = format!("the id of a message has {len} bytes; use at most {MAX_ID}");
    Err(Error::new(ErrorKind::InvalidRequest, text))
}

/// Checks the name of a channel, which has no colon because `CHANNEL:CHAT_ID` is split at one.
pub(super) fn check_channel(name: &str) -> Result<()> {
    check_name("channel", name, MAX_NAME)?;
    if !name.contains(':') {
        return Ok(());
    }
    let name = quoted(name);
    let text = format!("the name of channel {name} has a colon; use a name without one");
    Err(Error::new(ErrorKind::InvalidRequest, text))
}

fn check_name(part: &str, name: &str, max: usize) -> Result<()> {
    let len = name.len();
    if len <= max {
        return Ok(());
    }
    let text = format!("the name of a message's {part} has {len} bytes; use at most {max}");
    Err(Error::new(ErrorKind::InvalidRequest, text))
}

fn fill_id(id: &mut Arc<str>) {
    if id.is_empty() {
        *id = Uuid::now_v7().to_string().into();
    }
}
