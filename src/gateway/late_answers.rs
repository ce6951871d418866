//! Inputs that answer questions after their run has ended, or are delivered again.

use std::sync::Arc;

use crate::agent::Decision;
use crate::error::{Error, Result};
use crate::session::{AgentState, InputState, PendingCall, Record, StoredSession};
use crate::util::time::now_ms;

use super::answers::late_decision;
use super::core::Core;
use super::message::InboundMessage;
use super::process_options::ProcessOptions;

/// The use of an input in its session.
pub(super) enum InputUse {
    /// An input of the conversation.
    Input {
        /// True if an earlier run has responded to it.
        has_response: bool,
    },
    /// The result of a background task that arrives while a call is pending. As an input it would
    /// end that wait, so it is sent to the chat.
    Notice,
    /// An answer that was taken before.
    KnownAnswer,
    /// The answer to a pending call of the session.
    Answer(Box<AgentState>, Decision),
    /// The answer to a task of `spawn` that has a pending call.
    TaskAnswer,
}

/// Returns the id under which a session stores an input that served as an answer.
fn answer_id(input_id: &str) -> Arc<str> {
    format!("answer:{input_id}").into()
}

/// Returns the id under which a session stores an input that decides a call.
fn decision_id(input_id: &str, call_id: &str) -> Arc<str> {
    format!("decision:{call_id}:{input_id}").into()
}

impl Core {
    /// Determines the use of an input. An input that is delivered again, even to another process,
    /// is recognized by the ids that the session has.
    ///
    /// # Errors
    ///
    /// Returns the store's error, and [`SessionBusy`](crate::ErrorKind::SessionBusy) if another
    /// process has the session.
    pub(super) async fn use_of(&self, options: &ProcessOptions) -> Result<InputUse> {
        if options.no_history {
            return Ok(InputUse::Input {
                has_response: false,
            });
        }
        let (key, id) = (&options.session_key, &options.input_id);
        let store = self.served.store();
        // A session that another process has is not loaded for each attempt.
        if store.is_leased(key).await? {
            return Err(Error::session_busy(key));
        }
        let _permit = self.loads.acquire().await;
        let stored = store.load(key).await?.unwrap_or_default();
        let has_id = !id.is_empty();
        if has_id && is_known(&stored, &answer_id(id)) {
            return Ok(InputUse::KnownAnswer);
        }

        let is_redelivered = has_id && is_known(&stored, id);
        let mut state = stored.state;
        // The default response is stored after its run, which leaves the input without a response.
        state.settle_inputs();
        let input_state = state.inputs.find(id, &state.messages);
        let input = InputUse::Input {
            has_response: matches!(input_state, Some(InputState::WithResponse(..))),
        };
        if options.report_depth > 0 {
            let is_notice = !is_redelivered && has_undecided_call(&state, key);
            return Ok(if is_notice { InputUse::Notice } else { input });
        }

        let answer = if is_redelivered {
            redelivered_answer(state, &stored.input_ids, options)
        } else {
            self.new_answer(state, options).await?
        };
        Ok(answer.unwrap_or(input))
    }

    /// Returns the use of a new input as the answer to a pending call or to a task, if there is
    /// one. The ids of the answer are stored first.
    async fn new_answer(
        &self,
        state: AgentState,
        options: &ProcessOptions,
    ) -> Result<Option<InputUse>> {
        let (key, id) = (&options.session_key, &options.input_id);
        let has_id = !id.is_empty();
        if let Some(call) = pending_call_answered_by(&state, options) {
            let decision = late_decision(call, &options.user_message);
            let ids = vec![id.clone(), decision_id(id, &call.id)];
            if has_id {
                self.store_ids(key, ids).await?;
            }
            return Ok(Some(InputUse::Answer(Box::new(state), decision)));
        }

        if !self.shared.waiting_tasks.is_asking(options) {
            return Ok(None);
        }
        if has_id {
            self.store_ids(key, vec![answer_id(id)]).await?;
        }
        Ok(Some(InputUse::TaskAnswer))
    }

    /// Stores ids in a session, before the input has any effect.
    async fn store_ids(&self, key: &str, ids: Vec<Arc<str>>) -> Result<()> {
        let store = self.served.store();
        let lease = store.lease(key).await?;
        let records = ids.into_iter().map(|id| Record::Input { id });
        store.append(&lease, records.collect()).await
    }

    /// Records in the run in progress that a message was taken as an answer. The run stores it
    /// together with the effect of the answer. Returns `false` if there is no run.
    pub(super) fn record_answer_in_run(&self, message: &InboundMessage) -> bool {
        let handle = self.served.handle_of(&message.session_key);
        handle.is_some_and(|handle| handle.add_input_id(answer_id(&message.id)))
    }

    /// Stores that a message was taken as the answer to a task whose conversation has no run in
    /// progress.
    pub(super) async fn store_answer(&self, message: &InboundMessage) {
        let ids = vec![answer_id(&message.id)];
        if let Err(error) = self.store_ids(&message.session_key, ids).await {
            tracing::warn!("an answer could not be stored and may be an input later: {error}");
        }
    }
}

/// Returns `true` if the session has a pending call that can still be decided.
fn has_undecided_call(state: &AgentState, session_id: &Arc<str>) -> bool {
    let mut calls = state.pending.iter();
    calls.any(|call| call.session_id == *session_id && call.is_open(now_ms()))
}

/// Returns the use of an input that is delivered again as the answer to a call that is still
/// pending.
fn redelivered_answer(
    state: AgentState,
    input_ids: &[Arc<str>],
    options: &ProcessOptions,
) -> Option<InputUse> {
    let call = pending_call_decided_by(&state, input_ids, options)?;
    let decision = late_decision(call, &options.user_message);
    Some(InputUse::Answer(Box::new(state), decision))
}

/// Returns the pending calls of the session, if the sender of the input is the person who was
/// asked: no other person decides them.
fn pending_calls_of_sender<'a>(
    state: &'a AgentState,
    options: &ProcessOptions,
) -> impl Iterator<Item = &'a PendingCall> {
    let is_asked = *state.user_id.as_deref().unwrap_or_default() == *options.sender_id;
    let calls = state.pending.iter();
    calls.filter(move |call| is_asked && call.session_id == options.session_key)
}

/// Returns the first pending call of the session that the input can answer.
fn pending_call_answered_by<'a>(
    state: &'a AgentState,
    options: &ProcessOptions,
) -> Option<&'a PendingCall> {
    pending_calls_of_sender(state, options).find(|call| options.can_answer(call))
}

/// Returns the pending call of the session that the input has decided already. The decision may be
/// stored although its run did not begin.
fn pending_call_decided_by<'a>(
    state: &'a AgentState,
    input_ids: &[Arc<str>],
    options: &ProcessOptions,
) -> Option<&'a PendingCall> {
    pending_calls_of_sender(state, options).find(|call| {
        let id = decision_id(&options.input_id, &call.id);
        input_ids.contains(&id) || state.inputs.contains(&id)
    })
}

fn is_known(stored: &StoredSession, id: &Arc<str>) -> bool {
    stored.input_ids.contains(id) || stored.state.inputs.contains(id)
}
