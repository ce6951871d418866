//! The input of a run: checked, stored and repaired, or recognized as one that was sent before.

use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::message::{Messages, Role};
use crate::model::{ModelResponse, Stability};
use crate::run::{ExitReason, RunContext};
use crate::session::{AgentState, InputState, MessageInfo, PendingCall};

use super::active_run::ActiveRun;
use super::call_ids::CallIds;
use super::exit::exit_for_stop_reason;
use super::structured_output;

/// The warning about a summary whose messages a hook has changed.
pub(super) const STALE_COMPACTION: &str =
    "a hook changed messages that a summary replaces; the summary was dropped";

/// The maximum size of the leading system messages of an input in all calls that a response leaves
/// pending, in bytes. Longer ones are not stored.
const MAX_PENDING_PROMPTS: usize = 1024 * 1024;

/// The text of the leading system messages of the input, as a value of the run.
pub(super) struct InputPrompt(Arc<str>);

/// Adds the leading system messages of the input to calls that stay pending: the run that resumes
/// them continues to answer the input.
pub(super) fn add_input_prompt(cx: &RunContext, calls: &mut [PendingCall]) {
    let Some(prompt) = cx.value::<InputPrompt>() else {
        return;
    };

    let size = prompt.0.len().saturating_mul(calls.len());
    if size > MAX_PENDING_PROMPTS {
        cx.warn(format!(
            "the system messages of the input are not stored with the pending calls, and will be \
             missing when these are decided: {size} bytes are more than {MAX_PENDING_PROMPTS}"
        ));
        return;
    }

    for call in calls {
        call.input_prompt = Some(prompt.0.clone());
    }
}

impl ActiveRun {
    /// Stores the input, adds it to the history, and repairs the history.
    pub(super) async fn store_input(
        &mut self,
        input: Messages,
        id: Option<Arc<str>>,
    ) -> Result<()> {
        let mut repaired_input = input.clone();
        if !repaired_input.repair().is_empty() {
            // The repair of the history adds results to calls without one.
            let messages = repaired_input.as_slice();
            self.history.byte_size.check_input(messages)?;
        }
        let size = self.history.byte_size.check_input(input.as_slice())?;
        let start = self.history.initial_len;
        self.cx.state(AgentState::settle_inputs);
        self.history
            .append_input(input.clone(), id.clone(), size)
            .await?;
        if self.repair_input() {
            self.history.call_ids = self.cx.state(|state| CallIds::of(&state.messages));
        } else {
            self.history.call_ids.add(input.as_slice());
        }

        if let Some(id) = id {
            self.cx.state(|state| {
                let len = state.messages.len();
                state.inputs.begin(id, start.min(len)..len);
                state.inputs.drop_oldest();
            });
        }

        Ok(())
    }

    /// Handles an input that was sent before, and emits the response that it has already. Returns
    /// the exit reason if the run has nothing left to do.
    pub(super) async fn handle_repeated_input(&mut self, id: &str) -> Result<Option<ExitReason>> {
        let (messages, inputs, infos, has_pending) = self.cx.state(|state| {
            let has_pending = !state.pending.is_empty();
            let inputs = state.inputs.clone();
            let infos = state.infos.clone();
            (state.messages.clone(), inputs, infos, has_pending)
        });

        match inputs.find(id, &messages) {
            Some(InputState::WithResponse(at, message)) => {
                let mut response = ModelResponse::new(message.content.clone());
                let info = infos.get(at);
                let reason = info.and_then(|info| info.stop_reason.clone());
                response.stop_reason = reason.or(response.stop_reason);
                if let Some(message) = messages.as_slice().get(at) {
                    let message = message.clone();
                    self.history.emit_earlier_response(message, info, &response);
                }
                let exit = self.read_earlier_response(&response);
                self.outcome.last_response = Some(Arc::new(response));
                Ok(Some(exit))
            }
            Some(InputState::Open(_)) if has_pending => Ok(Some(ExitReason::AwaitingApproval)),
            Some(InputState::Open(from)) => {
                self.history.initial_len = from;
                self.remove_partial_response().await?;
                Ok(None)
            }
            Some(InputState::Lost) | None => Err(Error::new(
                ErrorKind::Conflict,
                format!(
                    "the input {id:?} was sent before, but the history has been changed since and \
                     its answer is no longer known; read the history, or send the input with a new \
                     id"
                ),
            )),
        }
    }

    /// Reads the earlier response in the output format of this run, and returns its exit reason.
    fn read_earlier_response(&mut self, response: &ModelResponse) -> ExitReason {
        let exit = exit_for_stop_reason(response.stop_reason.as_ref());
        let is_whole = matches!(exit, ExitReason::EndTurn | ExitReason::StopSequence);
        let format = self.format.as_ref().filter(|_| is_whole);
        let max_values = self.config.settings.response_limits.max_values;
        match format.map(|format| structured_output::read(format, &response.text(), max_values)) {
            None => exit,
            Some(Ok(value)) => {
                self.outcome.structured = Some(Box::new(value));
                exit
            }
            Some(Err(correction)) => {
                self.outcome.add_error_text(correction);
                ExitReason::StructuredOutput
            }
        }
    }

    /// Removes a partial response from the history, so that its input gets a complete one. Few
    /// models can continue in the middle of a text.
    async fn remove_partial_response(&mut self) -> Result<()> {
        let mut state = self.cx.state_copy();
        let [history @ .., last] = state.messages.as_slice() else {
            return Ok(());
        };

        let is_partial = |info: &MessageInfo| info.aborted;
        if last.role() != Role::Assistant
            || !state.message_info(history.len()).is_some_and(is_partial)
        {
            return Ok(());
        }

        let old_messages = state.messages.clone();
        state.messages = history.iter().cloned().collect();
        state.retain_positions(&old_messages);
        if state.drop_stale_compaction(&old_messages) {
            self.cx.warn(STALE_COMPACTION);
        }

        self.cx.set_state(state);
        self.history.recount();
        self.history.save().await
    }

    /// Adds the leading system messages of the input to the system prompt, or else those of an
    /// earlier input that this run continues to answer; returns the other messages, which follow
    /// the history so far.
    pub(super) fn split_input(
        &self,
        input: &Messages,
        earlier_prompt: Option<Arc<str>>,
    ) -> Result<Messages> {
        let (prompt, input) = input.split_system();
        if let Some(text) = prompt.or(earlier_prompt) {
            self.cx.set_value(InputPrompt(text.clone()));
            self.cx.system().set("input", text, Stability::Stable);
        }

        if input.is_empty() && self.history.initial_len == 0 {
            let text = "messages must not be empty in a new session; send at least one";
            return Err(Error::new(ErrorKind::InvalidMessages, text));
        }

        Ok(input)
    }

    /// Repairs the history after an input that may not follow it: an assistant message, or results
    /// without a call. Returns `true` if the history was changed.
    fn repair_input(&mut self) -> bool {
        let requests = &mut self.requests;
        let repairs = self.cx.state(|state| requests.repair_history_of(state));
        if repairs.is_empty() {
            return false;
        }
        self.cx.warn(format!(
            "the input was repaired to fit the history: {repairs}"
        ));
        true
    }
}

/// Validates the input: by the strict rules if it has only messages of the user, otherwise by the
/// rules for histories.
pub(super) fn check_input(input: &Messages) -> Result<()> {
    if input.is_empty() {
        return Ok(());
    }
    if input.iter().all(|message| message.role().is_user_input()) {
        input.validate_user_input()?;
    } else {
        input.validate()?;
    }
    Ok(())
}
