//! The second execution of calls that had no result when their run was dropped.

use std::sync::Arc;

use crate::message::{Message, ToolCall, ToolResult};
use crate::util::Pace;

use super::active_run::ActiveRun;
use super::call_starts::CallStart;
use super::restore::{InterruptedCall, MAY_HAVE_RUN, result_positions};
use super::sanitize;
use super::tool_call::CallOutcome;

/// The results of calls that had none.
#[derive(Default)]
pub(super) struct RerunResults {
    pub(super) results: Vec<ToolResult>,
    /// True if a gate ended the run: no further call runs.
    pub(super) ends_run: bool,
}

impl ActiveRun {
    /// Runs the calls again that may have begun and whose tools are idempotent, in order. They pass
    /// hooks and the permission gate again. A call that is not permitted, or whose tool is not
    /// idempotent, receives a result with the note that it may have run.
    ///
    /// The start of a read-only call is not stored, so such a call counts as begun.
    ///
    /// Nothing is stored before all calls have ended, so a run that is dropped meanwhile leaves
    /// them without a result.
    pub(super) async fn rerun_interrupted_calls(
        &mut self,
        interrupted_calls: Vec<InterruptedCall>,
    ) -> RerunResults {
        let mut results = RerunResults::default();
        if interrupted_calls.is_empty() {
            return results;
        }

        let positions = self.cx.state(|state| result_positions(&state.messages));
        let mut pace = Pace::default();
        for interrupted_call in interrupted_calls {
            pace.step(0).await;
            let may_run = !results.ends_run;
            let (result, ends_run) = self.rerun_call(&interrupted_call, may_run).await;
            self.replace_result(
                &interrupted_call,
                &result,
                positions.get(&interrupted_call.call.id).copied(),
            );
            self.history.count_result(&result);
            results.ends_run |= ends_run;
            results.results.push(result);
        }
        results
    }

    /// Returns the result of an interrupted call, and `true` if a gate ended the run.
    async fn rerun_call(
        &self,
        interrupted_call: &InterruptedCall,
        may_run: bool,
    ) -> (ToolResult, bool) {
        let call = &interrupted_call.call;
        let tool = self.cx.tool(&call.name);
        let tool_to_rerun =
            tool.filter(|tool| interrupted_call.is_started || tool.side_effect().is_read_only());
        let Some(tool) = tool_to_rerun else {
            return (interrupted_call.preliminary_result(), false);
        };

        if !may_run || !tool.is_idempotent() {
            return (ToolResult::failed(call, MAY_HAVE_RUN), false);
        }
        self.run_again(call).await
    }

    async fn run_again(&self, call: &ToolCall) -> (ToolResult, bool) {
        self.cx.emit_init();
        let start = CallStart::default();
        let runner = self.call_runner(1);
        let result = match runner.run(call, &start).await {
            // A call that has not begun succeeds only by the reply of a person.
            CallOutcome::Done(mut result) if start.has_begun() || !result.is_error => {
                sanitize::result(&mut result);
                result
            }
            CallOutcome::Done(_) | CallOutcome::Pending(_) | CallOutcome::NotBegun => {
                ToolResult::failed(call, MAY_HAVE_RUN)
            }
        };
        (result, runner.halt.is_interrupted())
    }

    /// Replaces the call's preliminary result at `position`, unless a hook has removed it.
    fn replace_result(
        &self,
        interrupted_call: &InterruptedCall,
        result: &ToolResult,
        position: Option<usize>,
    ) {
        let preliminary_result = interrupted_call.preliminary_result();
        self.cx.state(|state| {
            let message = position.and_then(|position| state.messages.get(position));
            if let (Some(position), Some(message)) = (position, message)
                && message.as_tool_result() == Some(&preliminary_result)
            {
                let message = Message::Tool(result.clone());
                state.messages.replace(position, Arc::new(message));
            }
        });
    }
}
