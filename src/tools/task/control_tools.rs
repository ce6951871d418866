//! The tools `TaskOutput` and `TaskStop`.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::BoxError;
use crate::tool::{FuncTool, SideEffect, TaskHandle, TaskOutcome, ToolContext};
use crate::usage::maybe_count;
use crate::util::text::quoted;

/// The maximum wait, in milliseconds.
pub(crate) const MAX_TIMEOUT: u64 = 600_000;
/// The default wait, in milliseconds.
pub(crate) const DEFAULT_TIMEOUT: u64 = 30_000;

#[derive(Deserialize)]
struct Arguments {
    task_id: String,
    #[serde(default = "default_block")]
    block: bool,
    #[serde(default, deserialize_with = "maybe_count")]
    timeout: Option<u64>,
}

fn default_block() -> bool {
    true
}

pub(super) fn task_output() -> FuncTool {
    let description = "Returns the result of a task in the background. With `block` it waits for \
        the end, at most `timeout` milliseconds.";
    let parameters = json!({
        "type": "object",
        "properties": {
            "task_id": {"type": "string", "description": "The task's ID"},
            "block": {"type": "boolean", "default": true, "description": "Wait for the end"},
            "timeout": {"type": "integer", "minimum": 0, "maximum": MAX_TIMEOUT, "default": DEFAULT_TIMEOUT, "description": "The longest wait, in milliseconds"}
        },
        "required": ["task_id"]
    });
    FuncTool::new("TaskOutput", description, parameters, output)
        .side_effect(SideEffect::ReadOnly)
        .starting_agents()
        // The wait has its own limit.
        .timeout(Duration::from_millis(2 * MAX_TIMEOUT))
}

async fn output(cx: ToolContext, args: Value) -> Result<String, BoxError> {
    let arguments: Arguments = serde_json::from_value(args)?;
    let task = find_task(&cx, &arguments.task_id)?;
    let timeout = arguments.timeout.unwrap_or(DEFAULT_TIMEOUT);
    let limit = Duration::from_millis(timeout.min(MAX_TIMEOUT));
    let outcome = if arguments.block {
        task.wait(limit).await
    } else {
        task.output()
    };
    match outcome {
        None => Ok(format!("Task {} is running.", task.id())),
        Some(TaskOutcome::Completed(text)) => Ok(text),
        Some(TaskOutcome::Failed(text)) => Err(text.into()),
        Some(TaskOutcome::Stopped) => Err("the task was stopped".into()),
    }
}

pub(super) fn task_stop() -> FuncTool {
    let parameters = json!({
        "type": "object",
        "properties": {"task_id": {"type": "string", "description": "The task's ID"}},
        "required": ["task_id"]
    });
    let stop = |cx: ToolContext, args: Value| async move {
        let task = find_task(&cx, args["task_id"].as_str().unwrap_or_default())?;
        let text = if task.stop() {
            format!("Task {} is stopped.", task.id())
        } else {
            format!("Task {} has ended already.", task.id())
        };
        Ok::<_, BoxError>(text)
    };
    FuncTool::new(
        "TaskStop",
        "Stops a task in the background.",
        parameters,
        stop,
    )
    .side_effect(SideEffect::ReadOnly)
    .starting_agents()
}

/// Returns the task of this id, or an error for the model if there is none.
pub(crate) fn find_task(cx: &ToolContext, id: &str) -> Result<TaskHandle, BoxError> {
    let task = cx.tasks().get(id);
    task.ok_or_else(|| format!("unknown task {}", quoted(id)).into())
}
