//! The logging of a run's usage.

use async_trait::async_trait;

use crate::error::Result;
use crate::hook::{Hook, Phases};
use crate::run::RunContext;
use crate::session::AgentState;

/// Logs the tokens and the cost of every run, however its loop ended, as one `tracing` event of the
/// level `INFO` with the target `agentcore::usage`. A run that is dropped is not logged.
///
/// Its fields are `session_id`, `run_id`, `agent`, `turns`, `input_tokens` (outside the cache),
/// `output_tokens`, `cache_read_tokens`, `cache_write_tokens` and `cost_usd`, which is missing when
/// a price is unknown. The cost includes subagents, the tokens do not.
///
/// ```
/// use agentcore::AgentBuilder;
/// use agentcore::hooks::UsageLogger;
/// use agentcore::testing::ScriptedModel;
///
/// let agent = AgentBuilder::new(ScriptedModel::new()).hook(UsageLogger::new()).build()?;
/// # let _ = agent;
/// # Ok::<(), agentcore::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct UsageLogger;

impl UsageLogger {
    /// Creates the hook.
    pub fn new() -> Self {
        Self
    }
}

#[async_trait]
impl Hook for UsageLogger {
    fn name(&self) -> &str {
        "usage_logger"
    }

    fn description(&self) -> &str {
        "Logs the tokens and the cost of each run"
    }

    fn phases(&self) -> Phases {
        Phases::AFTER_AGENT
    }

    async fn after_agent(&self, cx: &RunContext, state: AgentState) -> Result<AgentState> {
        let usage = state.usage.unwrap_or_else(|| cx.usage());
        ::tracing::info!(
            target: "agentcore::usage",
            session_id = %cx.session_id(),
            run_id = cx.run_id(),
            agent = cx.agent(),
            turns = cx.turn(),
            input_tokens = usage.input_tokens,
            output_tokens = usage.output_tokens,
            cache_read_tokens = usage.cache_read_tokens,
            cache_write_tokens = usage.cache_write_tokens,
            cost_usd = cx.cost(),
            "generation complete"
        );
        Ok(state)
    }
}
