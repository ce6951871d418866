//! The line about a task.

use crate::tool::{TaskHandle, TaskOutcome};
use crate::util::text::line_of;

/// The maximum length of a task's description, in characters.
const MAX_CHARS: usize = 200;

/// Returns the line about a task: `ID [STATUS] NAME: TASK`.
pub(crate) fn task_line(task: &TaskHandle) -> String {
    let status = match task.output() {
        None => "running",
        Some(TaskOutcome::Completed(_)) => "done",
        Some(TaskOutcome::Failed(_)) => "error",
        Some(TaskOutcome::Stopped) => "cancelled",
    };
    let spec = task.spec();
    let name = spec.subagent_type.as_ref().unwrap_or(&spec.label);
    let text = line_of(&spec.text(), MAX_CHARS);
    format!("{} [{status}] {name}: {text}", task.id())
}
