//! The loop: call the model, run the tool calls of its response, and repeat.
//!
//! Futures that do not exist while the run waits for the model are boxed: otherwise the future of
//! every waiting run would reserve their size.

use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::Arc;

use futures::FutureExt;

use crate::error::{Error, ErrorKind, Result};
use crate::hook::HookChain;
use crate::message::{MESSAGE_SIZE, PART_SIZE, Part, ToolCall};
use crate::model::{CompactionTrigger, ModelRequest, ModelResponse, StopReason};
use crate::run::{ExitReason, Stop};
use crate::sdk::SystemKind;
use crate::util::Pace;
use crate::util::sync::lock;
use crate::util::text::{quoted, truncate};

use super::active_run::ActiveRun;
use super::attempt::{empty_response, is_empty};
use super::exit::exit_for_error;
use super::part_redactor::redact_response;
use super::request::add_wrap_up_section;
use super::result_limits::cut_text;
use super::sanitize;

/// The length of a refusal's text in an error, in characters.
const REFUSAL_CHARS: usize = 1_000;

/// The recoveries that were tried, so that none is repeated without end.
#[derive(Default)]
pub(super) struct Recoveries {
    /// True if the last response was empty.
    has_empty_response: bool,
    /// True if the next request repeats the current turn.
    repeats_turn: bool,
    /// True if a compaction was tried since the last response with tool calls.
    has_compacted: bool,
    /// The number of responses that did not match the output format and were sent back.
    pub(super) output_retries: u32,
    /// The number of times `before_stop` hooks continued the run.
    pub(super) continuations: u32,
}

/// The kind of a response, by its calls, its content and its stop reason.
#[derive(Debug, PartialEq)]
enum ResponseKind {
    /// It has calls.
    Calls,
    /// It has content, and the model ended it.
    Complete,
    /// It has content, and the provider continues it in the next request.
    Paused,
    /// The model refused.
    Refusal,
    /// The model reached its output limit or the end of the context window.
    Truncated,
    /// It has no content, because a stop sequence came first.
    StopSequence,
    /// It has no content, and its stop reason does not explain that.
    Empty,
}

impl ActiveRun {
    /// Takes turns until there is a reason to end.
    pub(super) async fn take_turns(&mut self) -> Result<ExitReason> {
        let cx = self.cx.clone();
        let mut pace = Pace::default();
        loop {
            pace.step(0).await;

            // The reader receives all messages of a turn before the next one, so that it can stop
            // the run.
            cx.shared().drained().await;
            self.apply_handle_commands().await?;
            if let Some(exit) = self.check_limits() {
                return Ok(exit);
            }

            let response = cx.shared().unless_stopped(self.call_model()).await;
            let flow = match response {
                Some(Ok(response)) => self.handle_response(response).boxed().await?,
                Some(Err(error)) => self.handle_error(error).boxed().await?,
                None => return Ok(self.end_interrupted().boxed().await),
            };

            if let Break(exit) = flow {
                return Ok(exit);
            }

            // The value of a response that another turn follows is not the run's output.
            self.outcome.structured = None;
        }
    }

    /// Handles a failed model call. Continues if a compaction has made the request shorter.
    async fn handle_error(&mut self, error: Error) -> Result<ControlFlow<ExitReason>> {
        if error.kind() == ErrorKind::ResponseTooLarge {
            // A quarter is left for the response of the next run.
            let remaining_bytes = self.history.byte_size.remaining_bytes();
            self.store_partial(remaining_bytes / 4 * 3).await;
        }

        if error.kind() == ErrorKind::ContextTooLong && self.compact_once().await {
            self.repeat_turn();
            return Ok(Continue(()));
        }

        let stop = self.cx.shared().stop();
        if stop != Stop::None {
            self.outcome.add_error_text(error.to_string());
            return Ok(Break(stop.exit_reason()));
        }

        let error = self.history.remove_rejected_input(error).await;
        let exit = exit_for_error(error, &mut self.outcome.error_texts)?;
        if exit == ExitReason::Refused && !self.config.request.keep_refused {
            self.history.remove_refused_inputs();
        }

        Ok(Break(exit))
    }

    /// Applies the commands that handles have sent since the last turn: another model, another
    /// permission mode, messages to the model.
    async fn apply_handle_commands(&mut self) -> Result<()> {
        let cx = self.cx.clone();
        let (steering, model) = {
            let mut control = lock(&cx.shared().control);
            let steering = std::mem::take(&mut control.steering);
            (steering, control.model.take())
        };

        // The size of the outcomes of background tasks that the steering messages announce. Tasks
        // that end later are announced by other messages.
        let outcome_bytes = cx.shared().tasks.outcome_bytes();
        if let Some(model) = model {
            self.cx.set_model(model);
            self.history.context_size.change_model();
        }

        self.cx.apply_requested_mode();
        if !steering.is_empty() && self.add_steering(steering).boxed().await? {
            // The history counts these outcomes from now on.
            cx.shared().tasks.release_outcomes(outcome_bytes);
        }

        Ok(())
    }

    /// Checks the limits before a model call. If one was reached, returns the exit reason, and adds
    /// its text to the errors of the result.
    fn check_limits(&mut self) -> Option<ExitReason> {
        if let Some(exit) = self.check_stop() {
            return Some(exit);
        }

        let max_turns = self.config.limits.max_turns;
        if max_turns > 0 && self.cx.turn() >= max_turns {
            self.outcome
                .add_error_text(format!("the limit of {max_turns} turns is reached"));
            return Some(ExitReason::MaxTurns);
        }

        let (exit, text) = self.cx.budget().exhausted()?;
        self.outcome.add_error_text(text);
        Some(exit)
    }

    /// Calls the model with [`try_call_model`](Self::try_call_model). If a hook fails, restores the
    /// parts of the state that hooks change: the task list, the files and the values.
    async fn call_model(&mut self) -> Result<Arc<ModelResponse>> {
        let hooks = &self.config.hooks;
        let has_hooks = !hooks.modify_request.is_empty() || !hooks.wrap_model_call.is_empty();
        let old_state = has_hooks.then(|| self.cx.hook_state());
        let response = self.try_call_model().await;
        if let (Err(error), Some(old_state)) = (&response, old_state)
            && error.kind() == ErrorKind::Hook
        {
            self.cx.restore_hook_state(old_state);
        }
        response
    }

    /// Prepares a request, passes it through the `wrap_model_call` hooks to the model, and accepts
    /// the response.
    async fn try_call_model(&mut self) -> Result<Arc<ModelResponse>> {
        let is_new_turn = !std::mem::take(&mut self.recoveries.repeats_turn);
        let request = self.prepare_request(is_new_turn).boxed().await?;
        self.history.byte_size.check()?;
        let config = &*self.config;
        let chain = HookChain {
            hooks: config.hooks.wrap_model_call.clone(),
            context: self.cx.clone(),
            core: config.model_core.clone(),
            is_repeatable: true,
        };

        let response = chain.run(request).await?;
        self.accept_response(response).map(Arc::new)
    }

    /// Redacts the secrets that hooks have added to a response, sanitizes it, and counts it in the
    /// history.
    ///
    /// # Errors
    ///
    /// Returns an error if the response is the second empty one in a row, if it exceeds the limit
    /// of the history, or if a secret is in a block of it that must stay as it is.
    fn accept_response(&mut self, mut response: ModelResponse) -> Result<ModelResponse> {
        // The partial response of an attempt that a hook dropped must not be stored by a later
        // interrupt.
        self.cx.discard_partial();
        if !self.config.hooks.wrap_model_call.is_empty() {
            redact_response(&mut response)?;
        }
        sanitize::response(&mut response);
        self.history.call_ids.claim(&mut response);
        let len = self.cx.state(|state| state.messages.len());
        self.history.context_size.report(&response.usage, len);
        if self.recoveries.has_empty_response && kind_of(&response) == ResponseKind::Empty {
            return Err(empty_response(self.cx.model().id()));
        }

        if let Err(error) = self.history.byte_size.admit(&response) {
            // Its text stays, like the text of a response that alone is too large.
            self.cx.keep_partial(response);
            return Err(error);
        }

        Ok(response)
    }

    /// Prepares a turn and builds its request. `is_new_turn` is `false` if the request repeats the
    /// turn.
    async fn prepare_request(&mut self, is_new_turn: bool) -> Result<ModelRequest> {
        let config = self.config.clone();
        self.cx.set_turn(self.cx.turn() + 1);
        if is_new_turn {
            self.cx.reset_attempts();
        }
        self.tools.refresh(&config, &self.cx).await;
        self.compacting().compact_if_due().await;
        add_wrap_up_section(&config, &self.cx);
        let format = self.format.as_ref();
        self.requests.build(&config, &self.cx, format).await
    }

    /// Compacts the history, unless that was tried since the last response with tool calls. Returns
    /// `true` if the history is shorter now.
    async fn compact_once(&mut self) -> bool {
        !std::mem::replace(&mut self.recoveries.has_compacted, true) && self.compact().await
    }

    /// Compacts the history. Returns `false` if it stays as it is or the run is stopped first.
    pub(super) async fn compact(&mut self) -> bool {
        let cx = self.cx.clone();
        let mut compacting = self.compacting();
        let compaction = compacting.compact(CompactionTrigger::Auto).boxed();
        cx.shared().unless_stopped(compaction).await == Some(true)
    }

    /// Acts on a response: stores it and runs its calls, repeats the turn, or ends the run.
    async fn handle_response(
        &mut self,
        response: Arc<ModelResponse>,
    ) -> Result<ControlFlow<ExitReason>> {
        let truncation_note = truncated_calls_note(&response.cut_calls);
        if let Some(note) = &truncation_note {
            self.cx.warn(note);
        }

        match kind_of(&response) {
            ResponseKind::Calls => self.run_calls_of(response, truncation_note).await,
            ResponseKind::Complete => {
                let (response, _) = self.store_response(response, &[]).await?;
                self.end_or_continue(&response).boxed().await
            }
            ResponseKind::Paused => {
                self.store_response(response, &[]).await?;
                Ok(Continue(()))
            }
            ResponseKind::Refusal => {
                self.handle_refusal(response).boxed().await?;
                Ok(Break(ExitReason::Refused))
            }
            ResponseKind::Truncated => self.handle_truncated(response).boxed().await,
            ResponseKind::StopSequence => {
                self.outcome.last_response = Some(response);
                Ok(Break(ExitReason::StopSequence))
            }
            ResponseKind::Empty => {
                self.recoveries.has_empty_response = true;
                self.cx
                    .warn("the model returned an empty answer; the request is repeated once");
                self.repeat_turn();
                Ok(Continue(()))
            }
        }
    }

    /// Stores a response and runs its calls. `truncation_note` is added to the last result.
    async fn run_calls_of(
        &mut self,
        response: Arc<ModelResponse>,
        truncation_note: Option<String>,
    ) -> Result<ControlFlow<ExitReason>> {
        self.recoveries.has_compacted = false;
        let calls: Vec<_> = response.tool_calls().cloned().collect();
        let (_, starts) = self.store_response(response, &calls).await?;
        let note = truncation_note.map(|note| format!("Note: {note}."));
        let exit = self.run_calls(calls, &starts, note).boxed().await?;
        Ok(exit.map_or(Continue(()), Break))
    }

    /// Stores a response, which becomes the run's output. Returns it as stored, and the ids of the
    /// calls whose starts are stored with it.
    async fn store_response(
        &mut self,
        response: Arc<ModelResponse>,
        calls: &[ToolCall],
    ) -> Result<(Arc<ModelResponse>, Vec<Arc<str>>)> {
        self.recoveries.has_empty_response = false;

        // Set before the next step, so that the output has the response if that step fails.
        self.outcome.last_response = Some(response.clone());
        let starts = self.starts_to_store(calls).await;
        let response = self.history.store_response(response, &starts).await?;
        self.outcome.last_response = Some(response.clone());
        Ok((response, starts))
    }

    /// Returns the ids of the calls whose starts are stored with the response. There are none if
    /// the response continues the previous message: that write stores the whole state, which
    /// removes the recorded starts of calls.
    async fn starts_to_store(&self, calls: &[ToolCall]) -> Vec<Arc<str>> {
        if calls.is_empty() || self.history.ends_with_response() {
            return Vec::new();
        }
        self.certain_starts(calls).await
    }

    /// Makes the next request repeat this turn. The turn counts once, and messages that were
    /// emitted for it are superseded.
    fn repeat_turn(&mut self) {
        self.cx.set_turn(self.cx.turn().saturating_sub(1));
        self.recoveries.repeats_turn = true;
        if let Some((attempt, first)) = self.cx.supersede_attempt() {
            self.cx.emit(SystemKind::StreamRestart {
                attempt,
                supersedes: vec![first],
            });
        }
    }

    /// Compacts to make room for a longer response. Returns `true` on success.
    async fn make_room(&mut self) -> bool {
        self.compacting().is_too_long().await && self.compact_once().await
    }

    /// Repeats the turn if a compaction makes room for a longer response. Otherwise stores the
    /// truncated response and ends the run.
    async fn handle_truncated(
        &mut self,
        response: Arc<ModelResponse>,
    ) -> Result<ControlFlow<ExitReason>> {
        if self.make_room().await {
            // The run's output, should the repeated call fail.
            self.outcome.last_response = Some(response);
            self.repeat_turn();
            return Ok(Continue(()));
        }

        if has_nothing_to_store(&response) {
            self.outcome.last_response = Some(response);
        } else {
            self.store_response(response, &[]).await?;
        }
        Ok(Break(ExitReason::MaxTokens))
    }

    /// Stores a refusal if the agent keeps refused inputs. Otherwise removes the inputs of this run
    /// from the history, unless they have a response: the provider would refuse them again.
    async fn handle_refusal(&mut self, response: Arc<ModelResponse>) -> Result<()> {
        let text = response.text();
        let text = truncate(&text, REFUSAL_CHARS);
        self.outcome
            .add_error_text(format!("the model refused: {text}"));
        if self.config.request.keep_refused {
            if !response.content.is_blank() {
                self.history.store_response(response.clone(), &[]).await?;
            }
        } else {
            self.history.remove_refused_inputs();
        }

        self.outcome.last_response = Some(response);
        Ok(())
    }

    /// Stores the partial response of a run that was stopped, and returns the exit reason.
    async fn end_interrupted(&mut self) -> ExitReason {
        let exit = self.outcome.record_stop(self.cx.shared().stop());
        self.store_partial(self.history.byte_size.remaining_bytes())
            .await;
        exit
    }

    /// Stores the text of a partial response in a message of up to `max_bytes`, unless the agent
    /// discards partial responses.
    async fn store_partial(&mut self, max_bytes: usize) {
        let Some(mut partial) = self.cx.take_partial() else {
            return;
        };

        partial
            .content
            .parts_mut()
            .retain(|part| matches!(part, Part::Text(_)));
        // The history counts the structure around the texts as well.
        let structure = partial.content.parts().len().saturating_mul(PART_SIZE);
        let max_text = max_bytes.saturating_sub(MESSAGE_SIZE.saturating_add(structure));
        cut_text(&mut partial.content, max_text);
        if !self.config.request.keep_interrupted || is_empty(&partial) {
            return;
        }

        let partial = Arc::new(partial);
        if let Err(error) = self.history.store_partial_response(partial.clone()).await {
            let text = format!("the interrupted answer was not stored: {error}");
            self.cx.warn(text);
        }

        self.outcome.last_response = Some(partial);
    }
}

/// Returns `true` if a response has nothing to store. A paused response may consist of the
/// provider's own blocks alone.
fn has_nothing_to_store(response: &ModelResponse) -> bool {
    let is_paused = response.stop_reason == Some(StopReason::PauseTurn);
    is_empty(response) && (!is_paused || response.content.is_blank())
}

/// Returns the kind of a response.
fn kind_of(response: &ModelResponse) -> ResponseKind {
    if response.tool_calls().next().is_some() {
        return ResponseKind::Calls;
    }

    let has_content = !has_nothing_to_store(response);
    match response.stop_reason {
        Some(StopReason::Refusal) => ResponseKind::Refusal,
        Some(StopReason::MaxTokens | StopReason::ContextWindow) => ResponseKind::Truncated,
        Some(StopReason::StopSequence) if !has_content => ResponseKind::StopSequence,
        Some(StopReason::PauseTurn) if has_content => ResponseKind::Paused,
        _ if has_content => ResponseKind::Complete,
        _ => ResponseKind::Empty,
    }
}

/// Describes the calls that have no end because the response was truncated; `None` if there are
/// none.
fn truncated_calls_note(names: &[Arc<str>]) -> Option<String> {
    let first_name = names.first()?;
    let others = match names.len() - 1 {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    Some(format!(
        "the answer reached its output limit within a call of {}{others}, which did not run",
        quoted(first_name)
    ))
}

#[cfg(test)]
mod tests {
    use super::ResponseKind::{Calls, Complete, Empty, Paused, Refusal, Truncated};
    use super::*;
    use crate::message::{Content, ProviderBlock};

    #[test]
    fn kind_of_a_response_depends_on_calls_then_stop_reason_then_content() {
        let call = || {
            vec![Part::ToolCall(ToolCall::new(
                "1",
                "f",
                serde_json::json!({}),
            ))]
        };
        let text = || vec![Part::text("x")];
        let blank = || vec![Part::text(" ")];
        let raw = serde_json::value::to_raw_value(&0).unwrap();
        let own_block = vec![Part::Opaque(ProviderBlock::new("p", raw))];
        let other = || Some(StopReason::Other("odd".into()));
        let cases = [
            (call(), Some(StopReason::Refusal), Calls),
            (call(), None, Calls),
            (text(), Some(StopReason::Refusal), Refusal),
            (text(), Some(StopReason::MaxTokens), Truncated),
            (text(), Some(StopReason::PauseTurn), Paused),
            (text(), Some(StopReason::StopSequence), Complete),
            (text(), other(), Complete),
            (text(), None, Complete),
            (own_block, Some(StopReason::PauseTurn), Paused),
            (vec![], Some(StopReason::Refusal), Refusal),
            (vec![], Some(StopReason::ContextWindow), Truncated),
            (
                vec![],
                Some(StopReason::StopSequence),
                ResponseKind::StopSequence,
            ),
            (vec![], Some(StopReason::PauseTurn), Empty),
            (blank(), Some(StopReason::EndTurn), Empty),
            (vec![], Some(StopReason::ToolUse), Empty),
            (vec![], other(), Empty),
        ];
        for (parts, stop_reason, kind) in cases {
            let mut response = ModelResponse::new(Content::from(parts));
            response.stop_reason = stop_reason;
            assert_eq!(kind_of(&response), kind, "{response:?}");
        }
    }
}
