//! The loop: ask the model, run its calls, again.

use std::sync::Arc;

use futures::FutureExt;

use crate::error::{Error, ErrorKind, Result};
use crate::hook::{Onion, StopDecision, guard};
use crate::message::Message;
use crate::model::{CompactionTrigger, ModelResponse, StopReason};
use crate::run::{ExitReason, Stop};
use crate::sdk::{SdkMessage, SystemKind, UserEvent};
use crate::util::Pace;
use crate::util::sync::lock;
use crate::util::text::truncate;

use super::active_run::Driver;
use super::attempt::{empty_response, is_empty};
use super::closing::{exit_after, exit_of};
use super::sanitize;
use super::structured_output;

/// The number of times hooks may keep a run without a turn limit from stopping.
const UNBOUNDED_GO_ONS: u32 = 100;

/// The length of a refusal's text in an error, in characters.
const REFUSAL_CHARS: usize = 1_000;

/// The recoveries that were tried in this run and are not tried again.
#[derive(Default)]
struct Tried {
    empty: bool,
    /// True if the last answer was dropped, so that the next one replaces it.
    dropped: bool,
    compaction: bool,
    outputs: u32,
    go_ons: u32,
}

/// The step after an answer without calls.
enum Next {
    GoOn,
    End(ExitReason),
}

impl Driver {
    /// Turns until there is a reason to end.
    pub(super) async fn turns(&mut self) -> Result<ExitReason> {
        let mut tried = Tried::default();
        let mut pace = Pace::default();
        loop {
            pace.step(0).await;
            // The reader sees all that was said before the loop goes on: it may want to stop it.
            self.cx.shared().drained().await;
            self.steer().await?;
            if let Some(exit) = self.limit() {
                return Ok(exit);
            }
            let asked = self.ask(&mut tried).await;
            if matches!(&asked, Err(error) if error.kind() == ErrorKind::ResponseTooLarge) {
                self.keep_partial().boxed().await;
            }
            let response = match asked {
                Ok(Some(response)) => response,
                Ok(None) => return Ok(self.interrupted_answer().boxed().await),
                Err(error) if self.can_compact(&error, &mut tried).await => {
                    self.drop_answer(&mut tried);
                    continue;
                }
                Err(error) if self.cx.shared().stop() != Stop::None => {
                    self.notes.push(error.to_string());
                    return Ok(self.stopped());
                }
                Err(error) => {
                    let error = self.rejected(error);
                    let exit = exit_of(error, &mut self.notes)?;
                    if exit == ExitReason::Refused && !self.config.request.keep_refused {
                        self.forget_refused();
                    }
                    return Ok(exit);
                }
            };
            let next = self.take(response, &mut tried).boxed().await?;
            if let Next::End(exit) = next {
                return Ok(exit);
            }
            // An answer that the run goes on from is not its output.
            self.structured = None;
        }
    }

    /// Applies the requests of handles since the last turn.
    async fn steer(&mut self) -> Result<()> {
        let (steering, model) = {
            let mut control = lock(&self.cx.shared().control);
            let steering = std::mem::take(&mut control.steering);
            (steering, control.model.take())
        };
        if let Some(model) = model {
            self.cx.set_model(model);
        }
        self.cx.apply_requested_mode();
        if !steering.is_empty() {
            self.say(steering).boxed().await?;
        }
        Ok(())
    }

    /// Sends messages to the model as user input, and emits them.
    pub(super) async fn say(&mut self, messages: Vec<Message>) -> Result<()> {
        for message in messages {
            if !sanitize::is_said_to_model(&message) {
                let role = message.role();
                self.cx.warn(format!(
                    "a message of the role {role} was not said to the model: only messages of the \
                     user and the system that say something can be"
                ));
                continue;
            }
            let message = Arc::new(message);
            self.append(vec![message.clone()], None).await?;
            let envelope = self.cx.shared().envelope();
            self.note_shown(1, envelope.uuid);
            let event = UserEvent::new(envelope, [message]).synthetic();
            self.cx.shared().push(SdkMessage::User(Box::new(event)));
        }
        Ok(())
    }

    /// The exit reason, if a caller or a hook has stopped the run.
    pub(super) fn halted(&mut self) -> Option<ExitReason> {
        if self.cx.shared().stop() != Stop::None {
            self.note_stop();
            return Some(self.stopped());
        }
        let reason = self.cx.stop_reason()?;
        self.notes.push(reason);
        Some(ExitReason::HookStopped)
    }

    /// The exit reason when no further model call may be made.
    fn limit(&mut self) -> Option<ExitReason> {
        if let Some(exit) = self.halted() {
            return Some(exit);
        }
        let max_turns = self.config.limits.max_turns;
        if max_turns > 0 && self.cx.turn() >= max_turns {
            self.notes
                .push(format!("the limit of {max_turns} turns is reached"));
            return Some(ExitReason::MaxTurns);
        }
        if let Some(why) = self.cx.budget().exhausted() {
            self.notes.push(why);
            return Some(ExitReason::MaxBudget);
        }
        None
    }

    /// One model call with everything around it; `None` when the run is stopped meanwhile.
    async fn ask(&mut self, tried: &mut Tried) -> Result<Option<Arc<ModelResponse>>> {
        let shared = self.cx.clone();
        let response = shared.shared().unless_stopped(self.ask_once(tried)).await;
        response.transpose()
    }

    async fn ask_once(&mut self, tried: &mut Tried) -> Result<Arc<ModelResponse>> {
        // Boxed, so that what waits for the model has no room for what came before.
        let anew = !std::mem::take(&mut tried.dropped);
        let request = self.prepare(anew).boxed().await?;
        let config = &*self.config;
        let onion = Onion {
            hooks: config.hooks.wrap_model_call.clone(),
            context: self.cx.clone(),
            core: config.model_core.clone(),
            timeout: config.limits.hook_timeout,
            repeatable: true,
        };
        let mut response = onion.run(request).await?;
        // An answer that a hook gave up waiting for is not what a later interrupt cuts off.
        drop(self.cx.take_partial());
        sanitize::answer(&mut response);
        self.ids.claim(&mut response);
        self.context.report(&response.usage);
        if is_no_answer(&response) && tried.empty && !has_reason(&response) {
            return Err(empty_response(self.cx.model().id()));
        }
        Ok(Arc::new(response))
    }

    /// Compacts a request that was too long; returns `true` if it is short enough now. Tried once a
    /// turn.
    async fn can_compact(&mut self, error: &Error, tried: &mut Tried) -> bool {
        let helps = error.kind() == ErrorKind::ContextTooLong
            && !std::mem::replace(&mut tried.compaction, true)
            && self.compacted().await;
        if helps {
            self.repeat_turn();
        }
        helps
    }

    /// Compacts unless the run is stopped first; whether that made the history shorter.
    async fn compacted(&mut self) -> bool {
        let cx = self.cx.clone();
        let compacting = self.compact(CompactionTrigger::Auto).boxed();
        cx.shared().unless_stopped(compacting).await == Some(true)
    }

    /// Stores an answer and runs its calls.
    async fn take(&mut self, response: Arc<ModelResponse>, tried: &mut Tried) -> Result<Next> {
        let calls: Vec<_> = response.tool_calls().cloned().collect();
        if !calls.is_empty() {
            tried.compaction = false;
        }
        let reason = response.stop_reason.clone();
        if reason == Some(StopReason::Refusal) && calls.is_empty() {
            return self.refused(response).boxed().await;
        }
        let out_of_room = matches!(
            reason,
            Some(StopReason::MaxTokens | StopReason::ContextWindow)
        );
        if calls.is_empty() && out_of_room && self.made_room(tried).await {
            // Should asking again fail, what was said is not lost.
            self.repeat_turn();
            self.last = Some(response);
            self.drop_answer(tried);
            return Ok(Next::GoOn);
        }
        if is_no_answer(&response) {
            if out_of_room {
                self.last = Some(response);
                return Ok(Next::End(ExitReason::MaxTokens));
            }
            if reason == Some(StopReason::StopSequence) {
                self.last = Some(response);
                return Ok(Next::End(ExitReason::StopSequence));
            }
            tried.empty = true;
            self.cx
                .warn("the model answered with nothing; it is asked once more");
            self.repeat_turn();
            self.drop_answer(tried);
            return Ok(Next::GoOn);
        }
        tried.empty = false;
        self.last = Some(response.clone());
        let response = self.keep(response, false).await?;
        self.last = Some(response.clone());
        if !calls.is_empty() {
            return Ok(self
                .run_calls(calls)
                .boxed()
                .await?
                .map_or(Next::GoOn, Next::End));
        }
        match reason {
            Some(StopReason::PauseTurn) => Ok(Next::GoOn),
            Some(StopReason::MaxTokens | StopReason::ContextWindow) => {
                Ok(Next::End(ExitReason::MaxTokens))
            }
            _ => self.before_end(&response, tried).boxed().await,
        }
    }

    /// The model is asked again for the answer of this turn, which costs no turn.
    fn repeat_turn(&self) {
        self.cx.set_turn(self.cx.turn().saturating_sub(1));
    }

    /// Drops the answer, which the next one replaces: its emitted messages are superseded.
    fn drop_answer(&self, tried: &mut Tried) {
        tried.dropped = true;
        if let Some((attempt, first)) = self.cx.void_attempt() {
            self.cx.emit(SystemKind::StreamRestart {
                attempt,
                supersedes: vec![first],
            });
        }
    }

    /// Compacts to make room for a longer answer; returns `true` on success. Tried once.
    async fn made_room(&mut self, tried: &mut Tried) -> bool {
        self.is_crowded()
            && !std::mem::replace(&mut tried.compaction, true)
            && self.compacted().await
    }

    /// A refused turn is not kept: sent again, it would be refused again.
    async fn refused(&mut self, response: Arc<ModelResponse>) -> Result<Next> {
        let text = response.text();
        let text = truncate(&text, REFUSAL_CHARS);
        self.notes.push(format!("the model refused: {text}"));
        if self.config.request.keep_refused {
            if !response.content.says_nothing() {
                self.keep(response.clone(), false).await?;
            }
        } else {
            self.forget_refused();
        }
        self.last = Some(response);
        Ok(Next::End(ExitReason::Refused))
    }

    pub(super) fn note_stop(&mut self) {
        self.notes.push(match self.cx.shared().stop() {
            Stop::Deadline => "the time limit of the run is reached".into(),
            _ => format!("the run was stopped: {}", self.stopped()),
        });
    }

    /// The model has nothing more to do; steering, the asked-for form and hooks may have.
    async fn before_end(
        &mut self,
        response: &Arc<ModelResponse>,
        tried: &mut Tried,
    ) -> Result<Next> {
        if !lock(&self.cx.shared().control).steering.is_empty() {
            return Ok(Next::GoOn);
        }
        if let Some(format) = &self.output {
            let max_values = self.config.settings.response_limits.max_values;
            match structured_output::read(format, &response.text(), max_values) {
                Ok(value) => self.structured = Some(Box::new(value)),
                Err(complaint) => {
                    if tried.outputs >= self.config.limits.output_retries {
                        self.notes.push(complaint);
                        return Ok(Next::End(ExitReason::StructuredOutput));
                    }
                    tried.outputs += 1;
                    self.say(vec![Message::human(complaint)]).await?;
                    return Ok(Next::GoOn);
                }
            }
        }
        let cx = self.cx.clone();
        let asking = self.hooks_go_on(response, tried);
        match cx.shared().unless_stopped(asking).await {
            None => return Ok(Next::End(self.stopped())),
            Some(None) => {}
            Some(Some(message)) => {
                self.say(vec![message]).await?;
                return Ok(Next::GoOn);
            }
        }
        if !self.cx.shared().close_steering() {
            return Ok(Next::GoOn);
        }
        if let Some(reason) = self.cx.stop_reason() {
            self.notes.push(reason);
            return Ok(Next::End(ExitReason::HookStopped));
        }
        if let Some(StopReason::Other(label)) = &response.stop_reason {
            self.cx.warn(format!(
                "the model stopped for a reason this version does not know ({label}); it is taken \
                 for the end of its answer"
            ));
        }
        Ok(Next::End(exit_after(response.stop_reason.as_ref())))
    }

    async fn hooks_go_on(
        &self,
        response: &Arc<ModelResponse>,
        tried: &mut Tried,
    ) -> Option<Message> {
        let config = &*self.config;
        for hook in &config.hooks.before_stop {
            let timeout = config.limits.hook_timeout;
            let future = hook.before_stop(&self.cx, response);
            match guard(hook.name(), "before_stop", timeout, None, future).await {
                Ok(StopDecision::Stop) => {}
                Ok(StopDecision::GoOn(message)) if !sanitize::is_said_to_model(&message) => {
                    self.cx.warn(format!(
                        "hook `{}` would go on with a message that is not one of the user or that \
                         says nothing; it was not heard",
                        hook.name()
                    ));
                }
                Ok(StopDecision::GoOn(message)) => {
                    tried.go_ons += 1;
                    let bounded = config.limits.max_turns > 0;
                    if bounded || tried.go_ons <= UNBOUNDED_GO_ONS {
                        return Some(message);
                    }
                    self.cx.warn(format!(
                        "hook `{}` kept the run going {UNBOUNDED_GO_ONS} times; it ends now",
                        hook.name()
                    ));
                }
                Err(error) => self.cx.warn(error.to_string()),
            }
        }
        None
    }
}

/// Returns `true` if an answer has nothing to keep. A paused one may hold nothing but the
/// provider's own blocks.
fn is_no_answer(response: &ModelResponse) -> bool {
    let paused = response.stop_reason == Some(StopReason::PauseTurn);
    is_empty(response) && (!paused || response.content.says_nothing())
}

/// Returns `true` if an answer without content gives a reason for having none.
fn has_reason(response: &ModelResponse) -> bool {
    !matches!(
        response.stop_reason,
        None | Some(
            StopReason::EndTurn
                | StopReason::ToolUse
                | StopReason::PauseTurn
                | StopReason::Other(_)
        )
    )
}
