//! The closing of a run, after the loop: the hooks, the store, the result.

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::hook::{Phases, guard};
use crate::message::{Message, Messages};
use crate::run::{
    CLOSING_TIME, ExitReason, ModelStats, RunContext, RunOutput, SteeredMessage, Stop,
};
use crate::sdk::{ModelUsage, ResultMessage, SdkMessage};
use crate::session::AgentState;
use crate::util::panic;
use crate::util::secret::{Cut, redact_cut, redacted};
use crate::util::sync::lock;
use crate::util::text::head;

use super::active_run::{ActiveRun, RunOutcome};
use super::run_input::STALE_COMPACTION;

/// The maximum number of characters of a discarded message in the warning about it.
const MAX_DISCARDED_TEXT: usize = 200;

impl ActiveRun {
    /// Ends the run: stores late messages, runs the `after_agent` hooks, saves the session, emits
    /// the result message and releases the lease, in this order.
    pub(super) async fn close(mut self: Box<Self>, end: Result<ExitReason>) -> Result<RunOutput> {
        let (exit, error) = self.outcome.record_end(end);
        if let Err(text) = panic::catch_async(self.store_late_messages()).await {
            self.cx.warn(format!("closing the run panicked: {text}"));
        }

        if let Err(text) = panic::catch_async(self.finish_state()).await {
            self.cx.warn(format!("saving the session panicked: {text}"));
        }

        let Self {
            cx,
            history,
            outcome,
            ..
        } = *self;
        let output = outcome.output(&cx, exit);
        let reason = outcome.terminal_reason(exit, error.as_ref());
        outcome.send_result(&cx, &output, reason);

        // The lease is released before the end of the run becomes visible.
        drop(history);
        finish(&cx, output, error)
    }

    /// Stores messages that arrived after the last turn, for the next run.
    async fn store_late_messages(&mut self) {
        let mut late_messages = VecDeque::from(take_late_messages(&self.cx));
        late_messages.extend(end_tasks(&self.cx));
        self.cx.state(AgentState::settle_inputs);
        // The history may end with pending calls. Their results are inserted before these messages
        // later.
        while let Err(error) = self.history.add_inputs(&mut late_messages).await {
            let is_too_large = error.kind() == ErrorKind::RequestTooLarge;
            // A failing store would fail for the other messages as well.
            let count = 1 + if is_too_large { 0 } else { late_messages.len() };
            self.cx.warn(format!(
                "messages that arrived after the last turn were not stored ({count}): {error}"
            ));
            if !is_too_large {
                break;
            }
        }
    }

    /// Adds the outcome of the run to the state, runs the `after_agent` hooks, repairs the history
    /// and stores the state.
    async fn finish_state(&mut self) {
        self.add_outcome_to_state();
        if !self.config.hooks.after_agent.is_empty() {
            let old_messages = self.cx.state(|state| state.messages.clone());
            if let Err(text) = panic::catch_async(self.run_after_agent_hooks(&old_messages)).await {
                self.cx.warn(format!("after_agent panicked: {text}"));
            }
            self.cx.state(|state| state.retain_positions(&old_messages));
        }

        let requests = &mut self.requests;
        let repairs = self.cx.state(|state| requests.repair_history_of(state));
        if !repairs.is_empty() {
            self.cx.warn(format!(
                "the history was repaired at the run's end: {repairs}"
            ));
        }

        if let Err(error) = self.history.save().await {
            self.cx.warn(format!(
                "the session was not saved at the run's end: {error}"
            ));
        }
    }

    fn add_outcome_to_state(&self) {
        let usage = self.cx.usage();
        self.cx.state(|state| {
            state.response = self.outcome.last_response.clone();
            state.usage = Some(usage);
            let initial_len = self.history.initial_len.min(state.messages.len());
            state.output_messages = state.messages.without_first(initial_len);
        });
    }

    /// Runs the `after_agent` hooks, each on the state that the previous hook returned. The history
    /// before them is `old_messages`.
    async fn run_after_agent_hooks(&mut self, old_messages: &Messages) {
        let config = &*self.config;
        let mut state = self.cx.state_copy();
        let mut grace = None;
        for hook in &config.hooks.after_agent {
            self.cx.replace_state(state.clone());
            let future = hook.after_agent(&self.cx, state.clone());
            let guarded_future = guard(&self.cx, &**hook, Phases::AFTER_AGENT, future);

            // Once the run is stopped, all hooks together are limited, in addition to the limit of
            // each.
            let shared = self.cx.shared();
            let hook_result = shared.within_grace(&mut grace, guarded_future).await;
            match hook_result.unwrap_or_else(|| Err(after_agent_timeout_error(hook.name()))) {
                Ok(mut changed) => {
                    self.cx.adopt_state(&state, &mut changed);
                    state = changed;
                }
                Err(error) => self.cx.warn(error.to_string()),
            }
        }

        if state.drop_stale_compaction(old_messages) {
            self.cx.warn(STALE_COMPACTION);
        }

        self.cx.replace_state(state);
    }
}

/// Ends a run whose session was not opened, because that failed or the run was stopped first.
pub(super) async fn close_unopened(cx: &RunContext, end: Result<Stop>) -> Result<RunOutput> {
    let mut outcome = RunOutcome::default();
    let end = end.map(|stop| outcome.record_stop(stop));
    let (exit, error) = outcome.record_end(end);
    let close_outcome = panic::catch(|| {
        cx.emit_init();
        for steered in take_late_messages(cx) {
            cx.warn(discarded_text(&steered.message));
        }

        end_tasks(cx);
        cx.state(AgentState::settle_inputs);
    });

    if let Err(text) = close_outcome {
        cx.warn(format!("closing the run panicked: {text}"));
    }

    let output = outcome.output(cx, exit);
    let reason = match &error {
        Some(_) => "turn_setup_failed",
        None => exit.terminal_reason(),
    };

    outcome.send_result(cx, &output, reason);
    finish(cx, output, error)
}

/// Returns the warning about a message that no run has read.
fn discarded_text(message: &Message) -> String {
    let text = message.text();
    let (start, omitted_chars) = head(&text, MAX_DISCARDED_TEXT);
    let mut start = start.to_owned();
    let mut end = String::new();
    if omitted_chars > 0 {
        redact_cut(&mut start, Cut::End);
        end = format!("... ({} bytes)", text.len());
    }
    format!(
        "a message arrived too late and was discarded; send it again in the next run: {start}{end}"
    )
}

/// Stops accepting messages, and takes the messages that no turn has read.
fn take_late_messages(cx: &RunContext) -> Vec<SteeredMessage> {
    cx.shared().close_steering();
    let mut control = lock(&cx.shared().control);
    let late_messages = std::mem::take(&mut control.steering);
    let should_compact = std::mem::take(&mut control.should_compact);
    drop(control);
    if should_compact {
        cx.warn("a compaction was requested after the last model call; request it again in the next run");
    }
    late_messages
}

/// Ends the background tasks that have not ended. Returns the messages for the model about them.
fn end_tasks(cx: &RunContext) -> Vec<SteeredMessage> {
    cx.tasks()
        .close()
        .into_iter()
        .map(|task| Message::human(task.announce(cx.shared())).into())
        .collect()
}

/// Makes the end of the run visible to its handles, and returns its output or its error.
fn finish(cx: &RunContext, output: RunOutput, error: Option<Error>) -> Result<RunOutput> {
    cx.shared().finish(output.end, output.state.clone());
    match error {
        None => Ok(output),
        // If the caller is a hook of another run, that run attributes the error to the hook.
        Some(error) => Err(error.unattributed().attach(Arc::new(output))),
    }
}

impl RunOutcome {
    /// Splits the end of the run into its exit reason and its error, and adds the text of the error
    /// to the errors of the result.
    fn record_end(&mut self, end: Result<ExitReason>) -> (ExitReason, Option<Error>) {
        match end {
            Ok(exit) => (exit, None),
            Err(error) => {
                self.add_error_text(error.to_string());
                (ExitReason::Error, Some(error))
            }
        }
    }

    fn output(&self, cx: &RunContext, exit: ExitReason) -> RunOutput {
        let state = cx.state_copy();
        let text = self
            .last_response
            .as_ref()
            .map(|response| response.text().into_owned());
        let cost = cx.cost();
        let stats = lock(&cx.shared().stats);
        RunOutput {
            text: text.unwrap_or_default(),
            messages: state.messages.clone(),
            state,
            usage: stats.usage,
            cost,
            turns: stats.turns,
            end: exit,
            session_id: cx.session_id().clone(),
            permission_denials: stats.permission_denials.clone(),
            structured: self.structured.as_deref().cloned(),
        }
    }

    fn send_result(&self, cx: &RunContext, output: &RunOutput, reason: &str) {
        let (api_time, time_to_first_token, model_usage) = {
            let stats = lock(&cx.shared().stats);
            let child_models = lock(&cx.shared().child_models);
            let usage = total_model_usage(&stats.by_model, &child_models);
            (stats.api_time, stats.time_to_first_token, usage)
        };

        let mut result = ResultMessage::new(cx.shared().envelope(), output.end.subtype());
        result.duration_ms = millis(cx.started().elapsed());
        result.duration_api_ms = millis(api_time);
        result.num_turns = output.turns;
        result.stop_reason = self
            .last_response
            .as_ref()
            .and_then(|last| last.stop_reason.as_ref())
            .map(|reason| reason.as_str().into());
        result.total_cost_usd = output.cost;
        result.usage = output.usage;
        result.model_usage = model_usage;
        result.permission_denials = output.permission_denials.clone();
        result.structured_output = output.structured.clone();
        result.terminal_reason = Some(reason.into());
        result.ttft_ms = time_to_first_token.map(millis);
        if output.end.is_success() {
            result.result = Some(output.text.clone());
        } else {
            result.errors = self.errors(output.end);
        }

        cx.shared().push(SdkMessage::Result(Box::new(result)));
    }

    fn terminal_reason(&self, exit: ExitReason, error: Option<&Error>) -> &'static str {
        match error.map(Error::kind) {
            Some(ErrorKind::ContextTooLong) => "prompt_too_long",
            Some(ErrorKind::EmptyResponse | ErrorKind::ResponseTooLarge) => "model_error",
            None if self.was_stopped_in_tools && exit != ExitReason::MaxDuration => "aborted_tools",
            _ => exit.terminal_reason(),
        }
    }

    fn errors(&self, exit: ExitReason) -> Vec<String> {
        if self.error_texts.is_empty() {
            vec![format!("the run ended: {exit}")]
        } else {
            self.error_texts
                .iter()
                .map(|text| redacted(text).into_owned())
                .collect()
        }
    }
}

fn after_agent_timeout_error(hook: &str) -> Error {
    Error::new(
        ErrorKind::Hook,
        format!(
            "hook `{hook}` was still running after_agent {CLOSING_TIME:?} after the run was \
             stopped; it was cancelled and its changes are lost"
        ),
    )
}

/// Returns the usage of a run and of its child runs, by model.
fn total_model_usage(
    own_models: &BTreeMap<Arc<str>, ModelStats>,
    child_models: &BTreeMap<Arc<str>, ModelStats>,
) -> BTreeMap<Arc<str>, ModelUsage> {
    if child_models.is_empty() {
        return model_usage(own_models);
    }

    // Added last: a child may have other limits for the same model.
    let mut models = child_models.clone();
    for (model, usage) in own_models {
        usage.clone().add_to(&mut models, model);
    }
    model_usage(&models)
}

fn model_usage(models: &BTreeMap<Arc<str>, ModelStats>) -> BTreeMap<Arc<str>, ModelUsage> {
    let usage = models.iter().map(|(model, stats)| {
        let usage = ModelUsage::new(stats.usage, stats.cost_usd)
            .with_limits(stats.context_window, stats.max_output_tokens);
        (model.clone(), usage)
    });
    usage.collect()
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warning_about_a_discarded_message_has_the_start_of_its_text() {
        let short = discarded_text(&Message::human("hello"));
        assert!(short.ends_with("next run: hello"), "{short}");
        let long = discarded_text(&Message::human("x".repeat(1_000_000)));
        assert!(long.len() < 400, "{} bytes", long.len());
        assert!(long.ends_with("xxx... (1000000 bytes)"), "{long}");
    }
}
