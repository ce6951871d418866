//! The request of a turn.

use std::sync::Arc;

use futures::FutureExt;

use crate::error::{Error, ErrorKind, Result};
use crate::hook::{Phases, guard};
use crate::message::{Message, Messages, ModelCheck, Repairs, ValidationError};
use crate::model::{Compaction, ModelRequest, ResponseFormat, ResponseVisibility, Stability};
use crate::run::{OutputFormat, RunContext};
use crate::session::AgentState;

use super::config::Config;

/// Builds the requests of a run. It remembers which messages it has checked, so that each turn
/// checks only the new ones.
#[derive(Default)]
pub(super) struct RequestBuilder {
    /// One check for the history, and one for the result of each hook.
    checks: Vec<ModelCheck>,
    /// The message that replaces the compacted messages, made once.
    summary: Option<(Compaction, Arc<Message>)>,
}

impl RequestBuilder {
    /// Builds the request of this turn: the history, changed by the `modify_request` hooks, with
    /// the agent's options.
    pub(super) async fn build(
        &mut self,
        config: &Config,
        cx: &RunContext,
        output: Option<&OutputFormat>,
    ) -> Result<ModelRequest> {
        let messages = self.checked_history(config, cx)?;
        let messages = self.run_modify_hooks(config, cx, messages).await?;
        let visibility = if config.settings.partial_messages {
            ResponseVisibility::Events
        } else {
            ResponseVisibility::Whole
        };
        Ok(assemble(config, cx, output, messages)
            .with_provider_cache(cx.provider_cache().clone())
            .with_visibility(visibility))
    }

    /// Builds the request of this turn to count its tokens, not to send it: without the changes of
    /// `modify_request` hooks, which run once for each request that is sent. The run's provider
    /// cache is only read: it expects each request to continue the request sent before.
    pub(super) fn build_unmodified(
        &mut self,
        config: &Config,
        cx: &RunContext,
        output: Option<&OutputFormat>,
    ) -> Result<ModelRequest> {
        let messages = self.checked_history(config, cx)?;
        let cache = cx.provider_cache().read_only();
        Ok(assemble(config, cx, output, messages).with_provider_cache(cache))
    }

    /// Returns the history to send, repaired if it is invalid.
    fn checked_history(&mut self, config: &Config, cx: &RunContext) -> Result<Messages> {
        let messages = self.history_to_send(cx);
        self.add_checks(config.hooks.modify_request.len() + 1);
        match self.checks[0].check(&messages) {
            Ok(()) => Ok(messages),
            Err(problem) => self.repair_history(cx, &problem),
        }
    }

    /// Repairs a history that became invalid during the run. The loop keeps it valid; this is for
    /// changes by hooks and tools.
    fn repair_history(&mut self, cx: &RunContext, problem: &ValidationError) -> Result<Messages> {
        let repairs = cx.state(AgentState::repair);
        cx.warn(format!("the history was repaired ({problem}): {repairs}"));
        let messages = self.history_to_send(cx);
        self.checks[0].check(&messages)?;
        Ok(messages)
    }

    /// Adds checks until there are `count`.
    fn add_checks(&mut self, count: usize) {
        let missing_count = count.saturating_sub(self.checks.len());
        self.checks.reserve_exact(missing_count);
        self.checks
            .extend(std::iter::repeat_with(ModelCheck::default).take(missing_count));
    }

    /// Repairs the history of a state, except for its pending calls. Messages that were checked
    /// before are skipped, and the next request finds all of them checked.
    pub(super) fn repair_history_of(&mut self, state: &mut AgentState) -> Repairs {
        self.add_checks(1);
        let old_messages = state.messages.clone();
        let pending_ids = state.pending_call_ids();
        let repairs = self.checks[0].ensure(&mut state.messages, &pending_ids);
        if !repairs.is_empty() {
            state.retain_positions(&old_messages);
        }
        repairs
    }

    /// Returns the history as it is sent: with a summary instead of the messages that it covers,
    /// and without leading system messages, which become a section of the system prompt.
    fn history_to_send(&mut self, cx: &RunContext) -> Messages {
        let (messages, compaction) =
            cx.state(|state| (state.messages.clone(), state.compaction.clone()));
        let system_count = set_system_section(cx, &messages);
        match compaction {
            Some(compaction) if compaction.through_message > system_count => {
                self.summarized(&messages, compaction)
            }
            _ if system_count > 0 => messages.as_slice()[system_count..]
                .iter()
                .cloned()
                .collect(),
            _ => messages,
        }
    }

    /// Returns the history with the summary of `compaction` instead of the messages it covers.
    fn summarized(&mut self, messages: &Messages, compaction: Compaction) -> Messages {
        let mut start = compaction.through_message.min(messages.len());

        // The history may have been repaired since; a cut must not separate results from their
        // call.
        let is_result = |index| {
            let message = messages.get(index);
            message.is_some_and(|message| message.as_tool_result().is_some())
        };
        while start > 0 && is_result(start) {
            start -= 1;
        }

        let summary = match &self.summary {
            Some((cached, message)) if *cached == compaction => message.clone(),
            _ => {
                let text = format!(
                    "[Summary of the conversation so far]\n\n{}",
                    compaction.summary
                );
                let message = Arc::new(Message::human(text));
                self.summary = Some((compaction, message.clone()));
                message
            }
        };

        let tail = messages.as_slice()[start..].iter().cloned();
        std::iter::once(summary).chain(tail).collect()
    }

    /// Passes the messages through every `modify_request` hook. The result of each hook must be
    /// valid for a model.
    async fn run_modify_hooks(
        &mut self,
        config: &Config,
        cx: &RunContext,
        mut messages: Messages,
    ) -> Result<Messages> {
        let hooks = &config.hooks.modify_request;
        for (hook, check) in hooks.iter().zip(&mut self.checks[1..]) {
            let future = hook.modify_request(cx, messages);
            let guarded_future = guard(cx, &**hook, Phases::MODIFY_REQUEST, future);
            messages = guarded_future.boxed().await?;
            check.check(&messages).map_err(|problem| {
                let text = format!(
                    "hook `{}` returned messages from modify_request that are not valid for a model: \
                     {problem}",
                    hook.name()
                );
                Error::new(ErrorKind::Hook, text)
                    .with_source(problem)
                    .attributed()
            })?;
        }

        Ok(messages)
    }
}

/// Puts the leading system messages of the history into the system prompt. Returns their number.
fn set_system_section(cx: &RunContext, messages: &Messages) -> usize {
    let is_system = |message: &&Arc<Message>| matches!(***message, Message::System(_));
    let leading = messages.as_slice().iter().take_while(is_system);
    let texts: Vec<_> = leading.map(|message| message.text()).collect();
    if !texts.is_empty() {
        cx.system()
            .set("history", texts.join("\n\n"), Stability::Stable);
    }

    texts.len()
}

/// Returns the request with these messages and the agent's options.
fn assemble(
    config: &Config,
    cx: &RunContext,
    output: Option<&OutputFormat>,
    messages: Messages,
) -> ModelRequest {
    let options = &config.request;
    let mut request =
        ModelRequest::new(messages).or_response_limits(config.settings.response_limits);
    request.system = cx.system().prompt();
    request.tools = cx.tools().definitions();
    request.max_output_tokens = options.max_output_tokens;
    request.temperature = options.temperature;
    request.stop = options.stop.clone();
    request.settings = options.settings.clone();
    request.hosted_tools = options.hosted_tools.clone();
    request.response_format = output.map(|format| ResponseFormat::JsonSchema {
        name: format.name.clone(),
        schema: format.schema.clone(),
    });
    request
}

/// Adds a note for the model about the remaining turns to the system prompt of the last two turns.
pub(super) fn add_wrap_up_section(config: &Config, cx: &RunContext) {
    let max_turns = config.limits.max_turns;
    if !config.request.wrap_up || max_turns == 0 {
        return;
    }

    let remaining_turns = (max_turns - cx.turn()).saturating_add(1);
    if remaining_turns <= 2 {
        let text = format!(
            "Turns left, this one included: {remaining_turns}. Wrap up: finish what matters most and give \
             your answer with what you have."
        );
        cx.system().set("wrap-up", text, Stability::Volatile);
    }
}
