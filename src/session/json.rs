//! A session as one piece of JSON, and its beginning as a separate session.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::error::{Error, ErrorKind, Result};
use crate::message::{Message, Messages, Todo, ToolResult};
use crate::model::Compaction;
use crate::util::blocking::{LARGE_TEXT, blocking};
use crate::util::text::{line_of, truncate};

use super::agent_state::AgentState;
use super::inputs::{Inputs, drop_oldest_ids};
use super::stored::StoredSession;
use super::text_cost::values_memory_exceeds;
use super::{Files, Infos, PendingCall};

/// The number of characters of the first input that make a title.
const TITLE_CHARS: usize = 80;

/// Returns the title of a session whose first user message is `message`: its text on one line, cut
/// to [`TITLE_CHARS`]. Returns `None` if it has no text.
pub(crate) fn title_of(message: &Message) -> Option<Arc<str>> {
    title(&message.text())
}

/// Returns the title that a text makes.
pub(super) fn title(text: &str) -> Option<Arc<str>> {
    let line = line_of(text, TITLE_CHARS);
    (!line.is_empty()).then(|| line.into())
}

/// The version of the format that is written, and the highest that is read.
const VERSION: u32 = 1;

/// A session as an export, with the version of the format.
#[derive(Serialize)]
struct Export<'a> {
    v: u32,
    #[serde(flatten)]
    session: SessionJson<'a>,
}

/// A session as JSON.
#[derive(Serialize)]
struct SessionJson<'a> {
    #[serde(flatten)]
    state: &'a AgentState,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    started: &'a [Arc<str>],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    ended: &'a [Arc<Message>],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    input_ids: &'a [Arc<str>],
    /// `None` in exports: an import takes the title from its messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_text: Option<&'a str>,
}

impl<'a> SessionJson<'a> {
    /// Creates the JSON of a session with everything but its damage.
    fn of(session: &'a StoredSession) -> Self {
        Self {
            first_text: session.first_text.as_deref(),
            ..Self::exported(session)
        }
    }

    fn exported(session: &'a StoredSession) -> Self {
        Self {
            state: &session.state,
            started: &session.started,
            ended: &session.ended,
            input_ids: &session.input_ids,
            first_text: None,
        }
    }
}

/// The fields of [`SessionJson`] and of an export, read in one pass: a flattened struct would
/// buffer them, and messages keep some of their parts byte for byte.
#[derive(Deserialize)]
struct SessionFields {
    #[serde(default)]
    thread_id: Arc<str>,
    user_id: Option<Arc<str>>,
    title: Option<Arc<str>>,
    cwd: Option<Arc<str>>,
    parent: Option<Arc<str>>,
    messages: Option<Messages>,
    #[serde(default)]
    todos: Arc<Vec<Todo>>,
    #[serde(default)]
    files: Arc<Files>,
    compaction: Option<Compaction>,
    #[serde(default)]
    pending: Vec<PendingCall>,
    #[serde(default)]
    inputs: Inputs,
    #[serde(default)]
    infos: Infos,
    #[serde(default)]
    started: Vec<Arc<str>>,
    #[serde(default)]
    ended: Vec<Arc<Message>>,
    #[serde(default)]
    input_ids: Vec<Arc<str>>,
    first_text: Option<Arc<str>>,
    /// The summary of an export without a compaction.
    #[serde(default)]
    summary: String,
}

impl SessionFields {
    /// Returns the session; `None` without messages.
    fn into_session(self) -> Option<StoredSession> {
        let state = AgentState {
            thread_id: self.thread_id,
            user_id: self.user_id,
            title: self.title,
            cwd: self.cwd,
            parent: self.parent,
            messages: self.messages?,
            todos: self.todos,
            files: self.files,
            compaction: self.compaction,
            pending: self.pending,
            inputs: self.inputs,
            infos: self.infos,
            ..AgentState::default()
        };

        let mut session = StoredSession::default();
        session.state = state;
        session.state.inputs.drop_oldest();
        session.started = self.started;
        session.ended = self.ended;
        session.input_ids = self.input_ids;
        drop_oldest_ids(&mut session.input_ids);
        session.first_text = self.first_text;
        Some(session)
    }
}

impl Serialize for StoredSession {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        SessionJson::of(self).serialize(to)
    }
}

impl<'de> Deserialize<'de> for StoredSession {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        let session = SessionFields::deserialize(from)?.into_session();
        session.ok_or_else(|| de::Error::missing_field("messages"))
    }
}

/// The version of an export. It is read first, because a newer format may have other fields.
#[derive(Deserialize)]
struct Versioned {
    v: Option<u32>,
}

pub(super) fn write_export(session: &StoredSession) -> Result<String> {
    let export = Export {
        v: VERSION,
        session: SessionJson::exported(session),
    };
    Ok(serde_json::to_string(&export)?)
}

/// The default maximum memory of an import's values, as estimated from its text: twice the memory
/// of a session at the limits of a default store, because an estimate may be twice the real size.
pub(super) const MAX_IMPORT: usize = 2 * (256 * 1024 * 1024 / 3);

/// The number of characters to which an error about an import is cut: it may quote the text.
const ERROR_CHARS: usize = 500;

/// Reads a session as an export writes it, on a thread for blocking work if it is long.
pub(super) async fn read_import(json: &[u8], max_memory: usize) -> Result<StoredSession> {
    if json.len() < LARGE_TEXT {
        return parse_import(json, max_memory);
    }

    // Its text alone takes more, so it is not copied.
    if json.len() > max_memory {
        return Err(costs_too_much(max_memory));
    }

    let json = json.to_vec();
    blocking(move || parse_import(&json, max_memory)).await
}

fn costs_too_much(max_memory: usize) -> Error {
    let text = format!(
        "the JSON of this session takes more than {max_memory} bytes of memory as estimated from \
         its text; import fewer messages, or smaller ones"
    );
    Error::new(ErrorKind::InvalidMessages, text)
}

fn parse_import(json: &[u8], max_memory: usize) -> Result<StoredSession> {
    if values_memory_exceeds(json, max_memory) {
        return Err(costs_too_much(max_memory));
    }

    if json.trim_ascii_start().starts_with(b"[") {
        return Ok(StoredSession::new(AgentState {
            messages: Messages::from_json(json).map_err(shorten)?,
            ..AgentState::default()
        }));
    }

    let Versioned { v } = serde_json::from_slice(json).map_err(refuse)?;
    if let Some(version) = v.filter(|version| *version > VERSION) {
        return Err(Error::new(
            ErrorKind::VersionTooNew,
            format!(
                "this session was exported in version {version} of the format, this program reads \
                 up to {VERSION}; use a newer program"
            ),
        ));
    }

    let mut fields: SessionFields = serde_json::from_slice(json).map_err(refuse)?;
    let summary = std::mem::take(&mut fields.summary);
    let mut session = fields.into_session().ok_or_else(|| {
        Error::new(
            ErrorKind::InvalidMessages,
            "the JSON of a session needs `messages`, a list",
        )
    })?;

    let state = &mut session.state;
    session.first_text = state.messages.user_messages().find_map(title_of);
    if state.compaction.is_none() && !summary.trim().is_empty() {
        state.compaction = Some(Compaction::new(summary, 0));
    }

    Ok(session)
}

fn refuse(error: serde_json::Error) -> Error {
    let text = format!("this is not the JSON of a session: {error}");
    shorten(Error::new(ErrorKind::InvalidMessages, text).with_source(error))
}

/// Returns the error, cut if it is long. Its source quotes as much and is omitted then.
fn shorten(error: Error) -> Error {
    let text = error.text();
    match truncate(text, ERROR_CHARS) {
        Cow::Borrowed(_) => error,
        Cow::Owned(head) => Error::new(error.kind(), head),
    }
}

/// Returns the beginning of a session: its first `len` messages, and the results directly after
/// them, so that no result is separated from its call.
pub(crate) fn cut(id: &str, mut session: StoredSession, len: usize) -> Result<StoredSession> {
    let state = &mut session.state;
    let history = state.messages.as_slice();
    if len > history.len() {
        return Err(Error::new(
            ErrorKind::InvalidRequest,
            format!(
                "session {id:?} has {} messages, not {len}; cut it at one it has",
                history.len()
            ),
        ));
    }

    session.input_ids.clear();
    state.inputs = Inputs::default();
    let results = history[len..]
        .iter()
        .take_while(|message| len > 0 && message.as_tool_result().is_some());
    let len = len + results.count();
    if len == history.len() {
        return Ok(session);
    }

    let remaining_messages = &history[..len];
    let calls: HashSet<Arc<str>> = remaining_messages
        .iter()
        .flat_map(|message| message.tool_calls())
        .map(|call| call.id.clone())
        .collect();
    let has_call = |id: &str| calls.contains(id);
    state.pending.retain(|pending| has_call(&pending.call.id));
    session.started.retain(|id| has_call(id));
    let is_of_call = |result: &ToolResult| has_call(&result.tool_call_id);
    session
        .ended
        .retain(|ended| ended.as_tool_result().is_some_and(is_of_call));
    let messages: Messages = remaining_messages.iter().cloned().collect();
    state.messages = messages;
    state.infos.keep(len);
    if let Some(compaction) = &state.compaction
        && compaction.through_message > len
    {
        state.compaction = None;
    }

    Ok(session)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn title_is_the_text_on_one_line(text in "([a-zé🏔]{0,200}[ \\n\\t]{0,3}){0,6}") {
            let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
            let expected = truncate(&line, TITLE_CHARS);
            let title = title_of(&Message::human(&*text));
            prop_assert_eq!(title.as_deref().unwrap_or_default(), expected);
        }
    }
}
