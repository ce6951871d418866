//! The tools `delegate_to_agent` and `start_async_task`.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::agent::{Session, child_session_id, output_of};
use crate::error::{BoxError, ErrorKind, Result};
use crate::run::RunOutput;
use crate::subagent::SubagentRegistry;
use crate::tool::{FuncTool, IntoToolResult, SideEffect, TaskSpec, ToolContext, ToolOutput};
use crate::util::text::quoted;

use super::super::task::{Children, SubagentTools, begin_child};
use super::async_tasks::async_task_tools;

/// Returns the tools that delegate to the subagents of `registry`: `delegate_to_agent`, which runs
/// a subagent on a task and returns its final text, and six for background tasks,
/// `start_async_task`, `check_async_task`, `update_async_task`, `cancel_async_task`,
/// `list_async_tasks` and `await_async_tasks`.
///
/// A subagent runs like a subagent of [`task`](crate::tools::task), with the same options, in the
/// session `PARENT:sub:NAME:CALL-RESPONSE`, as with [`as_tool`](crate::Agent::as_tool). A
/// background task ends with the run that started it, unless
/// [`unfinished_tasks`](crate::AgentBuilder::unfinished_tasks) makes the run wait; its end is
/// reported to the model in a message. Until it ends, up to 16 updates are queued for the
/// subagent's next turn. With [`BackgroundTasksHook`](crate::hooks::BackgroundTasksHook), the state
/// of the tasks is in the system prompt.
///
/// ```
/// use agentcore::Agent;
/// use agentcore::subagent::{SubagentDefinition, SubagentRegistry};
/// use agentcore::testing::ScriptedModel;
/// use agentcore::tools;
/// use serde_json::json;
///
/// # async fn example() -> Result<(), agentcore::Error> {
/// let mut agents = SubagentRegistry::new();
/// agents.register("scout", SubagentDefinition::new("Looks around", "You look around."))?;
///
/// let scout = ScriptedModel::new().say("All quiet.");
/// let call = json!({"agent": "scout", "task": "Look around"});
/// let lead = ScriptedModel::new().call("delegate_to_agent", call).say("It is quiet.");
/// let lead = Agent::builder(lead)
///     .tools(tools::delegate(agents).model(scout).build()?)
///     .build()?;
/// assert_eq!(lead.run("What is out there?").await?.text, "It is quiet.");
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
pub fn delegate(registry: SubagentRegistry) -> SubagentTools {
    SubagentTools::new(registry, |children| {
        let mut tools = vec![
            delegate_to_agent(children.clone()),
            start_async_task(children),
        ];
        tools.extend(async_task_tools());
        tools
    })
}

#[derive(Deserialize)]
struct Arguments {
    agent: String,
    task: String,
}

/// A subagent that a call starts, with its task.
struct Delegation {
    name: Arc<str>,
    session: Session,
    spec: TaskSpec,
    task: String,
}

impl Delegation {
    fn of_call(children: &Children, cx: &ToolContext, args: Value) -> Result<Self, BoxError> {
        let Arguments { agent, task } = serde_json::from_value(args)?;
        let unknown_text = || format!("unknown sub-agent {}", quoted(&agent));
        let (name, _) = children
            .types
            .get_key_value(&*agent)
            .ok_or_else(unknown_text)?;
        let agent = children.agent(cx, name, None)?;
        let session = agent.session(child_session_id(cx, name));
        let spec = TaskSpec::new(name.clone())
            .with_description(task.as_str())
            .with_tool_use_id(cx.call_id())
            .with_subagent_type(name.clone());
        Ok(Self {
            name: name.clone(),
            session,
            spec,
            task,
        })
    }

    /// Runs the subagent to its end and returns its final text.
    async fn run(self, cx: &ToolContext) -> Result<String, BoxError> {
        let run = self
            .session
            .run_as_described_child(cx, self.task, self.spec);
        text_of(&self.name, run.await)
    }

    /// Starts the subagent in the background, and returns the result of the call.
    fn begin(self, cx: ToolContext) -> ToolOutput {
        let name = self.name;
        let to_text = move |outcome| text_of(&name, outcome);
        begin_child(cx, self.session, self.spec, self.task, to_text)
    }
}

/// Returns the final text of a subagent, or a note that there is none.
fn text_of(name: &str, outcome: Result<RunOutput>) -> Result<String, BoxError> {
    let text = match outcome {
        Err(error) if error.kind() == ErrorKind::EmptyResponse => String::new(),
        outcome => output_of(outcome)?.text,
    };
    Ok(if text.trim().is_empty() {
        format!("Sub-agent {name:?} completed but produced no response.")
    } else {
        text
    })
}

fn delegate_to_agent(children: Arc<Children>) -> FuncTool {
    let description = children.description(
        "Delegates a task to a subagent, which works with a context of its own and returns one \
         final text. It sees nothing of this conversation, so the task needs everything. Agents:",
    );
    let agents = children.names();
    let run = move |cx: ToolContext, args: Value| {
        let children = children.clone();
        async move {
            let delegation = Delegation::of_call(&children, &cx, args)?;
            delegation.run(&cx).await
        }
    };
    agent_tool("delegate_to_agent", &description, agents, run)
}

fn start_async_task(children: Arc<Children>) -> FuncTool {
    let description = children.description(
        "Starts a subagent on a task in the background and returns the task's ID at once. Its end \
         is reported. Agents:",
    );
    let agents = children.names();
    let run = move |cx: ToolContext, args: Value| {
        let delegation = Delegation::of_call(&children, &cx, args);
        async move { Ok::<_, BoxError>(delegation?.begin(cx)) }
    };
    agent_tool("start_async_task", &description, agents, run)
}

/// Creates a tool whose arguments `agent` and `task` name the agent and its task.
fn agent_tool<F, Fut, R>(name: &str, description: &str, agents: Vec<Arc<str>>, run: F) -> FuncTool
where
    F: Fn(ToolContext, Value) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = R> + Send + 'static,
    R: IntoToolResult,
{
    let parameters = json!({
        "type": "object",
        "properties": {
            "agent": {"type": "string", "description": "The name of the agent"},
            "task": {"type": "string", "minLength": 1, "description": "The task, with all that is needed to do it"}
        },
        "required": ["agent", "task"]
    });
    FuncTool::new(name, description, parameters, run)
        .side_effect(SideEffect::ReadOnly)
        .agents_named(agents)
        .starting_agent_of("agent")
}
