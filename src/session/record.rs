//! The changes of a stored session, and their JSON.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::de::{self, DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde::ser::SerializeStruct as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::message::{Message, Todo};
use crate::model::Compaction;

use super::agent_state::{AgentState, PendingCall};
use super::inputs::InputsChange;
use super::message_info::MessageInfo;

/// A change of a stored session, which [`StoredSession::apply`](super::StoredSession::apply)
/// applies.
///
/// JSON: `{"kind": .., "data": ..}`, which a store may save unchanged.
///
/// ```
/// use agentcore::Message;
/// use agentcore::session::Record;
///
/// let record = Record::Message { message: Message::human("hello").into(), input_id: None };
/// let json = serde_json::to_string(&record)?;
/// assert_eq!(json, r#"{"kind":"message","data":{"message":{"role":"user","content":"hello"}}}"#);
/// assert_eq!(serde_json::from_str::<Record>(&json)?, record);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Record {
    /// Adds a message to the history. Kind `message`.
    Message {
        /// The message.
        message: Arc<Message>,
        /// The caller's id of an input, by which a repetition of the same input is recognized.
        input_id: Option<Arc<str>>,
    },
    /// Sets the metadata of the last message, a response. Kind `info`.
    MessageInfo {
        /// The metadata.
        info: Arc<MessageInfo>,
    },
    /// Cuts the history to its first messages. Kind `keep`. If the history is empty already, a cut
    /// to 0 messages removes the title that was taken from the first input.
    Truncated {
        /// The number of messages that stay.
        messages: usize,
    },
    /// A call of a tool that is not read-only is about to run. Kind `started`.
    ToolStarted {
        /// The call's id.
        call_id: Arc<str>,
    },
    /// One of several calls ended while other calls are in progress. Its message is added when all
    /// calls have ended, and replaces this record. Kind `ended`.
    ToolEnded {
        /// The result, a [`Message::Tool`].
        result: Arc<Message>,
    },
    /// Removes the recorded starts and results of calls, which are not needed any more. Kind
    /// `settled`.
    ToolsSettled,
    /// The id of an input whose position in the history is not known. Kind `input`.
    Input {
        /// The caller's id.
        id: Arc<str>,
    },
    /// Changes the list of known inputs and their positions. It includes the inputs that were added
    /// with messages, so [`input_ids`](super::StoredSession::input_ids) are cleared. Kind `inputs`.
    Inputs {
        /// The difference from the inputs before.
        change: InputsChange,
    },
    /// The session's user, title, working directory and parent, all four. Kind `about`.
    About {
        /// The id of the session's user.
        user_id: Option<Arc<str>>,
        /// The title in lists; `None` if lists show the beginning of the user's first input.
        title: Option<Arc<str>>,
        /// The working directory of the agent that began it.
        cwd: Option<Arc<str>>,
        /// The session whose run began this session, if this is the session of a subagent.
        parent: Option<Arc<str>>,
    },
    /// Replaces the task list. Kind `todos`.
    Todos {
        /// The whole task list.
        todos: Arc<Vec<Todo>>,
    },
    /// Writes or removes a file of the state. Kind `file`.
    File {
        /// The path.
        path: Arc<str>,
        /// The content; `None` removes the file.
        content: Option<Arc<str>>,
    },
    /// Replaces the summary of the history's beginning. Kind `compaction`.
    Compaction {
        /// The summary, if there is one.
        compaction: Option<Compaction>,
    },
    /// Replaces the pending calls. Kind `pending`.
    Pending {
        /// All pending calls.
        calls: Vec<PendingCall>,
    },
    /// Removes calls from the pending ones. Kind `answered`.
    Answered {
        /// The ids of the calls.
        ids: Vec<Arc<str>>,
    },
    /// A record of a later version of this crate. Applying it changes nothing.
    Unknown,
}

/// The data of [`Record::Message`].
#[derive(Serialize, Deserialize)]
struct Added<'a> {
    message: Cow<'a, Arc<Message>>,
    #[serde(default, skip_serializing_if = "is_none")]
    input_id: Cow<'a, Option<Arc<str>>>,
}

/// The data of [`Record::About`].
#[derive(Serialize, Deserialize)]
struct About<'a> {
    #[serde(default, skip_serializing_if = "is_none")]
    user_id: Cow<'a, Option<Arc<str>>>,
    #[serde(default, skip_serializing_if = "is_none")]
    title: Cow<'a, Option<Arc<str>>>,
    #[serde(default, skip_serializing_if = "is_none")]
    cwd: Cow<'a, Option<Arc<str>>>,
    #[serde(default, skip_serializing_if = "is_none")]
    parent: Cow<'a, Option<Arc<str>>>,
}

/// The data of [`Record::File`].
#[derive(Serialize, Deserialize)]
struct Written<'a> {
    path: Cow<'a, Arc<str>>,
    content: Cow<'a, Option<Arc<str>>>,
}

fn is_none(value: &Option<Arc<str>>) -> bool {
    value.is_none()
}

impl Record {
    /// Creates the record that describes this state's session.
    pub(crate) fn about(state: &AgentState) -> Self {
        Self::About {
            user_id: state.user_id.clone(),
            title: state.title.clone(),
            cwd: state.cwd.clone(),
            parent: state.parent.clone(),
        }
    }

    /// Returns the kind in the JSON.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Message { .. } => "message",
            Self::MessageInfo { .. } => "info",
            Self::Truncated { .. } => "keep",
            Self::ToolStarted { .. } => "started",
            Self::ToolEnded { .. } => "ended",
            Self::ToolsSettled => "settled",
            Self::Input { .. } => "input",
            Self::Inputs { .. } => "inputs",
            Self::About { .. } => "about",
            Self::Todos { .. } => "todos",
            Self::File { .. } => "file",
            Self::Compaction { .. } => "compaction",
            Self::Pending { .. } => "pending",
            Self::Answered { .. } => "answered",
            Self::Unknown => "unknown",
        }
    }
}

/// The data of a record, without its kind.
pub(super) struct Data<'a>(pub(super) &'a Record);

impl Serialize for Data<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Record::Message { message, input_id } => Added {
                message: Cow::Borrowed(message),
                input_id: Cow::Borrowed(input_id),
            }
            .serialize(to),
            Record::MessageInfo { info } => info.serialize(to),
            Record::Truncated { messages } => messages.serialize(to),
            Record::ToolStarted { call_id: id } | Record::Input { id } => id.serialize(to),
            Record::ToolEnded { result } => result.serialize(to),
            Record::ToolsSettled | Record::Unknown => to.serialize_unit(),
            Record::Inputs { change } => change.serialize(to),
            Record::About {
                user_id,
                title,
                cwd,
                parent,
            } => About {
                user_id: Cow::Borrowed(user_id),
                title: Cow::Borrowed(title),
                cwd: Cow::Borrowed(cwd),
                parent: Cow::Borrowed(parent),
            }
            .serialize(to),
            Record::Todos { todos } => todos.serialize(to),
            Record::File { path, content } => Written {
                path: Cow::Borrowed(path),
                content: Cow::Borrowed(content),
            }
            .serialize(to),
            Record::Compaction { compaction } => compaction.serialize(to),
            Record::Pending { calls } => calls.serialize(to),
            Record::Answered { ids } => ids.serialize(to),
        }
    }
}

impl Serialize for Record {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut record = serializer.serialize_struct("Record", 2)?;
        record.serialize_field("kind", self.kind())?;
        record.serialize_field("data", &Data(self))?;
        record.end()
    }
}

/// Reads the data of a record of this kind.
#[derive(Clone, Copy)]
pub(super) struct OfKind<'a>(pub(super) &'a str);

impl<'de> DeserializeSeed<'de> for OfKind<'_> {
    type Value = Record;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Record, D::Error> {
        Ok(match self.0 {
            "message" => {
                let Added { message, input_id } = Added::deserialize(from)?;
                Record::Message {
                    message: message.into_owned(),
                    input_id: input_id.into_owned(),
                }
            }
            "info" => Record::MessageInfo {
                info: Arc::deserialize(from)?,
            },
            "keep" => Record::Truncated {
                messages: usize::deserialize(from)?,
            },
            "started" => Record::ToolStarted {
                call_id: Arc::deserialize(from)?,
            },
            "ended" => Record::ToolEnded {
                result: Arc::deserialize(from)?,
            },
            "settled" => {
                IgnoredAny::deserialize(from)?;
                Record::ToolsSettled
            }
            "input" => Record::Input {
                id: Arc::deserialize(from)?,
            },
            "inputs" => Record::Inputs {
                change: InputsChange::deserialize(from)?,
            },
            "about" => {
                let metadata = About::deserialize(from)?;
                Record::About {
                    user_id: metadata.user_id.into_owned(),
                    title: metadata.title.into_owned(),
                    cwd: metadata.cwd.into_owned(),
                    parent: metadata.parent.into_owned(),
                }
            }
            "todos" => Record::Todos {
                todos: Arc::deserialize(from)?,
            },
            "file" => {
                let Written { path, content } = Written::deserialize(from)?;
                Record::File {
                    path: path.into_owned(),
                    content: content.into_owned(),
                }
            }
            "compaction" => Record::Compaction {
                compaction: Option::deserialize(from)?,
            },
            "pending" => Record::Pending {
                calls: Vec::deserialize(from)?,
            },
            "answered" => Record::Answered {
                ids: Vec::deserialize(from)?,
            },
            _ => {
                IgnoredAny::deserialize(from)?;
                Record::Unknown
            }
        })
    }
}

impl<'de> Deserialize<'de> for Record {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields)
    }
}

/// Reads kind and data in any order: databases reorder the keys of JSON. Derived code would buffer
/// the data as values, from which blocks of providers cannot be read byte for byte.
struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = Record;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a record with `kind` and `data`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Record, A::Error> {
        let mut kind: Option<String> = None;
        let mut data: Option<Box<RawValue>> = None;
        let mut record = None;
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            match (&*key, &kind) {
                ("kind", _) => kind = Some(map.next_value()?),
                ("data", Some(kind)) => record = Some(map.next_value_seed(OfKind(kind))?),
                ("data", None) => data = Some(map.next_value()?),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }

        match (kind, record, data) {
            (None, ..) => Err(de::Error::missing_field("kind")),
            (Some(_), Some(record), _) => Ok(record),
            (Some(kind), None, Some(data)) => {
                let mut data = serde_json::Deserializer::from_str(data.get());
                OfKind(&kind)
                    .deserialize(&mut data)
                    .map_err(de::Error::custom)
            }
            (Some(_), None, None) => Err(de::Error::missing_field("data")),
        }
    }
}
