//! The state of background tasks in the system prompt.

use async_trait::async_trait;

use crate::error::Result;
use crate::hook::{Hook, Phases};
use crate::message::Messages;
use crate::model::Stability;
use crate::run::RunContext;
use crate::tools::task_line;

const SECTION: &str = "background_tasks";

/// Adds the state of a run's background tasks to the system prompt, after all stable sections.
///
/// The section is set before each model call. It has the tasks in progress and the newest 64 that
/// have ended; without tasks there is no section. It is [volatile](Stability::Volatile), so it does
/// not change the part of the request that providers cache.
///
/// ```
/// use agentcore::hooks::BackgroundTasksHook;
/// use agentcore::testing::ScriptedModel;
/// use agentcore::tool::TaskOutcome;
/// use agentcore::{AgentBuilder, FuncTool};
/// use serde_json::json;
///
/// # async fn example() -> agentcore::Result<()> {
/// let build = FuncTool::new("build", "Builds", json!({"type": "object"}), |cx, _args| async move {
///     let _ = cx.tasks().spawn("build", std::future::pending::<TaskOutcome>());
///     "It runs."
/// });
/// let model = ScriptedModel::new()
///     .call("build", json!({}))
///     .expect(|request| {
///         let system = request.system.to_string();
///         assert_eq!(system, "## Background tasks\n- task_1 [running] build: build");
///     })
///     .say("I do not wait.");
/// let agent = AgentBuilder::new(model).tool(build).hook(BackgroundTasksHook::new()).build()?;
/// agent.run("Build").await?;
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct BackgroundTasksHook;

impl BackgroundTasksHook {
    /// Creates the hook.
    pub fn new() -> Self {
        Self
    }
}

#[async_trait]
impl Hook for BackgroundTasksHook {
    fn name(&self) -> &str {
        "background_tasks"
    }

    fn description(&self) -> &str {
        "Shows the model the state of background tasks"
    }

    fn phases(&self) -> Phases {
        Phases::MODIFY_REQUEST
    }

    async fn modify_request(&self, cx: &RunContext, messages: Messages) -> Result<Messages> {
        let tasks = cx.tasks().list();
        if tasks.is_empty() {
            return Ok(messages);
        }

        let lines = tasks.iter().map(|task| format!("\n- {}", task_line(task)));
        let text = format!("## Background tasks{}", lines.collect::<String>());
        cx.system().set(SECTION, text, Stability::Volatile);
        Ok(messages)
    }
}
