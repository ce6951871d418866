//! The second execution of calls that had no result when their run was dropped.

use std::sync::Arc;

use crate::message::{Message, ToolCall, ToolResult};

use super::active_run::ActiveRun;
use super::call_starts::CallStart;
use super::restore::{MAY_HAVE_RUN, UnansweredCall, result_positions};
use super::sanitize;
use super::tool_call::CallOutcome;

/// The results of calls that had none.
#[derive(Default)]
pub(super) struct RerunResults {
    pub(super) results: Vec<ToolResult>,
    /// True if a gate requires the run to end.
    pub(super) was_interrupted: bool,
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
    pub(super) async fn rerun(&mut self, open_calls: Vec<UnansweredCall>) -> RerunResults {
        let mut rerun = RerunResults::default();
        if open_calls.is_empty() {
            return rerun;
        }

        let positions = self.cx.state(|state| result_positions(&state.messages));
        for unanswered in open_calls {
            let result = self
                .result_of(&unanswered, &mut rerun.was_interrupted)
                .await;
            self.replace_result(
                &unanswered,
                &result,
                positions.get(&unanswered.call.id).copied(),
            );
            self.history.count_result(&result);
            rerun.results.push(result);
        }
        rerun
    }

    async fn result_of(
        &self,
        unanswered: &UnansweredCall,
        was_interrupted: &mut bool,
    ) -> ToolResult {
        let Some(tool) = self.cx.tool(&unanswered.call.name) else {
            return unanswered.preliminary_result();
        };

        if !unanswered.is_started && !tool.side_effect().is_read_only() {
            return unanswered.preliminary_result();
        }

        let result = if tool.is_idempotent() && !*was_interrupted {
            self.run_again(&unanswered.call, was_interrupted).await
        } else {
            None
        };

        result.unwrap_or_else(|| ToolResult::failed(&unanswered.call, MAY_HAVE_RUN))
    }

    async fn run_again(&self, call: &ToolCall, was_interrupted: &mut bool) -> Option<ToolResult> {
        self.cx.emit_init();
        let start = CallStart::default();
        let runner = self.call_runner(1);
        let outcome = runner.run(call.clone(), &start).await;
        *was_interrupted |= runner.halt.is_interrupted();
        match outcome {
            // A call that has not begun succeeds only by the reply of a person.
            Some(CallOutcome::Done(mut result)) if start.has_begun() || !result.is_error => {
                sanitize::result(&mut result);
                Some(result)
            }
            Some(CallOutcome::Done(_) | CallOutcome::Parked(_)) | None => None,
        }
    }

    /// Replaces the call's preliminary result at `position`, unless a hook has removed it.
    fn replace_result(
        &self,
        unanswered: &UnansweredCall,
        result: &ToolResult,
        position: Option<usize>,
    ) {
        let preliminary_result = unanswered.preliminary_result();
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
