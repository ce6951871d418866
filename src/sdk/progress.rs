//! Tool calls in progress, and calls that wait for approval.

use std::sync::Arc;

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::envelope::Envelope;
use super::fields::{Fields, read};
use super::progress_data::ProgressData;

/// A tool call that starts, continues, or ends. Type `tool_progress`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ToolProgress {
    /// The common fields of every message.
    pub envelope: Envelope,
    /// The call's id.
    pub tool_use_id: Arc<str>,
    /// The tool's name.
    pub tool_name: Arc<str>,
    /// The time the call has run, in seconds.
    pub elapsed_time_seconds: f64,
    /// The payload. An extension: `{"state":"started","args":..}` at the start,
    /// `{"state":"done","is_error":..,"output":..}` at the end, the tool's own data before that. If
    /// its tool waits for an answer, `{"state":"waiting"}` is sent instead of the end.
    pub data: Option<ProgressData>,
    /// True if it only reports that the call still runs.
    pub heartbeat: bool,
    /// The task that does the work.
    pub task_id: Option<Arc<str>>,
}

#[derive(serde::Deserialize)]
struct ProgressWire {
    tool_use_id: Arc<str>,
    tool_name: Arc<str>,
    #[serde(default)]
    elapsed_time_seconds: f64,
    data: Option<Value>,
    heartbeat: Option<bool>,
    task_id: Option<Arc<str>>,
}

impl ToolProgress {
    /// Creates the progress of the call `tool_use_id`, without a payload.
    pub fn new(
        envelope: Envelope,
        tool_use_id: impl Into<Arc<str>>,
        tool_name: impl Into<Arc<str>>,
        elapsed_time_seconds: f64,
    ) -> Self {
        Self {
            envelope,
            tool_use_id: tool_use_id.into(),
            tool_name: tool_name.into(),
            elapsed_time_seconds,
            data: None,
            heartbeat: false,
            task_id: None,
        }
    }

    /// Sets the payload.
    #[must_use]
    pub fn with_data(mut self, data: impl Into<ProgressData>) -> Self {
        self.data = Some(data.into());
        self
    }

    /// Returns true for the first message of a call, sent when its tool starts. The payload has the
    /// arguments.
    pub fn is_started(&self) -> bool {
        self.is_state("started") && self.field("args").is_some()
    }

    /// Returns true for the last message of a call with a result, sent when the result is known.
    /// The payload has the output.
    pub fn is_finished(&self) -> bool {
        // A tool may send its own `state` field.
        self.is_state("done") && self.field("is_error").is_some() && self.field("output").is_some()
    }

    /// Returns true for the last message of a call that waits for an answer, sent instead of the
    /// end. A tool's own progress of the same form is not distinguished.
    pub fn is_waiting(&self) -> bool {
        let fields = self.data.as_ref().and_then(|data| data.as_object());
        self.is_state("waiting") && fields.is_some_and(|fields| fields.len() == 1)
    }

    fn is_state(&self, state: &str) -> bool {
        self.field("state").and_then(Value::as_str) == Some(state)
    }

    fn field(&self, name: &str) -> Option<&Value> {
        self.data.as_ref()?.get(name)
    }

    pub(super) fn read(text: &str) -> serde_json::Result<Self> {
        let wire: ProgressWire = read(text)?;
        Ok(Self {
            envelope: read(text)?,
            tool_use_id: wire.tool_use_id,
            tool_name: wire.tool_name,
            elapsed_time_seconds: wire.elapsed_time_seconds,
            data: wire.data.map(ProgressData::from),
            heartbeat: wire.heartbeat.unwrap_or_default(),
            task_id: wire.task_id,
        })
    }

    pub(super) fn write<M: SerializeMap>(&self, to: &mut Fields<'_, M>) -> Result<(), M::Error> {
        to.put("type", "tool_progress")?;
        to.put("tool_use_id", &*self.tool_use_id)?;
        to.put("tool_name", &*self.tool_name)?;
        to.put("elapsed_time_seconds", &self.elapsed_time_seconds)?;
        to.maybe("data", &self.data)?;
        to.flag("heartbeat", self.heartbeat)?;
        to.maybe("task_id", &self.task_id)?;
        self.envelope.write(to, true)
    }
}

/// A call that waits for approval. Type `permission_request`, an extension.
///
/// Plain data; [`Responder::respond`](crate::Responder::respond) answers it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PermissionRequest {
    /// The common fields of every message.
    pub envelope: Envelope,
    /// The request's id, which the answer names.
    pub id: Arc<str>,
    /// The call's id.
    pub tool_use_id: Arc<str>,
    /// The tool's name.
    pub tool_name: Arc<str>,
    /// The arguments that would be used.
    pub input: Arc<Value>,
    /// The question, for people.
    pub question: String,
    /// True if the answer is expected to be a text: [`Answer::Reply`](crate::Answer::Reply).
    pub expects_text: bool,
    /// The options to pick from, if there are some: the answer is then an
    /// [`Answer::Reply`](crate::Answer::Reply) with the positions of the picked options, or with
    /// another text.
    pub choices: Option<Box<Choices>>,
}

/// The options of a question.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Choices {
    /// One or two words above the question.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// The options.
    pub options: Vec<ChoiceLabel>,
    /// True if several may be picked.
    pub multiple: bool,
}

impl Choices {
    /// Creates options of which one may be picked.
    pub fn new(options: impl IntoIterator<Item = ChoiceLabel>) -> Self {
        Self {
            options: options.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Sets the words above the question.
    #[must_use]
    pub fn with_header(mut self, header: impl Into<String>) -> Self {
        self.header = Some(header.into());
        self
    }

    /// Sets whether several options may be picked.
    #[must_use]
    pub fn multiple(mut self, multiple: bool) -> Self {
        self.multiple = multiple;
        self
    }
}

/// An option of a question.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ChoiceLabel {
    /// The text of the option.
    pub label: String,
    /// The meaning; empty if the label is enough.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
}

impl ChoiceLabel {
    /// Creates an option and its meaning.
    pub fn new(label: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            label: label.into(),
            description: description.into(),
        }
    }
}

#[derive(serde::Deserialize)]
struct RequestWire {
    id: Arc<str>,
    tool_use_id: Arc<str>,
    tool_name: Arc<str>,
    #[serde(default)]
    input: Arc<Value>,
    #[serde(default)]
    question: String,
    #[serde(default)]
    expects_text: Option<bool>,
    #[serde(default)]
    choices: Option<Box<Choices>>,
}

impl PermissionRequest {
    /// Creates a request about the call `tool_use_id`, to answer under `id`.
    pub fn new(
        envelope: Envelope,
        id: impl Into<Arc<str>>,
        tool_use_id: impl Into<Arc<str>>,
        tool_name: impl Into<Arc<str>>,
        input: impl Into<Arc<Value>>,
        question: impl Into<String>,
    ) -> Self {
        Self {
            envelope,
            id: id.into(),
            tool_use_id: tool_use_id.into(),
            tool_name: tool_name.into(),
            input: input.into(),
            question: question.into(),
            expects_text: false,
            choices: None,
        }
    }

    pub(super) fn read(text: &str) -> serde_json::Result<Self> {
        let wire: RequestWire = read(text)?;
        Ok(Self {
            envelope: read(text)?,
            id: wire.id,
            tool_use_id: wire.tool_use_id,
            tool_name: wire.tool_name,
            input: wire.input,
            question: wire.question,
            expects_text: wire.expects_text.unwrap_or_default(),
            choices: wire.choices,
        })
    }

    pub(super) fn write<M: SerializeMap>(&self, to: &mut Fields<'_, M>) -> Result<(), M::Error> {
        to.put("type", "permission_request")?;
        to.put("id", &*self.id)?;
        to.put("tool_use_id", &*self.tool_use_id)?;
        to.put("tool_name", &*self.tool_name)?;
        to.put("input", &*self.input)?;
        to.put("question", &self.question)?;
        to.flag("expects_text", self.expects_text)?;
        if let Some(choices) = &self.choices {
            to.put("choices", choices)?;
        }
        self.envelope.write(to, true)
    }
}

impl AsRef<str> for PermissionRequest {
    fn as_ref(&self) -> &str {
        &self.id
    }
}

/// The request in an [`SdkMessage`](super::SdkMessage) is boxed. A program that matches the message
/// passes it to [`Responder::respond`](crate::Responder::respond) as it is.
impl AsRef<str> for Box<PermissionRequest> {
    fn as_ref(&self) -> &str {
        &self.id
    }
}
