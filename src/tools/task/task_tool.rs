//! The tool `Task`.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;
use uuid::Uuid;

use crate::agent::{Session, output_of};
use crate::error::{BoxError, Error, ErrorKind};
use crate::run::RunOutput;
use crate::tool::{
    FuncTool, SideEffect, TaskOutcome, TaskSpec, ToolContext, ToolError, ToolOutput,
};
use crate::util::text::quoted;

use super::children::Children;
use super::report::report_on;

#[derive(Deserialize)]
struct Arguments {
    prompt: String,
    description: String,
    subagent_type: String,
    model: Option<String>,
    #[serde(default)]
    run_in_background: bool,
    resume: Option<Arc<str>>,
}

/// A subagent that a call starts, with its prompt.
struct Start {
    session: Session,
    prompt: String,
    spec: TaskSpec,
    id: Arc<str>,
    is_resumed: bool,
}

pub(super) fn task_tool(children: Arc<Children>) -> FuncTool {
    let names = children.names();
    let description = children.description(
        "Starts a subagent, which works on the prompt with a context of its own and returns one \
         final text. It sees nothing of this conversation, so the prompt needs everything. Start \
         several in one answer to let them work side by side. Types:",
    );
    let run = move |cx: ToolContext, args: Value| {
        let children = children.clone();
        async move { run_task(&children, cx, args).await }
    };
    FuncTool::new("Task", description, parameters(), run)
        .agents_named(names)
        .side_effect(SideEffect::ReadOnly)
        .starting_agent_of("subagent_type")
}

fn parameters() -> Value {
    json!({
        "type": "object",
        "properties": {
            "prompt": {"type": "string", "minLength": 1, "description": "The task, with all that is needed to do it"},
            "description": {"type": "string", "description": "The task in three to five words"},
            "subagent_type": {"type": "string", "description": "The type of the subagent"},
            "model": {"type": "string", "description": "Another model, by its alias"},
            "run_in_background": {"type": "boolean", "description": "Return at once; TaskOutput waits for the result"},
            "resume": {"type": "string", "description": "The agent ID or task ID of an earlier result, to continue that subagent"}
        },
        "required": ["prompt", "description", "subagent_type"]
    })
}

async fn run_task(
    children: &Children,
    cx: ToolContext,
    args: Value,
) -> Result<ToolOutput, BoxError> {
    let arguments: Arguments = serde_json::from_value(args)?;
    let (name, child) = children.find(&arguments.subagent_type)?;
    let is_resumed = arguments.resume.is_some();
    let id = match arguments.resume {
        None => new_id(),
        Some(id) if is_id(&id) => id,
        Some(id) => return Err(unknown_id(&id)),
    };

    let mut session = children.session(&cx, name, arguments.model.as_deref(), &id)?;
    if is_resumed {
        session = session.must_exist();
    }

    let spec = TaskSpec::new(arguments.description)
        .with_id(id.clone())
        .with_tool_use_id(cx.call_id())
        .with_subagent_type(name.clone());
    let start = Start {
        session,
        prompt: arguments.prompt,
        spec,
        id,
        is_resumed,
    };
    if arguments.run_in_background || child.definition.background {
        let to_text = |outcome| Ok::<_, BoxError>(output_of(outcome)?.text);
        Ok(begin_child(
            cx,
            start.session,
            start.spec,
            start.prompt,
            to_text,
        ))
    } else {
        run_to_end(&cx, start).await
    }
}

/// Runs a subagent to its end.
async fn run_to_end(cx: &ToolContext, start: Start) -> Result<ToolOutput, BoxError> {
    let Start {
        session,
        prompt,
        spec,
        id,
        is_resumed,
    } = start;
    let start_time = Instant::now();
    let outcome = match session.run_as_described_child(cx, prompt, spec).await {
        Err(error) if is_resumed && is_unknown(&error) => return Err(unknown_id(&id)),
        outcome => output_of(outcome),
    };
    let output = outcome.map_err(|error| ToolError::new(format!("Agent ID: {id}\n\n{error}")))?;
    let report = report_on(&id, &output, start_time.elapsed());
    Ok(
        ToolOutput::new(format!("Agent ID: {id}\n\n{}", output.text))
            .with_details(report.details)
            .with_display(report.display),
    )
}

/// Starts a subagent in the background, and returns the result of the call. `to_text` converts the
/// outcome of the subagent to the outcome of the task. The result has the id in `spec` as well if
/// the task has another one, because only that id can be resumed.
pub(crate) fn begin_child(
    cx: ToolContext,
    session: Session,
    spec: TaskSpec,
    prompt: String,
    to_text: impl FnOnce(Result<RunOutput, Error>) -> Result<String, BoxError> + Send + 'static,
) -> ToolOutput {
    let tasks = cx.tasks();
    let agent_id = spec.id.clone();
    let task = tasks.begin(spec, |task| async move {
        match to_text(session.run_as_task(&cx, &task, prompt).await) {
            Ok(text) => TaskOutcome::Completed(text),
            Err(error) => TaskOutcome::Failed(error.to_string()),
        }
    });
    let text = format!("Task started in background. Task ID: {}", task.id());
    let text = match agent_id.filter(|id| **id != **task.id()) {
        Some(id) => format!("Agent ID: {id}\n\n{text}"),
        None => text,
    };
    ToolOutput::new(text).in_background()
}

/// Creates an id of the form `task_` and eight hexadecimal digits.
fn new_id() -> Arc<str> {
    let digits = Uuid::new_v4().simple().to_string();
    format!("task_{}", &digits[..8]).into()
}

/// Returns `true` for an id of the form of [`new_id`].
fn is_id(id: &str) -> bool {
    let digits = id.strip_prefix("task_").unwrap_or_default();
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    digits.len() == 8 && digits.bytes().all(is_digit)
}

/// Returns `true` if the session of a resumed subagent does not exist.
fn is_unknown(error: &Error) -> bool {
    error.kind() == ErrorKind::SessionNotFound
}

fn unknown_id(id: &str) -> BoxError {
    format!("unknown agent ID {}", quoted(id)).into()
}
