//! The open tasks of child runs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::sdk::{Envelope, SdkMessage, SystemEvent, SystemKind, TaskNotification, TaskState};
use crate::util::sync::lock;

/// The tasks of child runs whose start was reported to a reader, and whose end was not. A dropped
/// run cannot report their ends, so its parent run does.
#[derive(Default)]
pub(crate) struct OpenTasks(Mutex<BTreeMap<TaskKey, OpenTask>>);

/// The session and the id of a task.
type TaskKey = (Arc<str>, Arc<str>);

struct OpenTask {
    /// The `parent_tool_use_id` of the message about its start.
    parent_tool_use_id: Option<Arc<str>>,
    tool_use_id: Option<Arc<str>>,
}

impl OpenTasks {
    /// Records the start or the end of a task, if the message is about one.
    pub(crate) fn record(&self, message: &SdkMessage) {
        let SdkMessage::System(event) = message else {
            return;
        };
        let envelope = &event.envelope;
        let key = |id: &Arc<str>| (envelope.session_id.clone(), id.clone());
        match &event.kind {
            SystemKind::TaskStarted(start) => {
                let task = OpenTask {
                    parent_tool_use_id: envelope.parent_tool_use_id.clone(),
                    tool_use_id: start.tool_use_id.clone(),
                };
                lock(&self.0).insert(key(&start.task_id), task);
            }
            SystemKind::TaskNotification(end) => {
                lock(&self.0).remove(&key(&end.task_id));
            }
            _ => {}
        }
    }

    /// Removes the open tasks, and returns a `task_notification` for each: it was stopped.
    pub(crate) fn take_stopped(&self) -> Vec<SdkMessage> {
        let tasks = std::mem::take(&mut *lock(&self.0));
        let messages = tasks.into_iter().map(|((session_id, id), task)| {
            let text = "The task was stopped: its parent run ended first.";
            let mut end = TaskNotification::new(id, TaskState::Stopped, text);
            end.tool_use_id = task.tool_use_id;
            let mut envelope = Envelope::new(session_id, 0);
            envelope.parent_tool_use_id = task.parent_tool_use_id;
            SystemEvent::new(envelope, SystemKind::TaskNotification(Box::new(end))).into()
        });
        messages.collect()
    }
}
