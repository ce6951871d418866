//! The end of a run after a response without calls, unless another response is required.

use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::Arc;

use crate::error::Result;
use crate::hook::{Phases, StopDecision, guard};
use crate::message::Message;
use crate::model::{ModelResponse, StopReason};
use crate::run::{ExitReason, SteeredMessage};
use crate::util::sync::lock;

use super::active_run::ActiveRun;
use super::config::UnfinishedTasks;
use super::exit::exit_for_stop_reason;
use super::sanitize::is_valid_input;
use super::structured_output;

/// The maximum number of times that hooks may keep a run without a turn limit from stopping.
const MAX_CONTINUATIONS: u32 = 100;

impl ActiveRun {
    /// Ends the run, unless steering, the output format or a `before_stop` hook requires another
    /// response.
    pub(super) async fn end_or_continue(
        &mut self,
        response: &Arc<ModelResponse>,
    ) -> Result<ControlFlow<ExitReason>> {
        if self.has_next_input().await {
            return Ok(Continue(()));
        }

        if let Some(flow) = self.read_output(response).await? {
            return Ok(flow);
        }

        let cx = self.cx.clone();
        let hook_future = self.run_before_stop(response);
        match cx.shared().unless_stopped(hook_future).await {
            None => return Ok(Break(self.outcome.record_stop(cx.shared().stop()))),
            Some(None) => {}
            Some(Some(message)) => {
                self.add_message(message).await?;
                return Ok(Continue(()));
            }
        }

        while !self.cx.shared().try_close_steering() {
            if self.discard_unusable_steering() {
                return Ok(Continue(()));
            }
        }

        if let Some(reason) = self.cx.hook_stop_reason() {
            self.outcome.add_error_text(reason);
            return Ok(Break(ExitReason::HookStopped));
        }

        if let Some(StopReason::Other(label)) = &response.stop_reason {
            self.cx.warn(format!(
                "the model reported an unknown stop reason ({label}); it is treated as the end of \
                 the answer"
            ));
        }

        Ok(Break(exit_for_stop_reason(response.stop_reason.as_ref())))
    }

    /// Returns `true` if there is a message for the model. With [`UnfinishedTasks::Await`], waits
    /// for one while background tasks run, unless a hook has stopped the run. Returns `true` as
    /// well if the run is stopped while it waits.
    async fn has_next_input(&self) -> bool {
        let cx = &self.cx;
        let shared = cx.shared();
        let is_awaiting = self.config.limits.unfinished_tasks == UnfinishedTasks::Await;
        loop {
            if self.discard_unusable_steering() {
                return true;
            }

            let has_stopped = cx.hook_stop_reason().is_some();
            if !is_awaiting || has_stopped || cx.tasks().is_empty() {
                return false;
            }

            if shared.unless_stopped(shared.steered()).await.is_none() {
                return true;
            }
        }
    }

    /// Removes steered messages that were sent before, are invalid or cannot fit, because the
    /// response is complete and must not be replaced by an error. Returns `true` if there are
    /// others, which the next turn adds to the history.
    fn discard_unusable_steering(&self) -> bool {
        let inputs = self.cx.state(|state| state.inputs.clone());
        let was_sent = |id: &Arc<str>| inputs.contains(id);
        let mut size_errors = Vec::new();
        let (refused_messages, is_empty) = {
            let steering = &mut lock(&self.cx.shared().control).steering;
            steering.retain(|steered| !steered.id.as_ref().is_some_and(was_sent));
            let is_refused = |steered: &mut SteeredMessage| !is_valid_input(&steered.message);
            let refused_messages: Vec<_> = steering.extract_if(.., is_refused).collect();
            steering.retain(|steered| {
                let error = self.size_error(steered.size());
                let fits = error.is_none();
                size_errors.extend(error);
                fits
            });
            (refused_messages, steering.is_empty())
        };

        for steered in &refused_messages {
            self.history.warn_of_refused(&steered.message);
        }
        for error in &size_errors {
            self.warn_of_unstored(error);
        }
        !is_empty
    }

    /// Parses the text of a response into the value that the caller requested. If it does not match
    /// the output format, the response is sent back, or the run ends once the retries are used up.
    async fn read_output(
        &mut self,
        response: &ModelResponse,
    ) -> Result<Option<ControlFlow<ExitReason>>> {
        let Some(format) = &self.format else {
            return Ok(None);
        };

        let max_values = self.config.settings.response_limits.max_values;
        let correction = match structured_output::read(format, &response.text(), max_values) {
            Ok(value) => {
                self.outcome.structured = Some(Box::new(value));
                return Ok(None);
            }
            Err(correction) => correction,
        };

        if self.recoveries.output_retries >= self.config.limits.output_retries {
            self.outcome.add_error_text(correction);
            return Ok(Some(Break(ExitReason::StructuredOutput)));
        }

        self.recoveries.output_retries += 1;
        let message = Message::human(correction);
        self.add_message(message).await?;
        Ok(Some(Continue(())))
    }

    /// Runs the `before_stop` hooks. Returns the message with which one of them continues the run.
    async fn run_before_stop(&mut self, response: &Arc<ModelResponse>) -> Option<Message> {
        let config = &*self.config;
        for hook in &config.hooks.before_stop {
            let old_state = self.cx.hook_state();
            let future = hook.before_stop(&self.cx, response);
            match guard(&self.cx, &**hook, Phases::BEFORE_STOP, future).await {
                Ok(StopDecision::Stop) => {}
                Ok(StopDecision::Continue(message)) if !is_valid_input(&message) => {
                    self.cx.warn(format!(
                        "hook `{}` returned a message from before_stop that is empty, or neither a \
                         user nor a system message; it was ignored",
                        hook.name()
                    ));
                }
                Ok(StopDecision::Continue(message)) => {
                    self.recoveries.continuations += 1;
                    let has_turn_limit = config.limits.max_turns > 0;
                    if has_turn_limit || self.recoveries.continuations <= MAX_CONTINUATIONS {
                        return Some(message);
                    }

                    self.cx.warn(format!(
                        "hook `{}` continued the run {MAX_CONTINUATIONS} times; the run ends now",
                        hook.name()
                    ));
                }
                Err(error) => {
                    self.cx.restore_hook_state(old_state);
                    self.cx.warn(error.to_string());
                }
            }
        }

        None
    }
}
