//! The events around the conversation.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::ser::{Error as _, SerializeMap};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::envelope::Envelope;
use super::fields::{Fields, read, words};
use super::notice::{
    ApiRetry, CompactBoundary, Init, Level, Notification, PermissionDenied, Status,
};
use super::task::{TaskNotification, TaskProgress, TaskStarted, TaskUpdated};
use crate::message::Todo;

words! {
    /// The state of a session.
    SessionState {
        /// The session waits for input.
        Idle = "idle",
        /// The session is active.
        Running = "running",
        /// The session waits for a person's decision.
        RequiresAction = "requires_action",
    }
}

/// An event around the conversation. Type `system`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SystemEvent {
    /// The common fields of every message.
    pub envelope: Envelope,
    /// The event.
    pub kind: SystemKind,
}

/// The kinds of [`SystemEvent`], which the wire calls subtypes.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum SystemKind {
    /// The start of a run: its first message. Other emitters send one for every turn; it does not
    /// begin a new session.
    Init(Box<Init>),
    /// The activity of the run.
    Status(Box<Status>),
    /// The earlier messages were replaced by a summary.
    CompactBoundary(Box<CompactBoundary>),
    /// A request failed and will be sent again.
    ApiRetry(Box<ApiRetry>),
    /// A call was not allowed.
    PermissionDenied(Box<PermissionDenied>),
    /// A piece of information.
    Informational {
        /// The text.
        content: String,
        /// Its importance.
        level: Level,
        /// The call it is about.
        tool_use_id: Option<Arc<str>>,
    },
    /// A notification that is shown at once.
    Notification(Box<Notification>),
    /// The session became active or idle.
    SessionStateChanged {
        /// The new state.
        state: SessionState,
    },
    /// The start of work that may outlive its turn.
    TaskStarted(Box<TaskStarted>),
    /// The progress of such work.
    TaskProgress(Box<TaskProgress>),
    /// A change of such work.
    TaskUpdated(Box<TaskUpdated>),
    /// The end of such work.
    TaskNotification(Box<TaskNotification>),
    /// A tool or a hook changed the task list or the files. An extension.
    StateChanged {
        /// The whole task list, when it changed.
        todos: Option<Vec<Todo>>,
        /// The paths of the files that were written, changed or removed, if there are any.
        files: Option<Vec<String>>,
    },
    /// The response starts over: its emitted messages are superseded. An extension.
    StreamRestart {
        /// The number of earlier attempts.
        attempt: u32,
        /// The superseded messages.
        supersedes: Vec<Uuid>,
    },
    /// A subtype unknown to this version.
    Unknown {
        /// The subtype.
        subtype: Arc<str>,
        /// Its fields, without the fields of the envelope.
        fields: Map<String, Value>,
    },
}

impl SystemKind {
    /// Returns the subtype on the wire.
    pub(crate) fn subtype(&self) -> &str {
        match self {
            Self::Init(_) => "init",
            Self::Status(_) => "status",
            Self::CompactBoundary(_) => "compact_boundary",
            Self::ApiRetry(_) => "api_retry",
            Self::PermissionDenied(_) => "permission_denied",
            Self::Informational { .. } => "informational",
            Self::Notification(_) => "notification",
            Self::SessionStateChanged { .. } => "session_state_changed",
            Self::TaskStarted(_) => "task_started",
            Self::TaskProgress(_) => "task_progress",
            Self::TaskUpdated(_) => "task_updated",
            Self::TaskNotification(_) => "task_notification",
            Self::StateChanged { .. } => "state_changed",
            Self::StreamRestart { .. } => "stream_restart",
            Self::Unknown { subtype, .. } => subtype,
        }
    }

    /// Returns the fields on the wire, without the fields of the envelope.
    fn fields(&self) -> serde_json::Result<Value> {
        use serde_json::to_value;
        match self {
            Self::Init(one) => to_value(one),
            Self::Status(one) => to_value(one),
            Self::CompactBoundary(one) => Ok(json!({ "compact_metadata": one })),
            Self::ApiRetry(one) => to_value(one),
            Self::PermissionDenied(one) => to_value(one),
            Self::Informational {
                content,
                level,
                tool_use_id,
            } => Ok(match tool_use_id {
                Some(id) => json!({"content": content, "level": level, "tool_use_id": id}),
                None => json!({"content": content, "level": level}),
            }),
            Self::Notification(one) => to_value(one),
            Self::SessionStateChanged { state } => Ok(json!({ "state": state })),
            Self::TaskStarted(one) => to_value(one),
            Self::TaskProgress(one) => to_value(one),
            Self::TaskUpdated(one) => to_value(one),
            Self::TaskNotification(one) => to_value(one),
            Self::StateChanged { todos, files } => {
                let mut fields = Map::new();
                if let Some(todos) = todos {
                    fields.insert("todos".into(), to_value(todos)?);
                }

                if let Some(files) = files {
                    fields.insert("files".into(), to_value(files)?);
                }

                Ok(fields.into())
            }
            Self::StreamRestart {
                attempt,
                supersedes,
            } => Ok(json!({"attempt": attempt, "supersedes": supersedes})),
            Self::Unknown { fields, .. } => Ok(fields.clone().into()),
        }
    }
}

impl SystemEvent {
    /// Creates an event of this kind.
    pub fn new(envelope: Envelope, kind: SystemKind) -> Self {
        Self { envelope, kind }
    }

    pub(super) fn write<M: SerializeMap>(&self, to: &mut Fields<'_, M>) -> Result<(), M::Error> {
        to.put("type", "system")?;
        to.put("subtype", self.kind.subtype())?;
        if let Value::Object(fields) = self.kind.fields().map_err(M::Error::custom)? {
            for (key, value) in fields {
                to.put(key, &value)?;
            }
        }
        self.envelope.write(to, false)
    }
}

#[derive(serde::Deserialize)]
struct Head {
    subtype: Arc<str>,
}

pub(super) fn read_event(text: &str) -> serde_json::Result<SystemEvent> {
    let Head { subtype } = read(text)?;
    Ok(SystemEvent {
        envelope: read(text)?,
        kind: kind(subtype, text)?,
    })
}

fn kind(subtype: Arc<str>, text: &str) -> serde_json::Result<SystemKind> {
    fn boxed<T: DeserializeOwned>(text: &str) -> serde_json::Result<Box<T>> {
        Ok(Box::new(read(text)?))
    }
    Ok(match &*subtype {
        "init" => SystemKind::Init(boxed(text)?),
        "status" => SystemKind::Status(boxed(text)?),
        "compact_boundary" => {
            #[derive(serde::Deserialize)]
            struct Wire {
                compact_metadata: Box<CompactBoundary>,
            }
            SystemKind::CompactBoundary(read::<Wire>(text)?.compact_metadata)
        }
        "api_retry" => SystemKind::ApiRetry(boxed(text)?),
        "permission_denied" => SystemKind::PermissionDenied(boxed(text)?),
        "informational" => {
            #[derive(serde::Deserialize)]
            struct Wire {
                content: String,
                level: Level,
                tool_use_id: Option<Arc<str>>,
            }
            let wire: Wire = read(text)?;
            SystemKind::Informational {
                content: wire.content,
                level: wire.level,
                tool_use_id: wire.tool_use_id,
            }
        }
        "notification" => SystemKind::Notification(boxed(text)?),
        "session_state_changed" => {
            #[derive(serde::Deserialize)]
            struct Wire {
                state: SessionState,
            }
            let Wire { state } = read(text)?;
            SystemKind::SessionStateChanged { state }
        }
        "task_started" => SystemKind::TaskStarted(boxed(text)?),
        "task_progress" => SystemKind::TaskProgress(boxed(text)?),
        "task_updated" => SystemKind::TaskUpdated(boxed(text)?),
        "task_notification" => SystemKind::TaskNotification(boxed(text)?),
        "state_changed" => {
            #[derive(serde::Deserialize)]
            struct Wire {
                todos: Option<Vec<Todo>>,
                files: Option<Vec<String>>,
            }
            let Wire { todos, files } = read(text)?;
            SystemKind::StateChanged { todos, files }
        }
        "stream_restart" => {
            #[derive(serde::Deserialize)]
            struct Wire {
                #[serde(default)]
                attempt: u32,
                #[serde(default)]
                supersedes: Vec<Uuid>,
            }
            let wire: Wire = read(text)?;
            SystemKind::StreamRestart {
                attempt: wire.attempt,
                supersedes: wire.supersedes,
            }
        }
        _ => {
            let mut fields: Map<String, Value> = read(text)?;
            fields.retain(|key, _| !Envelope::KEYS.contains(&key.as_str()));
            SystemKind::Unknown { subtype, fields }
        }
    })
}
