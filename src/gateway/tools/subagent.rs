//! The tool `subagent`.

use serde_json::{Value, json};

use crate::agent::{AgentBuilder, AllowedTools, Session, child_session_id, output_of};
use crate::error::BoxError;
use crate::tool::{Access, FuncTool, SideEffect, ToolContext, ToolError, ToolOutput};
use crate::util::text::head;

pub(super) const NAME: &str = "subagent";
/// The maximum number of turns of a subagent.
const MAX_TURNS: u32 = 10;
/// The maximum length of the output that the user sees, in characters.
const MAX_DISPLAY: usize = 500;
const PROMPT: &str = "You are a subagent. Complete the task on your own with the tools you have, \
    and end with a summary of the result.";

/// Creates the tool `subagent { task, label? }`, which runs a subagent on a task and returns its
/// result.
///
/// The subagent has the model, the hooks and the tools of the calling run, except tools that start
/// agents, and at most 10 turns. It runs as a [child](crate::Session::child_of) of that run, in a
/// session `PARENT:sub:subagent:CALL-RESPONSE`, shortened as for
/// [`Agent::as_tool`](crate::Agent::as_tool) if it is too long. The result is
/// `Subagent task completed:` with lines for `Label`, `Iterations` and `Result`; the user sees the
/// first 500 characters of the subagent's output. A gateway adds this tool to its agents.
pub fn subagent() -> FuncTool {
    let description = "Runs a subagent on a task and returns its result. It sees nothing of this \
        conversation, so the task needs everything.";
    agent_tool(NAME, description, run_subagent)
}

async fn run_subagent(cx: ToolContext, args: Value) -> Result<ToolOutput, BoxError> {
    let SubagentTask { task, label } = SubagentTask::of(&args)?;
    let session = child_session(&cx, NAME, |agent| agent)?;
    let output = output_of(session.run_as_child(&cx, task).await)?;
    let label = label.unwrap_or_else(|| "(unnamed)".to_owned());
    let text = format!(
        "Subagent task completed:\nLabel: {label}\nIterations: {}\nResult: {}",
        output.turns, output.text
    );
    let (shown_text, cut_count) = head(&output.text, MAX_DISPLAY);
    let end = if cut_count > 0 { "..." } else { "" };
    Ok(ToolOutput::new(text).with_display(format!("{shown_text}{end}")))
}

/// The arguments of a tool that starts a subagent.
pub(super) struct SubagentTask {
    pub(super) task: String,
    pub(super) label: Option<String>,
}

impl SubagentTask {
    pub(super) fn of(args: &Value) -> Result<Self, BoxError> {
        let text = |name: &str| {
            args[name]
                .as_str()
                .filter(|text| !text.trim().is_empty())
                .map(str::to_owned)
        };
        let task = text("task").ok_or_else(|| ToolError::new("task is required"))?;
        Ok(Self {
            task,
            label: text("label"),
        })
    }
}

/// Returns the session of a subagent of a call, whose agent `complete` completes.
pub(super) fn child_session(
    cx: &ToolContext,
    name: &str,
    complete: impl FnOnce(AgentBuilder) -> AgentBuilder,
) -> Result<Session, BoxError> {
    let builder = AgentBuilder::of_run(cx).ok_or("subagents need a run")?;
    let builder = builder
        .retain_tools(&cx.tools(), &AllowedTools::AllExcept(Vec::new()))
        .name(name)
        .system_prompt(PROMPT)
        .max_turns(MAX_TURNS)
        // The limits of the calling run apply.
        .max_subagent_depth(u32::MAX)
        .max_subagents(u32::MAX);
    let agent = complete(builder).build()?;
    Ok(agent.session(child_session_id(cx, name)))
}

/// Returns a tool that starts a subagent.
pub(super) fn agent_tool<F, T>(name: &'static str, description: &str, run: F) -> FuncTool
where
    F: Fn(ToolContext, Value) -> T + Send + Sync + 'static,
    T: Future<Output = Result<ToolOutput, BoxError>> + Send + 'static,
{
    let parameters = json!({
        "type": "object",
        "properties": {
            "task": {"type": "string", "description": "The task, with all that is needed to do it"},
            "label": {"type": "string", "description": "A short name of the task"}
        }
    });
    FuncTool::new(name, description, parameters, run)
        .side_effect(SideEffect::ReadOnly)
        .starting_agents()
        .accesses(move |_args| vec![Access::Agent(name.into())])
}
