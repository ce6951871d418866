//! The changes to a stored session, and their JSON.

use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::message::{Message, Todo};
use crate::model::Compaction;
use crate::session::{AgentState, InputsChanged, MessageInfo, PendingCall, Record};

/// One step from a stored session to the next.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// A message was added, perhaps as an input the caller had named.
    Message(MessageAdded),
    /// The metadata of the last message.
    Info(Arc<MessageInfo>),
    /// The history was cut to its first messages.
    Keep(usize),
    /// A call began.
    Started(Arc<str>),
    /// A call ended while others of its turn were in progress; its message follows later.
    Ended(Arc<Message>),
    /// The calls that had started or ended are settled.
    Settled,
    /// An input is known whose place in the history is not.
    Input(Arc<str>),
    /// The inputs that are known, and where they stand. Those appended before are among them.
    Inputs(InputsChanged),
    /// The session's user, its title, and where it began.
    About(About),
    /// The whole task list.
    Todos(Arc<Vec<Todo>>),
    /// One file was written, or removed.
    File(FileChanged),
    /// Another summary, or none any more.
    Compaction(Option<Compaction>),
    /// All calls that wait for approval.
    Pending(Vec<PendingCall>),
    /// All damage before this record has been reported and put aside.
    Checked,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct MessageAdded {
    pub(super) message: Arc<Message>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) input_id: Option<Arc<str>>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct About {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) user_id: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) title: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cwd: Option<Arc<str>>,
}

impl About {
    pub(super) fn of(state: &AgentState) -> Self {
        Self {
            user_id: state.user_id.clone(),
            title: state.title.clone(),
            cwd: state.cwd.clone(),
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct FileChanged {
    pub(super) path: Arc<str>,
    /// `None` when it was removed.
    pub(super) content: Option<Arc<str>>,
}

impl Change {
    /// Converts a record that the loop appends to a change; `about` is the session's current
    /// description.
    pub(super) fn of(record: Record, about: &mut About) -> Self {
        match record {
            Record::Message { message, input_id } => {
                Self::Message(MessageAdded { message, input_id })
            }
            Record::MessageInfo { info } => Self::Info(info),
            Record::ToolStarted { call_id } => Self::Started(call_id),
            Record::ToolEnded { result } => Self::Ended(result),
            Record::Began { user_id, cwd } => {
                about.user_id = user_id.or(about.user_id.take());
                about.cwd = cwd.or(about.cwd.take());
                Self::About(about.clone())
            }
            Record::Titled { title } => {
                about.title = title;
                Self::About(about.clone())
            }
            Record::Todos { todos } => Self::Todos(todos),
            Record::File { path, content } => Self::File(FileChanged { path, content }),
        }
    }

    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Message(_) => "message",
            Self::Info(_) => "info",
            Self::Keep(_) => "keep",
            Self::Started(_) => "started",
            Self::Ended(_) => "ended",
            Self::Settled => "settled",
            Self::Input(_) => "input",
            Self::Inputs(_) => "inputs",
            Self::About(_) => "about",
            Self::Todos(_) => "todos",
            Self::File(_) => "file",
            Self::Compaction(_) => "compaction",
            Self::Pending(_) => "pending",
            Self::Checked => "checked",
        }
    }

    /// Reads the data of a kind; `None` for one of a later version of this crate.
    pub(super) fn read(kind: &str, data: &RawValue) -> serde_json::Result<Option<Self>> {
        let data = data.get();
        Ok(Some(match kind {
            "message" => Self::Message(serde_json::from_str(data)?),
            "info" => Self::Info(serde_json::from_str(data)?),
            "keep" => Self::Keep(serde_json::from_str(data)?),
            "started" => Self::Started(serde_json::from_str(data)?),
            "ended" => Self::Ended(serde_json::from_str(data)?),
            "settled" => Self::Settled,
            "input" => Self::Input(serde_json::from_str(data)?),
            "inputs" => Self::Inputs(serde_json::from_str(data)?),
            "about" => Self::About(serde_json::from_str(data)?),
            "todos" => Self::Todos(serde_json::from_str(data)?),
            "file" => Self::File(serde_json::from_str(data)?),
            "compaction" => Self::Compaction(serde_json::from_str(data)?),
            "pending" => Self::Pending(serde_json::from_str(data)?),
            "checked" => Self::Checked,
            _ => return Ok(None),
        }))
    }
}

/// Serialises the data alone; the kind is stored next to it.
impl Serialize for Change {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Message(added) => added.serialize(serializer),
            Self::Info(info) => info.serialize(serializer),
            Self::Keep(len) => len.serialize(serializer),
            Self::Started(id) | Self::Input(id) => id.serialize(serializer),
            Self::Ended(result) => result.serialize(serializer),
            Self::Settled | Self::Checked => serializer.serialize_unit(),
            Self::Inputs(changed) => changed.serialize(serializer),
            Self::About(about) => about.serialize(serializer),
            Self::Todos(todos) => todos.serialize(serializer),
            Self::File(file) => file.serialize(serializer),
            Self::Compaction(compaction) => compaction.serialize(serializer),
            Self::Pending(pending) => pending.serialize(serializer),
        }
    }
}
