//! The messages about work that may outlive its turn: background commands and subagents.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::fields::words;
use crate::usage::count;

words! {
    /// The state of a task.
    TaskState {
        /// The task has not begun.
        Pending = "pending",
        /// The task is in progress.
        Running = "running",
        /// The task is complete.
        Completed = "completed",
        /// The task failed.
        Failed = "failed",
        /// The task is being stopped. Its [`TaskNotification`] has the state `Stopped`.
        Killed = "killed",
        /// The task ended early, for example because it was stopped or its run ended.
        Stopped = "stopped",
        /// The task has pending calls, which wait for approval.
        Paused = "paused",
    }
}

/// The start of a task. Subtype `task_started`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TaskStarted {
    /// The task's id.
    pub task_id: Arc<str>,
    /// The description of the work.
    #[serde(default)]
    pub description: String,
    /// The call that began it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_use_id: Option<Arc<str>>,
    /// The subagent that does the work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subagent_type: Option<Arc<str>>,
    /// The kind of work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_type: Option<Arc<str>>,
    /// The subagent's prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
}

impl TaskStarted {
    /// Creates the report that the task `task_id` began.
    pub fn new(task_id: impl Into<Arc<str>>, description: impl Into<String>) -> Self {
        Self {
            task_id: task_id.into(),
            description: description.into(),
            tool_use_id: None,
            subagent_type: None,
            task_type: None,
            prompt: None,
        }
    }
}

/// The usage of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct TaskUsage {
    /// Tokens, all kinds together.
    #[serde(deserialize_with = "count")]
    pub total_tokens: u64,
    /// Tool calls.
    #[serde(deserialize_with = "count")]
    pub tool_uses: u64,
    /// Time, in milliseconds.
    #[serde(deserialize_with = "count")]
    pub duration_ms: u64,
}

impl TaskUsage {
    /// Creates the usage of a task. `duration_ms` is in milliseconds.
    pub fn new(total_tokens: u64, tool_uses: u64, duration_ms: u64) -> Self {
        Self {
            total_tokens,
            tool_uses,
            duration_ms,
        }
    }
}

/// A report on the progress of a task. Subtype `task_progress`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TaskProgress {
    /// The task's id.
    pub task_id: Arc<str>,
    /// The description of the work.
    #[serde(default)]
    pub description: String,
    /// Its usage so far.
    #[serde(default)]
    pub usage: TaskUsage,
    /// The call that began it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_use_id: Option<Arc<str>>,
    /// The subagent that does the work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subagent_type: Option<Arc<str>>,
    /// The tool it used last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_tool_name: Option<Arc<str>>,
    /// The progress, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}

impl TaskProgress {
    /// Creates a report on the progress of the task `task_id`.
    pub fn new(
        task_id: impl Into<Arc<str>>,
        description: impl Into<String>,
        usage: TaskUsage,
    ) -> Self {
        Self {
            task_id: task_id.into(),
            description: description.into(),
            usage,
            tool_use_id: None,
            subagent_type: None,
            last_tool_name: None,
            summary: None,
        }
    }
}

/// A change of a task. Subtype `task_updated`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TaskUpdated {
    /// The task's id.
    pub task_id: Arc<str>,
    /// The changes.
    pub patch: TaskPatch,
}

impl TaskUpdated {
    /// Creates the report that the task `task_id` changed.
    pub fn new(task_id: impl Into<Arc<str>>, patch: TaskPatch) -> Self {
        Self {
            task_id: task_id.into(),
            patch,
        }
    }
}

/// The changes of a task. A field is `None` if its value has not changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TaskPatch {
    /// The state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<TaskState>,
    /// The description of the work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// True if the run continues without waiting for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_backgrounded: Option<bool>,
}

/// The end of a task. Subtype `task_notification`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TaskNotification {
    /// The task's id.
    pub task_id: Arc<str>,
    /// The final state.
    pub status: TaskState,
    /// The file with its output; empty when there is none.
    #[serde(default)]
    pub output_file: String,
    /// The outcome.
    #[serde(default)]
    pub summary: String,
    /// The call that began it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_use_id: Option<Arc<str>>,
    /// Its usage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<TaskUsage>,
}

impl TaskNotification {
    /// Creates the report that the task `task_id` ended.
    pub(crate) fn new(
        task_id: impl Into<Arc<str>>,
        status: TaskState,
        summary: impl Into<String>,
    ) -> Self {
        Self {
            task_id: task_id.into(),
            status,
            output_file: String::new(),
            summary: summary.into(),
            tool_use_id: None,
            usage: None,
        }
    }
}
