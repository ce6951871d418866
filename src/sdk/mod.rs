//! The messages of a run's stream, in the format of the Claude Agent SDK.
//!
//! A run is a stream of [`SdkMessage`]s: `system/init` first, one `result` last, in between the
//! model's output, the tool calls, and the events around them. Every message has an id, a session
//! and a number ([`Envelope`]).
//!
//! # JSON
//!
//! One message is one flat object on one line, `type` first. Names and nesting follow the declared
//! types of `@anthropic-ai/claude-agent-sdk` 0.3.330. Additions of later versions survive a round
//! trip: an unknown type is an [`UnknownMessage`], an unknown subtype a [`SystemKind::Unknown`], an
//! unknown field stays in [`Envelope::extra`].
//!
//! Extensions, which other readers skip: the type `permission_request`, the subtypes
//! `state_changed` and `stream_restart`, and the fields `seq`, `attempt` (of `stream_event`) and
//! `data` (of `tool_progress`).
//!
//! ```
//! use agentcore::SdkMessage;
//! use agentcore::sdk::{ApiStreamEvent, BlockDelta, Envelope, PartialEvent};
//!
//! let delta = ApiStreamEvent::ContentBlockDelta {
//!     index: 0,
//!     delta: BlockDelta::Text("Hi".to_owned()),
//! };
//! let message = SdkMessage::from(PartialEvent::new(Envelope::new("th_1", 7), delta));
//! assert_eq!(message.text_delta(), Some("Hi"));
//!
//! let line = serde_json::to_string(&message)?;
//! assert!(line.starts_with(r#"{"type":"stream_event","event":{"type":"content_block_delta""#));
//! assert_eq!(serde_json::from_str::<SdkMessage>(&line)?, message);
//! # Ok::<(), serde_json::Error>(())
//! ```

mod assistant;
pub(crate) mod block;
pub(crate) mod citations;
mod codec;
mod envelope;
mod fields;
mod message;
mod notice;
mod partial;
mod progress;
mod progress_data;
mod result;
mod stream_event;
mod subagent_events;
mod system;
mod task;
mod user;

pub use assistant::{ApiMessage, AssistantErrorKind, AssistantEvent};
pub use envelope::Envelope;
pub use message::{SdkMessage, UnknownMessage};
pub use notice::{
    Activity, ApiRetry, CompactBoundary, CompactTrigger, Init, Level, McpServerStatus,
    Notification, PermissionDenied, PreservedMessages, Priority, Status,
};
pub use partial::{ApiStreamEvent, BlockDelta, BlockStart, PartialEvent};
pub use progress::{ChoiceLabel, Choices, PermissionRequest, ToolProgress};
pub use progress_data::ProgressData;
pub use result::{ModelUsage, PermissionDenial, ResultMessage, ResultSubtype};
pub use stream_event::{StreamEvent, StreamEvents};
pub use system::{SessionState, SystemEvent, SystemKind};
pub use task::{
    TaskNotification, TaskPatch, TaskProgress, TaskStarted, TaskState, TaskUpdated, TaskUsage,
};
pub use user::UserEvent;
