//! The reports of background tasks that have ended.

use crate::sdk::{SdkMessage, SystemEvent, SystemKind, TaskNotification, TaskState};
use crate::tool::{EndedTask, TaskOutcome};

use super::shared::RunShared;

impl EndedTask {
    /// Emits the task's end to the reader, and returns the text for the model.
    pub(crate) fn announce(self, shared: &RunShared) -> String {
        let Self {
            entry,
            outcome,
            ended_with_run,
            ..
        } = self;
        for message in entry.open_tasks().take_stopped() {
            shared.push(message);
        }

        let id = entry.id();
        let label = &entry.spec().label;
        let (status, text) = match outcome {
            TaskOutcome::Completed(text) => (TaskState::Completed, text),
            TaskOutcome::Failed(text) => (TaskState::Failed, text),
            TaskOutcome::Stopped if ended_with_run => (
                TaskState::Stopped,
                "The run ended before the task did; the task was ended with it.".to_owned(),
            ),
            TaskOutcome::Stopped => (TaskState::Stopped, "The task was stopped.".to_owned()),
        };

        let unread_note = match entry.unread_count() {
            0 => String::new(),
            count => format!("\n\nMessages to the task that it did not read: {count}"),
        };
        let model_text = format!("Task '{label}' ({id}) {status}.\n\nResult:\n{text}{unread_note}");
        let mut notification = TaskNotification::new(id.clone(), status, text);
        notification.tool_use_id = entry.spec().tool_use_id.clone();
        notification.usage = Some(entry.usage());
        let kind = SystemKind::TaskNotification(Box::new(notification));
        shared.push(SdkMessage::System(SystemEvent::new(
            shared.envelope(),
            kind,
        )));
        model_text
    }
}
