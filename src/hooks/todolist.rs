//! The agent's task list.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use crate::error::Result;
use crate::hook::{Hook, Phases};
use crate::message::{Todo, TodoStatus};
use crate::run::RunContext;
use crate::session::AgentState;
use crate::tool::{FuncTool, SideEffect, ToolError};
use crate::util::text::truncate;

const TOOL: &str = "write_todos";
/// The maximum number of tasks of a list.
const MAX_TASKS: usize = 10_000;
/// The maximum length of a title or an id, in bytes.
const MAX_TEXT: usize = 4 * 1024;
/// The maximum length of all titles and ids together, in bytes.
const MAX_TOTAL: usize = 256 * 1024;
/// The maximum length of the quoted part of an unknown status, in characters.
const MAX_QUOTE: usize = 100;
const DESCRIPTION: &str = "Replaces the task list. Give the whole list each time: what is done, \
    what is in progress and what is still to do.";

/// A task list that the model writes with the tool `write_todos`.
///
/// Each call replaces [`AgentState::todos`], which is stored with the session and emitted as
/// `system/state_changed`. A task has an `id`, a `title` and a `status`: `pending`, `in_progress`
/// or `done`. `content` is accepted for `title`, and `completed` for `done`. A task without an id
/// is numbered, and a task without a status is pending; further fields are ignored. An invalid list
/// changes nothing, and the error result describes the problem.
///
/// A list may have 10,000 tasks, a title or an id 4 KiB, and all titles and ids together 256 KiB. A
/// list over a limit is refused, because every change stores and emits the whole list.
///
/// Tasks of earlier runs of the session stay until the model replaces them.
///
/// ```
/// use agentcore::hooks::TodoListHook;
/// use agentcore::testing::ScriptedModel;
/// use agentcore::{AgentBuilder, TodoStatus};
/// use serde_json::json;
///
/// # async fn example() -> agentcore::Result<()> {
/// let model = ScriptedModel::new()
///     .call("write_todos", json!({"todos": [
///         {"id": "1", "title": "Parse the config", "status": "done"},
///         {"id": "2", "title": "Write tests", "status": "in_progress"},
///     ]}))
///     .say("Half-way.");
/// let agent = AgentBuilder::new(model).hook(TodoListHook::new()).build()?;
/// let todos = agent.run("Go").await?.state.todos;
/// assert_eq!((&*todos[1].title, todos[1].status), ("Write tests", TodoStatus::InProgress));
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct TodoListHook {
    tool: Arc<str>,
}

impl TodoListHook {
    /// Creates the hook, which registers the tool `write_todos`.
    pub fn new() -> Self {
        Self { tool: TOOL.into() }
    }

    /// Sets the tool's name, such as `TodoWrite`. Defaults to `write_todos`.
    #[must_use]
    pub fn tool_name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.tool = name.into();
        self
    }
}

impl Default for TodoListHook {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Hook for TodoListHook {
    fn name(&self) -> &str {
        "todolist"
    }

    fn description(&self) -> &str {
        "Lets the model keep a task list"
    }

    fn phases(&self) -> Phases {
        Phases::BEFORE_AGENT
    }

    fn tools(&self) -> Vec<String> {
        vec![self.tool.to_string()]
    }

    async fn before_agent(&self, _cx: &RunContext, mut state: AgentState) -> Result<AgentState> {
        state.register_tool(write_todos(&self.tool));
        Ok(state)
    }
}

/// Creates the tool. It runs alone, so that the last of several calls takes effect.
fn write_todos(name: &str) -> FuncTool {
    let parameters = json!({
        "type": "object",
        "properties": {
            "todos": {
                "type": "array",
                "description": "The whole list, in order",
                "items": {
                    "type": "object",
                    "properties": {
                        "id": {"type": "string", "description": "Keeps its meaning from call to call"},
                        "title": {"type": "string", "description": "What to do"},
                        "status": {
                            "type": "string",
                            "enum": ["pending", "in_progress", "done", "completed"],
                            "description": "done and completed mean the same"
                        }
                    }
                }
            }
        },
        "required": ["todos"]
    });

    FuncTool::new(name, DESCRIPTION, parameters, |cx, args| async move {
        let todos = read_todos(&args)?;
        let count = todos.len();
        cx.with_state(|mut view| *view.todos_mut() = todos);
        Ok(format!("Updated {count} todo(s)"))
    })
    .side_effect(SideEffect::None)
    .exclusive()
    .idempotent()
}

/// Returns the list of a call. The engine has checked it against the schema; a tool that is
/// executed by hand receives it unchecked.
fn read_todos(args: &Value) -> Result<Vec<Todo>, ToolError> {
    let items = args["todos"]
        .as_array()
        .ok_or_else(|| ToolError::new("todos is required, a list"))?;
    if items.len() > MAX_TASKS {
        let text = format!(
            "todos: {} tasks; at most {MAX_TASKS} are allowed",
            items.len()
        );
        return Err(ToolError::new(text));
    }

    let ids: Vec<Option<&str>> = items.iter().map(|item| text_field(item, "id")).collect();
    let mut used_ids = BTreeSet::new();
    for (index, id) in ids.iter().enumerate() {
        if id.is_some_and(|id| !used_ids.insert(id.to_owned())) {
            let text = format!("todos[{index}].id: another task has the same id");
            return Err(ToolError::new(text));
        }
    }

    let mut todos = Vec::with_capacity(items.len());
    let mut next_id = 1;
    let mut total_bytes = 0;
    for (index, (item, id)) in items.iter().zip(ids).enumerate() {
        let title = text_field(item, "title").or_else(|| text_field(item, "content"));
        let title =
            title.ok_or_else(|| ToolError::new(format!("todos[{index}].title is required")))?;
        let id_text = id.unwrap_or_default();
        check_len(index, "id", id_text)?;
        check_len(index, "title", title)?;
        total_bytes += id_text.len() + title.len();

        if total_bytes > MAX_TOTAL {
            let text = format!(
                "todos: the titles and ids have more than {MAX_TOTAL} bytes together; shorten them"
            );
            return Err(ToolError::new(text));
        }

        let id = match id {
            Some(id) => id.to_owned(),
            None => unused_id(index, &mut next_id, &mut used_ids),
        };

        let mut todo = Todo::new(id, title);
        todo.status = read_status(index, item)?;
        todos.push(todo);
    }

    Ok(todos)
}

/// Refuses a title or an id that is too long.
fn check_len(index: usize, name: &str, value: &str) -> Result<(), ToolError> {
    let len = value.len();
    if len <= MAX_TEXT {
        return Ok(());
    }
    let text = format!("todos[{index}].{name}: {len} bytes; at most {MAX_TEXT} are allowed");
    Err(ToolError::new(text))
}

/// Returns the text of a field, or `None` if it is blank.
fn text_field<'a>(item: &'a Value, name: &str) -> Option<&'a str> {
    item[name].as_str().filter(|text| !text.trim().is_empty())
}

/// Returns the position of a task in the list, from 1, as its id, or the next number that is not
/// used. `next_id` is the smallest number for later tasks.
fn unused_id(index: usize, next_id: &mut usize, used_ids: &mut BTreeSet<String>) -> String {
    let mut number = (index + 1).max(*next_id);
    while !used_ids.insert(number.to_string()) {
        number += 1;
    }
    *next_id = number + 1;
    number.to_string()
}

/// Returns the status of a task, which is pending if it has none.
fn read_status(index: usize, item: &Value) -> Result<TodoStatus, ToolError> {
    match &item["status"] {
        Value::Null => Ok(TodoStatus::Pending),
        status => serde_json::from_value(status.clone()).map_err(|_| {
            ToolError::new(format!(
                "todos[{index}].status: unknown status {}; use pending, in_progress or done",
                truncate(&status.to_string(), MAX_QUOTE)
            ))
        }),
    }
}
