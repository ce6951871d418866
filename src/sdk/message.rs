//! One message of the stream.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::value::RawValue;
use uuid::Uuid;

use super::assistant::AssistantEvent;
use super::envelope::Envelope;
use super::partial::{ApiStreamEvent, BlockDelta, PartialEvent};
use super::progress::{PermissionRequest, ToolProgress};
use super::result::ResultMessage;
use super::system::SystemEvent;
use super::user::UserEvent;

/// One message of a run's stream.
///
/// It serializes as one flat JSON object, `type` first, in the message format of the Claude Agent
/// SDK (declared shapes of `@anthropic-ai/claude-agent-sdk` 0.3.330), and reads such messages from
/// JSON text, unknown types and fields included.
///
/// ```
/// use agentcore::SdkMessage;
///
/// let line = r#"{"type":"result","subtype":"success","is_error":false,"num_turns":1,
///     "duration_ms":12,"duration_api_ms":10,"result":"4","stop_reason":"end_turn",
///     "total_cost_usd":0.001,"usage":{"input_tokens":9,"output_tokens":1},"modelUsage":{},
///     "permission_denials":[],"uuid":"7f8e6a3c-4b1f-4b8e-9d7a-0a1b2c3d4e5f","session_id":"s"}"#;
/// let message: SdkMessage = serde_json::from_str(line)?;
/// let result = message.as_result().expect("a result");
/// assert_eq!(result.result.as_deref(), Some("4"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum SdkMessage {
    /// An event around the conversation; `system/init` is the first message of a run.
    System(SystemEvent),
    /// A response of the model, complete.
    Assistant(Box<AssistantEvent>),
    /// A message to the model: input, or the results of a turn's tool calls.
    User(Box<UserEvent>),
    /// The end of a run; the last message.
    Result(Box<ResultMessage>),
    /// A piece of a response, while it is written.
    Partial(PartialEvent),
    /// A tool call that starts, continues, or ends.
    ToolProgress(Box<ToolProgress>),
    /// A call waits for a person's decision. An extension of the format.
    PermissionRequest(Box<PermissionRequest>),
    /// A message of a type unknown to this version.
    Unknown(Box<UnknownMessage>),
}

/// A message of an unknown type, with all its fields.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct UnknownMessage {
    /// The common fields that could be read. Not written: `raw` is.
    pub envelope: Envelope,
    /// The `type`.
    pub kind: Arc<str>,
    /// The whole message, which is written unchanged.
    pub raw: Arc<RawValue>,
}

impl PartialEq for UnknownMessage {
    fn eq(&self, other: &Self) -> bool {
        self.raw.get() == other.raw.get()
    }
}

impl SdkMessage {
    /// Returns the common fields.
    pub fn envelope(&self) -> &Envelope {
        match self {
            Self::System(event) => &event.envelope,
            Self::Assistant(event) => &event.envelope,
            Self::User(event) => &event.envelope,
            Self::Result(message) => &message.envelope,
            Self::Partial(event) => &event.envelope,
            Self::ToolProgress(progress) => &progress.envelope,
            Self::PermissionRequest(request) => &request.envelope,
            Self::Unknown(message) => &message.envelope,
        }
    }

    /// Returns the common fields, to change.
    pub(crate) fn envelope_mut(&mut self) -> &mut Envelope {
        match self {
            Self::System(event) => &mut event.envelope,
            Self::Assistant(event) => &mut event.envelope,
            Self::User(event) => &mut event.envelope,
            Self::Result(message) => &mut message.envelope,
            Self::Partial(event) => &mut event.envelope,
            Self::ToolProgress(progress) => &mut progress.envelope,
            Self::PermissionRequest(request) => &mut request.envelope,
            Self::Unknown(message) => &mut message.envelope,
        }
    }

    /// Returns the message's own id.
    pub fn uuid(&self) -> Uuid {
        self.envelope().uuid
    }

    /// Returns the id of its session.
    pub fn session_id(&self) -> &str {
        &self.envelope().session_id
    }

    /// Returns the number of the message in its run.
    pub fn seq(&self) -> u64 {
        self.envelope().seq
    }

    /// Returns the id of the tool call that runs the subagent; `None` for messages of a run
    /// that no tool call started.
    pub fn parent_tool_use_id(&self) -> Option<&str> {
        self.envelope().parent_tool_use_id.as_deref()
    }

    /// Returns the text of a [`Partial`](Self::Partial) message that is a piece of text.
    pub fn text_delta(&self) -> Option<&str> {
        match self {
            Self::Partial(PartialEvent {
                event:
                    ApiStreamEvent::ContentBlockDelta {
                        delta: BlockDelta::Text(text),
                        ..
                    },
                ..
            }) => Some(text),
            _ => None,
        }
    }

    /// Returns the text of a complete response of the model; `None` for a response without text or
    /// with whitespace alone, such as a response that only calls tools.
    pub fn text(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Assistant(event) => Some(event.text()).filter(|text| !text.trim().is_empty()),
            _ => None,
        }
    }

    /// Returns the result, when this is the end of the run.
    pub fn as_result(&self) -> Option<&ResultMessage> {
        match self {
            Self::Result(result) => Some(result),
            _ => None,
        }
    }

    /// Returns `true` if this is the end of the run.
    pub fn is_result(&self) -> bool {
        matches!(self, Self::Result(_))
    }
}

macro_rules! from_boxed {
    ($($variant:ident($event:ident)),*) => {$(
        impl From<$event> for SdkMessage {
            fn from(event: $event) -> Self {
                Self::$variant(Box::new(event))
            }
        }
    )*};
}
from_boxed!(
    Assistant(AssistantEvent),
    User(UserEvent),
    Result(ResultMessage),
    ToolProgress(ToolProgress),
    PermissionRequest(PermissionRequest)
);

impl From<SystemEvent> for SdkMessage {
    fn from(event: SystemEvent) -> Self {
        Self::System(event)
    }
}

impl From<PartialEvent> for SdkMessage {
    fn from(event: PartialEvent) -> Self {
        Self::Partial(event)
    }
}
