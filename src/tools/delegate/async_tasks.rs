//! The tools for background tasks.

use std::collections::HashSet;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::error::BoxError;
use crate::tool::{FuncTool, SideEffect, TaskHandle, TaskOutcome, ToolContext};
use crate::usage::maybe_count;

use super::super::task::{DEFAULT_TIMEOUT, MAX_TIMEOUT, find_task};
use super::task_line::task_line;

/// Returns the tools that check, update, cancel, list and await tasks.
pub(super) fn async_task_tools() -> [FuncTool; 5] {
    [check(), update(), cancel(), list(), await_all()]
}

fn check() -> FuncTool {
    let run = |cx: ToolContext, args: Value| async move {
        let task = task_of_call(&cx, &args)?;
        Ok::<_, BoxError>(report(&task))
    };
    let description = "Returns the state of a task in the background, with its result if it has \
        ended.";
    control_tool(
        "check_async_task",
        description,
        &json!({}),
        &["task_id"],
        run,
    )
}

fn update() -> FuncTool {
    let run = |cx: ToolContext, args: Value| async move {
        let task = task_of_call(&cx, &args)?;
        task.send(args["message"].as_str().unwrap_or_default())?;
        Ok::<_, BoxError>(format!("The update waits for task {}.", task.id()))
    };
    let message = json!({
        "message": {"type": "string", "minLength": 1, "description": "What the subagent needs to know"}
    });
    let description = "Sends a message to a task in the background. Its subagent reads it before \
        its next turn.";
    control_tool(
        "update_async_task",
        description,
        &message,
        &["task_id", "message"],
        run,
    )
}

fn cancel() -> FuncTool {
    let run = |cx: ToolContext, args: Value| async move {
        let task = task_of_call(&cx, &args)?;
        let text = if task.stop() {
            format!("Task {} is cancelled.", task.id())
        } else {
            format!("Task {} has ended already.", task.id())
        };
        Ok::<_, BoxError>(text)
    };
    let description = "Cancels a task in the background.";
    control_tool(
        "cancel_async_task",
        description,
        &json!({}),
        &["task_id"],
        run,
    )
}

fn list() -> FuncTool {
    let run = |cx: ToolContext, _args: Value| async move {
        let lines: Vec<_> = cx.tasks().list().iter().map(task_line).collect();
        if lines.is_empty() {
            "There are no tasks.".to_owned()
        } else {
            lines.join("\n")
        }
    };
    let parameters = json!({"type": "object", "properties": {}});
    let description = "Lists the tasks in the background with their states.";
    FuncTool::new("list_async_tasks", description, parameters, run)
        .side_effect(SideEffect::ReadOnly)
        .starting_agents()
}

/// The arguments of `await_async_tasks`.
#[derive(Deserialize)]
struct Wait {
    task_ids: Option<Vec<String>>,
    #[serde(default, deserialize_with = "maybe_count")]
    timeout: Option<u64>,
}

fn await_all() -> FuncTool {
    let parameters = json!({
        "type": "object",
        "properties": {
            "task_ids": {"type": "array", "items": {"type": "string"}, "description": "The tasks. Defaults to all that run"},
            "timeout": {"type": "integer", "minimum": 0, "maximum": MAX_TIMEOUT, "default": DEFAULT_TIMEOUT, "description": "The longest wait, in milliseconds"}
        }
    });
    let description = "Waits until tasks in the background have ended, and returns their results.";
    FuncTool::new("await_async_tasks", description, parameters, wait_for_tasks)
        .side_effect(SideEffect::ReadOnly)
        .starting_agents()
        // The wait has its own limit.
        .timeout(Duration::from_millis(2 * MAX_TIMEOUT))
}

async fn wait_for_tasks(cx: ToolContext, args: Value) -> Result<String, BoxError> {
    let wait: Wait = serde_json::from_value(args)?;
    let tasks = match wait.task_ids.filter(|ids| !ids.is_empty()) {
        Some(ids) => {
            // A result is returned once, however often its task is named.
            let mut unique_ids = HashSet::new();
            ids.iter()
                .filter(|id| unique_ids.insert(id.as_str()))
                .map(|id| find_task(&cx, id))
                .collect::<Result<Vec<_>, _>>()?
        }
        None => {
            let mut tasks = cx.tasks().list();
            tasks.retain(|task| task.output().is_none());
            tasks
        }
    };
    if tasks.is_empty() {
        return Ok("No task is running.".to_owned());
    }

    let limit = wait.timeout.unwrap_or(DEFAULT_TIMEOUT).min(MAX_TIMEOUT);
    let deadline = Instant::now() + Duration::from_millis(limit);
    for task in &tasks {
        task.wait(deadline.saturating_duration_since(Instant::now()))
            .await;
    }
    let reports: Vec<_> = tasks.iter().map(report).collect();
    Ok(reports.join("\n\n"))
}

/// Returns the line about a task, and its text if it ended with one.
fn report(task: &TaskHandle) -> String {
    let line = task_line(task);
    match task.output() {
        Some(TaskOutcome::Completed(text) | TaskOutcome::Failed(text)) => {
            format!("{line}\n\n{text}")
        }
        None | Some(TaskOutcome::Stopped) => line,
    }
}

/// Returns the task that the argument `task_id` names.
fn task_of_call(cx: &ToolContext, args: &Value) -> Result<TaskHandle, BoxError> {
    find_task(cx, args["task_id"].as_str().unwrap_or_default())
}

/// Creates a tool for one task, with the argument `task_id`.
fn control_tool<F, T>(
    name: &str,
    description: &str,
    further_properties: &Value,
    required: &[&str],
    run: F,
) -> FuncTool
where
    F: Fn(ToolContext, Value) -> T + Send + Sync + 'static,
    T: Future<Output = Result<String, BoxError>> + Send + 'static,
{
    let mut properties = json!({"task_id": {"type": "string", "description": "The task's ID"}});
    if let (Some(properties), Some(further_properties)) =
        (properties.as_object_mut(), further_properties.as_object())
    {
        properties.extend(further_properties.clone());
    }
    let parameters = json!({"type": "object", "properties": properties, "required": required});
    FuncTool::new(name, description, parameters, run)
        // It changes nothing but tasks of this run, whose calls have their own permissions.
        .side_effect(SideEffect::ReadOnly)
        .starting_agents()
}
