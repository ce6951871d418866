//! The agent's task list.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// One task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Todo {
    /// The task's id.
    pub id: Arc<str>,
    /// The description of the task.
    pub title: String,
    /// The progress of the task.
    pub status: TodoStatus,
}

impl Todo {
    /// Creates a pending task.
    pub fn new(id: impl Into<Arc<str>>, title: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            title: title.into(),
            status: TodoStatus::Pending,
        }
    }
}

/// The progress of a task: `pending`, `in_progress` or `done` (`completed` is read too).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TodoStatus {
    /// The task has not begun.
    #[default]
    Pending,
    /// The task is in progress.
    InProgress,
    /// The task is finished.
    #[serde(alias = "completed")]
    Done,
}

impl fmt::Display for TodoStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Done => "done",
        })
    }
}
