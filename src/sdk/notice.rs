//! The system messages about runs, requests and calls.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::assistant::AssistantErrorKind;
use super::fields::words;
use crate::usage::{count, maybe_count};

/// The start of a run: its model, tools and settings. Subtype `init`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Init {
    /// The model that will be asked.
    pub model: Arc<str>,
    /// The working directory.
    pub cwd: String,
    /// The names of the tools.
    pub tools: Vec<Arc<str>>,
    /// The MCP servers.
    pub mcp_servers: Vec<McpServerStatus>,
    /// The permission mode: `default`, `plan`, ...
    #[serde(rename = "permissionMode")]
    pub permission_mode: Arc<str>,
    /// The version of the program that emits the stream.
    #[serde(rename = "claude_code_version")]
    pub version: Arc<str>,
    /// The source of the key; `none` when it is not reported.
    #[serde(rename = "apiKeySource")]
    pub api_key_source: Arc<str>,
    /// The names of the slash commands.
    pub slash_commands: Vec<Arc<str>>,
    /// The output style.
    pub output_style: Arc<str>,
    /// The names of the skills.
    pub skills: Vec<Arc<str>>,
    /// The names of the subagents.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<Arc<str>>,
    /// The plugins.
    pub plugins: Vec<Value>,
}

impl Init {
    /// Creates the start of a run of `model` with these tools in `cwd`, emitted by this crate.
    pub fn new<T: Into<Arc<str>>>(
        model: impl Into<Arc<str>>,
        cwd: impl Into<String>,
        tools: impl IntoIterator<Item = T>,
    ) -> Self {
        Self {
            model: model.into(),
            cwd: cwd.into(),
            tools: tools.into_iter().map(Into::into).collect(),
            permission_mode: "default".into(),
            version: concat!("agentcore ", env!("CARGO_PKG_VERSION")).into(),
            api_key_source: "none".into(),
            output_style: "default".into(),
            ..Self::default()
        }
    }
}

/// An MCP server and whether it is connected.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct McpServerStatus {
    /// The server's name.
    pub name: Arc<str>,
    /// `connected`, `failed`, `pending`, ...
    pub status: Arc<str>,
}

impl McpServerStatus {
    /// Creates the status of the server `name`.
    pub fn new(name: impl Into<Arc<str>>, status: impl Into<Arc<str>>) -> Self {
        Self {
            name: name.into(),
            status: status.into(),
        }
    }
}

words! {
    /// The activity of a run.
    Activity {
        /// The run shortens the history.
        Compacting = "compacting",
        /// The run waits for the model.
        Requesting = "requesting",
    }
}

/// The activity of a run. Subtype `status`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Status {
    /// The activity; `None` for nothing special.
    pub status: Option<Activity>,
    /// The permission mode, when it changed.
    #[serde(rename = "permissionMode", skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<Arc<str>>,
    /// The outcome of the compaction: `success` or `failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compact_result: Option<Arc<str>>,
    /// The reason the compaction failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compact_error: Option<String>,
}

impl Status {
    /// Creates the status of a run with this activity, or with none.
    pub fn new(status: impl Into<Option<Activity>>) -> Self {
        Self {
            status: status.into(),
            ..Self::default()
        }
    }
}

words! {
    /// The trigger of a compaction.
    CompactTrigger {
        /// The caller.
        Manual = "manual",
        /// The length of the history.
        Auto = "auto",
    }
}

/// The earlier messages were replaced by a summary. Subtype `compact_boundary`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CompactBoundary {
    /// The trigger.
    pub trigger: CompactTrigger,
    /// The number of tokens of the history before.
    #[serde(default, deserialize_with = "count")]
    pub pre_tokens: u64,
    /// The number of tokens after it.
    #[serde(
        default,
        deserialize_with = "maybe_count",
        skip_serializing_if = "Option::is_none"
    )]
    pub post_tokens: Option<u64>,
    /// The duration in milliseconds.
    #[serde(
        default,
        deserialize_with = "maybe_count",
        skip_serializing_if = "Option::is_none"
    )]
    pub duration_ms: Option<u64>,
    /// The messages that were kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preserved_messages: Option<PreservedMessages>,
}

impl CompactBoundary {
    /// Creates a compaction of a history of `pre_tokens` tokens.
    pub(crate) fn new(trigger: CompactTrigger, pre_tokens: u64) -> Self {
        Self {
            trigger,
            pre_tokens,
            post_tokens: None,
            duration_ms: None,
            preserved_messages: None,
        }
    }
}

/// The messages a compaction kept: the first follows `anchor_uuid`, each other its predecessor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PreservedMessages {
    /// The message they now follow.
    pub anchor_uuid: Uuid,
    /// The kept messages, in order.
    pub uuids: Vec<Uuid>,
}

impl PreservedMessages {
    /// Creates the list of the messages `uuids`, which now follow `anchor_uuid`.
    pub(crate) fn new(anchor_uuid: Uuid, uuids: Vec<Uuid>) -> Self {
        Self { anchor_uuid, uuids }
    }
}

/// A request failed and will be sent again. Subtype `api_retry`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ApiRetry {
    /// The number of this retry, from 1.
    pub attempt: u32,
    /// The maximum number of retries.
    pub max_retries: u32,
    /// The wait before the retry, in milliseconds.
    #[serde(deserialize_with = "count")]
    pub retry_delay_ms: u64,
    /// The HTTP status; `None` when there was no reply.
    pub error_status: Option<u16>,
    /// The error.
    pub error: AssistantErrorKind,
}

impl ApiRetry {
    /// Creates the report of retry `attempt` of at most `max_retries`, after a wait of
    /// `retry_delay_ms` milliseconds.
    pub(crate) fn new(
        attempt: u32,
        max_retries: u32,
        retry_delay_ms: u64,
        error_status: Option<u16>,
        error: AssistantErrorKind,
    ) -> Self {
        Self {
            attempt,
            max_retries,
            retry_delay_ms,
            error_status,
            error,
        }
    }
}

/// A call was not allowed. Subtype `permission_denied`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PermissionDenied {
    /// The tool's name.
    pub tool_name: Arc<str>,
    /// The call's id.
    pub tool_use_id: Arc<str>,
    /// The message for the model.
    #[serde(default)]
    pub message: String,
    /// The source of the decision: `rule`, `mode`, `hook`, ...
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision_reason_type: Option<Arc<str>>,
    /// The reason in more detail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision_reason: Option<String>,
}

impl PermissionDenied {
    /// Creates the report that the call `tool_use_id` was not allowed.
    pub(crate) fn new(
        tool_name: impl Into<Arc<str>>,
        tool_use_id: impl Into<Arc<str>>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            tool_name: tool_name.into(),
            tool_use_id: tool_use_id.into(),
            message: message.into(),
            decision_reason_type: None,
            decision_reason: None,
        }
    }
}

words! {
    /// The importance of a piece of information.
    Level {
        /// Useful information.
        Info = "info",
        /// An important piece of information.
        Notice = "notice",
        /// A suggestion for the user.
        Suggestion = "suggestion",
        /// A problem, despite which the run continues.
        Warning = "warning",
    }
}

words! {
    /// The urgency of a notification.
    Priority {
        /// Low priority.
        Low = "low",
        /// Medium priority.
        Medium = "medium",
        /// High priority.
        High = "high",
        /// The highest priority.
        Immediate = "immediate",
    }
}

/// A notification that is shown at once. Subtype `notification`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Notification {
    /// The subject. A later notification with the same key replaces this one.
    pub key: Arc<str>,
    /// The text.
    pub text: String,
    /// The urgency.
    pub priority: Priority,
    /// The time to show it, in milliseconds.
    #[serde(
        default,
        deserialize_with = "maybe_count",
        skip_serializing_if = "Option::is_none"
    )]
    pub timeout_ms: Option<u64>,
}

impl Notification {
    /// Creates a notification.
    pub fn new(key: impl Into<Arc<str>>, text: impl Into<String>, priority: Priority) -> Self {
        Self {
            key: key.into(),
            text: text.into(),
            priority,
            timeout_ms: None,
        }
    }
}
