//! The hook that tracks after which message a change is made.

use async_trait::async_trait;

use crate::error::Result;
use crate::hook::{Hook, Next, Phases};
use crate::message::{ToolCall, ToolResult};
use crate::run::RunContext;
use crate::session::AgentState;

use super::file_checkpoints::FileCheckpoints;

#[async_trait]
impl Hook for FileCheckpoints {
    fn name(&self) -> &str {
        "file_checkpoints"
    }

    fn description(&self) -> &str {
        "Keeps files as they were before each message of the user"
    }

    fn phases(&self) -> Phases {
        Phases::BEFORE_AGENT | Phases::WRAP_TOOL_CALL
    }

    async fn before_agent(&self, cx: &RunContext, state: AgentState) -> Result<AgentState> {
        if let Some(run) = self.inner.runs.register(cx) {
            match self.record_run_start(&run, state.messages.clone()).await {
                Ok(None) => {}
                Ok(Some(damage)) => cx.warn(format!("file checkpoints: {damage}")),
                // After a failure, changes of files are refused; the run continues.
                Err(error) => cx.warn(format!("file checkpoints: {error}")),
            }
        }

        Ok(state)
    }

    async fn wrap_tool_call(&self, call: ToolCall, next: Next<ToolCall>) -> Result<ToolResult> {
        let cx = next.context().clone();
        self.inner.runs.scope(&cx, next.run(call)).await
    }
}
