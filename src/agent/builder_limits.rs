//! The setters of the builder for the limits of runs.

use std::time::Duration;

use crate::engine::MIN_RESULT_BYTES;
use crate::model::ResponseLimits;

use super::builder::AgentBuilder;

/// # Limits
impl AgentBuilder {
    /// Sets the maximum number of turns of a run: model calls with the tool calls of their
    /// responses; 0 is no limit. Defaults to 100. A model call that is repeated after a failure, an
    /// empty response or a compaction does not count again. A run that needs more turns ends with
    /// [`ExitReason::MaxTurns`](crate::ExitReason::MaxTurns).
    pub fn max_turns(mut self, turns: u32) -> Self {
        self.limits.max_turns = turns;
        self
    }

    /// Sets whether the system prompt of the last two turns before [`max_turns`](Self::max_turns)
    /// asks the model to finish. Defaults to `false`.
    pub fn wrap_up(mut self, enabled: bool) -> Self {
        self.request.wrap_up = enabled;
        self
    }

    /// Sets the maximum cost of a run in USD, subagents included. Defaults to no limit. A run that
    /// reaches it ends with [`ExitReason::MaxBudget`](crate::ExitReason::MaxBudget).
    ///
    /// ```
    /// use agentcore::model::{ModelProfile, Prices};
    /// use agentcore::testing::ScriptedModel;
    /// use agentcore::{AgentBuilder, ExitReason, FuncTool, Usage};
    /// use serde_json::json;
    ///
    /// # async fn example() -> Result<(), agentcore::Error> {
    /// let clock = FuncTool::new("clock", "The time", json!({"type": "object"}), |_, _| async {
    ///     "noon"
    /// });
    /// let model = ScriptedModel::new()
    ///     .call("clock", json!({}))
    ///     .with_usage(Usage::new(1_000, 500))
    ///     .with_profile(ModelProfile::default().with_prices(Prices::new(3.0, 15.0)));
    /// let agent = AgentBuilder::new(model).tool(clock).max_budget_usd(0.01).build()?;
    /// let output = agent.run("What time is it?").await?;
    /// assert_eq!(output.end, ExitReason::MaxBudget);
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    pub fn max_budget_usd(mut self, usd: f64) -> Self {
        self.settings.budget.usd = Some(usd);
        self
    }

    /// Sets the maximum number of tokens a run may use, prompts and responses together,
    /// subagents included. Defaults to no limit; 0 allows no model call. A run that reaches it ends
    /// with [`ExitReason::MaxBudget`](crate::ExitReason::MaxBudget).
    pub fn max_total_tokens(mut self, tokens: u64) -> Self {
        self.settings.budget.tokens = Some(tokens);
        self
    }

    /// Sets the maximum duration of a run. Defaults to no limit. A run that reaches it is stopped
    /// wherever it is, as by an interrupt, and ends with
    /// [`ExitReason::MaxDuration`](crate::ExitReason::MaxDuration).
    pub fn max_duration(mut self, duration: Duration) -> Self {
        self.settings.budget.duration = Some(duration);
        self
    }

    /// Allows [`max_budget_usd`](Self::max_budget_usd) together with models whose prices are not
    /// known: their calls count as free. By default, [`build`](Self::build) or the call fails with
    /// [`Config`](crate::ErrorKind::Config).
    pub fn allow_unpriced(mut self) -> Self {
        self.settings.budget.allow_unpriced = true;
        self
    }

    /// Sets the limits on the size of one response. Defaults to [`ResponseLimits::default`]: 16
    /// MiB, 1,000 tool calls, 10,000 content blocks, 50,000 JSON values. If a response exceeds one
    /// of them, the run ends with [`ResponseTooLarge`](crate::ErrorKind::ResponseTooLarge).
    pub fn response_limits(mut self, limits: ResponseLimits) -> Self {
        self.settings.response_limits = limits;
        self
    }

    /// Sets the maximum number of tool calls of a turn that run at the same time, at least 1.
    /// Defaults to 8.
    pub fn parallel_tools(mut self, calls: usize) -> Self {
        self.limits.parallel_tools = calls.max(1);
        self
    }

    /// Sets the limit of a tool result in bytes. It applies to the content, the display text and
    /// the details separately. Defaults to 8 MiB, and is at least 1 KiB. Details and display text
    /// may have 2 KiB together even if the limit is smaller.
    ///
    /// Bytes are counted as for [`max_history_bytes`](Self::max_history_bytes). Text beyond the
    /// limit is cut with a note, media that does not fit is replaced by error texts as far as these
    /// fit, and details are removed. This happens before hooks receive the result, and again after
    /// each of them.
    ///
    /// The results of one response's calls stay in memory until the last call ends: together they
    /// may have twice the limit, divided equally among the calls.
    pub fn max_result_bytes(mut self, bytes: usize) -> Self {
        self.limits.max_result_bytes = bytes.max(MIN_RESULT_BYTES);
        self
    }

    /// Sets the limit of a history in bytes, for inputs, responses and results together. Defaults
    /// to 24 MiB.
    ///
    /// Bytes are counted as follows:
    ///
    /// * A text counts with its size in the JSON of a request, where a quote takes two bytes and a
    ///   control character up to six.
    /// * JSON values in calls and details, and the structures around a text, count with their size
    ///   in memory: a number takes 36 bytes, an object with one field 700.
    /// * The child runs of a run share its limit, including their responses in progress. The limit
    ///   of a child's own agent applies to the child as well.
    /// * The outcome of a background task counts toward this shared limit until the model receives
    ///   it, and as an input from then on.
    /// * Messages from before the run that a summary covers have a separate limit, of twice as many
    ///   bytes.
    ///
    /// Near the limit and above it:
    ///
    /// * A compactor is asked for a summary when more than three quarters are used and messages
    ///   from before the run use more than one quarter.
    /// * Results are cut, as by [`max_result_bytes`](Self::max_result_bytes), so that one quarter
    ///   is left for responses.
    /// * A response that exceeds the limit, together with 5 KiB for the result of each of its
    ///   calls, ends the run with [`ResponseTooLarge`](crate::ErrorKind::ResponseTooLarge), and
    ///   none of its calls runs. Its text is stored, up to three quarters of the remaining bytes.
    /// * An input that alone exceeds the limit is refused with
    ///   [`RequestTooLarge`](crate::ErrorKind::RequestTooLarge) before it is stored.
    /// * An input that exceeds the limit together with the messages before it is removed again if
    ///   no compactor has shortened these messages, and the run ends with `ResponseTooLarge`.
    /// * A message that joins the history in the middle of a run ([`RunHandle::steer`], a
    ///   `before_stop` hook) and exceeds the limit together with the messages before it, although
    ///   a compactor was asked, is not stored. A warning reports it; if the model then has nothing
    ///   to answer, the run ends with `RequestTooLarge`. The history stays within its limit.
    ///
    /// [`RunHandle::steer`]: crate::RunHandle::steer
    pub fn max_history_bytes(mut self, bytes: usize) -> Self {
        self.limits.max_history_bytes = bytes;
        self
    }

    /// Sets the time that a tool call may run without progress. After it, the call is cancelled and
    /// has an error result. Defaults to 120 seconds; [`Tool::timeout`](crate::Tool::timeout) takes
    /// precedence.
    pub fn tool_timeout(mut self, timeout: Duration) -> Self {
        self.limits.tool_timeout = timeout;
        self
    }

    /// Sets the time within which each tool source must answer; sources are asked concurrently.
    /// Defaults to 30 seconds. If a source does not answer in time, its last tools are used, with a
    /// warning, and the source is asked again before the next turn, also before the first: a source
    /// that hangs delays the first model call by twice this time.
    pub fn tool_source_timeout(mut self, timeout: Duration) -> Self {
        self.limits.source_timeout = timeout;
        self
    }

    /// Sets whether calls that repeat without progress are detected. When the same call has
    /// returned the same result in three turns, the model is warned; after five, the run ends with
    /// [`ExitReason::LoopDetected`](crate::ExitReason::LoopDetected). The count of a call starts
    /// over if it was absent from a turn and another call or result was new since its last turn.
    /// Results with different images or documents differ. Defaults to `true`.
    pub fn loop_detection(mut self, enabled: bool) -> Self {
        self.limits.loop_detection = enabled;
        self
    }

    /// Sets the time limit of one phase of a hook. The time inside [`Next::run`](crate::Next::run)
    /// does not count, and the limit starts over once a call of it has waited: a hook that repeats
    /// a call has the whole time for each attempt. Defaults to 60 seconds; `None` is no limit. In a
    /// run that was interrupted or reached its time limit, all `after_agent` hooks together have 10
    /// seconds, even with `None`.
    pub fn hook_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.settings.hook_timeout = timeout.into();
        self
    }

    /// Sets the maximum number of times that a response is sent back because it does not match the
    /// schema of [`Run::output_schema`](crate::Run::output_schema). Defaults to 2.
    pub fn output_retries(mut self, retries: u32) -> Self {
        self.limits.output_retries = retries;
        self
    }

    /// Sets the maximum depth of subagents below a run of the agent: with 0, the run has no
    /// subagents; with 1, its subagents have none. Defaults to 2, and is at most 8. The limits of
    /// the parent runs apply as well.
    pub fn max_subagent_depth(mut self, depth: u32) -> Self {
        self.limits.max_depth = depth;
        self
    }

    /// Sets the maximum number of subagents that a run and its subagents start together. Defaults
    /// to 100; with 0, there are none. A subagent beyond the limit of one of its parent runs fails
    /// with [`Config`](crate::ErrorKind::Config).
    pub fn max_subagents(mut self, count: u32) -> Self {
        self.settings.budget.subagents = count;
        self
    }

    /// Sets the maximum number of model calls that a run and its subagents make at the same time,
    /// at least 1. Defaults to 16.
    pub fn parallel_model_calls(mut self, calls: usize) -> Self {
        self.settings.parallel_model_calls = calls.max(1);
        self
    }
}
