//! The handle of a task.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use crate::error::{Error, ErrorKind, Result};
use crate::message::Message;
use crate::sdk::{SystemKind, TaskPatch, TaskState, TaskUpdated, TaskUsage};

use super::context::WeakSink;
use super::entry::{MAX_MESSAGES, Refusal, TaskEntry, TaskOutcome};
use super::spec::TaskSpec;

/// A handle of a background task. It does not keep the task or its run alive. Clones share the
/// task.
#[derive(Clone)]
pub struct TaskHandle {
    entry: Arc<TaskEntry>,
    sink: Option<WeakSink>,
}

impl TaskHandle {
    pub(super) fn new(entry: Arc<TaskEntry>, sink: Option<WeakSink>) -> Self {
        Self { entry, sink }
    }

    /// Returns the task's id.
    pub fn id(&self) -> &Arc<str> {
        &self.entry.id
    }

    /// Returns the description of the task.
    pub fn spec(&self) -> &TaskSpec {
        &self.entry.spec
    }

    /// Returns the usage of the task so far.
    pub fn usage(&self) -> TaskUsage {
        self.entry.usage()
    }

    /// Stops the task: its future is dropped, and it ends with [`TaskOutcome::Stopped`]. Returns
    /// `false` if it has ended or was stopped before.
    pub fn stop(&self) -> bool {
        if !self.entry.stop() {
            return false;
        }

        let patch = TaskPatch {
            status: Some(TaskState::Killed),
            ..TaskPatch::default()
        };
        if let Some(sink) = self.sink.as_ref().and_then(WeakSink::upgrade) {
            let update = TaskUpdated::new(self.entry.id.clone(), patch);
            sink.emit(SystemKind::TaskUpdated(Box::new(update)));
        }
        true
    }

    /// Returns the outcome, once the task has ended. A long text is cut to its first 65,536
    /// characters.
    pub fn output(&self) -> Option<TaskOutcome> {
        self.entry.outcome()
    }

    /// Waits for the task to end and returns its outcome, or `None` if it has not ended within
    /// `limit`. The task advances only while its run is polled.
    ///
    /// # Cancel safety
    ///
    /// The future may be dropped; the task is not affected.
    pub async fn wait(&self, limit: Duration) -> Option<TaskOutcome> {
        let end = async {
            loop {
                let mut notification = pin!(self.entry.end_notify.notified());
                notification.as_mut().enable();
                if let Some(outcome) = self.entry.outcome() {
                    return outcome;
                }
                notification.await;
            }
        };
        timeout(limit, end).await.ok()
    }

    /// Sends a message to the task, which reads it with
    /// [`TaskContext::next_message`](super::TaskContext::next_message). If the task ends with
    /// unread messages, the model reads their number after the task's result.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Conflict`] if 16 messages wait already, or if the task has ended or was
    /// stopped.
    pub fn send(&self, message: impl Into<Message>) -> Result<()> {
        let id = &self.entry.id;
        self.entry.add_message(message.into()).map_err(|refusal| {
            let reason = match refusal {
                Refusal::Ended => format!("task {id} has ended"),
                Refusal::Stopped => format!("task {id} was stopped"),
                Refusal::Full => {
                    format!("the mailbox of task {id} is full ({MAX_MESSAGES} updates)")
                }
            };
            Error::new(ErrorKind::Conflict, reason)
        })
    }
}

impl fmt::Debug for TaskHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskHandle")
            .field("id", &self.entry.id)
            .field("has_ended", &self.entry.has_ended())
            .finish_non_exhaustive()
    }
}
