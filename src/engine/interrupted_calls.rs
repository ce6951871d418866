//! The second execution of calls that had no result when their run was dropped.

use std::sync::Arc;

use crate::message::{Message, ToolCall, ToolResult};

use super::active_run::ActiveRun;
use super::call_starts::CallStart;
use super::restore::{MAY_HAVE_RUN, UnansweredCall, result_positions};
use super::sanitize;
use super::tool_call::CallOutcome;

/// The results of rerunning calls that had none.
#[derive(Default)]
pub(super) struct RerunResults {
    pub(super) results: Vec<ToolResult>,
    /// True if the gate requires the run to end.
    pub(super) was_interrupted: bool,
}

impl ActiveRun {
    /// Runs the calls again that may have begun and whose tools are idempotent, in order. They pass
    /// hooks and the permission gate again. A call that may not run, and one whose tool may not run
    /// twice, gets the result with the note that it may have run.
    ///
    /// The start of a call that changes nothing is not stored, so it may have begun in any case.
    ///
    /// Stores nothing before all calls are done, so a run that is dropped meanwhile leaves them
    /// without a result.
    pub(super) async fn rerun(&mut self, open_calls: Vec<UnansweredCall>) -> RerunResults {
        let mut rerun = RerunResults::default();
        if open_calls.is_empty() {
            return rerun;
        }

        let places = self.cx.state(|state| result_positions(&state.messages));
        for unanswered in open_calls {
            let result = self
                .result_of(&unanswered, &mut rerun.was_interrupted)
                .await;
            self.replace_result(
                &unanswered,
                &result,
                places.get(&unanswered.call.id).copied(),
            );
            self.history.count(&result);
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
            // Without a start, only the reply of a person succeeds.
            Some(CallOutcome::Done(mut result)) if start.has_begun() || !result.is_error => {
                sanitize::result(&mut result);
                Some(result)
            }
            Some(CallOutcome::Done(_) | CallOutcome::Parked(_)) | None => None,
        }
    }

    /// Replaces the call's preliminary result at `place`, unless a hook has removed that.
    fn replace_result(
        &self,
        unanswered: &UnansweredCall,
        result: &ToolResult,
        place: Option<usize>,
    ) {
        let answer = unanswered.preliminary_result();
        self.cx.state(|state| {
            let message = place.and_then(|place| state.messages.get(place));
            if let (Some(place), Some(message)) = (place, message)
                && message.as_tool_result() == Some(&answer)
            {
                let message = Message::Tool(result.clone());
                state.messages.replace(place, Arc::new(message));
            }
        });
    }
}
