//! Sessions that are loaded and saved by a hook.

use std::fmt;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::hook::{Hook, Phases};
use crate::message::Messages;
use crate::run::RunContext;
use crate::session::{
    AgentState, Infos, Inputs, Lease, SessionStore, StoredSession, cut, damage_texts,
};
use crate::util::sync::lock;

/// Creates a hook that loads the session from `store` before a run, and saves it with the messages
/// of the run afterwards.
///
/// Use it for a second store in addition to the agent's own. The agent's own store
/// ([`AgentBuilder::store`](crate::AgentBuilder::store)) stores every message as it arrives; with
/// this hook, a run that is dropped leaves the store as it was, except for messages that
/// [`Session::rewind_to`](crate::Session::rewind_to) takes back.
pub fn session_hooks(store: impl SessionStore) -> SessionHooks {
    SessionHooks {
        store: Arc::new(store),
    }
}

/// A hook that loads and saves sessions, created by [`session_hooks`].
///
/// * The id of the session is the id of the run's session. If it is empty, the session has a new
///   id, the `thread_id` of [`RunOutput::state`](crate::RunOutput::state).
/// * A session that the store does not have is new; that is not an error. If the store is in memory
///   and has dropped the session, the run emits a warning.
/// * The messages of this store come before the messages of the agent's own store. Those that
///   [`Session::rewind_to`](crate::Session::rewind_to) takes back are removed from both when the
///   run begins, if both histories begin with the same message or all messages are taken back.
/// * The task list and the files are those of the store with the later messages; with the same
///   messages, those of the agent's own store.
/// * The session is leased during the run: a second run of it fails with
///   [`ErrorKind::SessionBusy`](crate::ErrorKind::SessionBusy) inside the hook's error.
/// * Damaged data in the store causes a warning.
/// * The title, the working directory and the ids of inputs stay as they are stored. Questions that
///   waited for an answer are closed: the conversation has continued without one.
/// * If saving fails after the run, the run emits a warning; the response stays valid.
///
/// ```
/// use agentcore::hooks::session_hooks;
/// use agentcore::testing::ScriptedModel;
/// use agentcore::{AgentBuilder, ThreadStore};
///
/// # async fn example() -> agentcore::Result<()> {
/// let store = ThreadStore::new();
/// let agent = |model| AgentBuilder::new(model).hook(session_hooks(store.clone())).build();
///
/// let first = agent(ScriptedModel::new().say("Hello, Ada."))?;
/// first.session("s").run("I am Ada.").await?;
///
/// let second = agent(ScriptedModel::new().say("Ada."))?;
/// let output = second.session("s").run("Who am I?").await?;
/// assert_eq!(output.messages.len(), 4);
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
pub struct SessionHooks {
    store: Arc<dyn SessionStore>,
}

/// A session from the beginning of a run to its end, with the data that was stored.
struct LeasedSession {
    /// The lease, until the session is saved.
    lease: Mutex<Option<Lease>>,
    messages: Messages,
    inputs: Inputs,
    infos: Infos,
}

#[async_trait]
impl Hook for SessionHooks {
    fn name(&self) -> &str {
        "session"
    }

    fn description(&self) -> &str {
        "Loads the session before a run and saves it afterwards"
    }

    fn phases(&self) -> Phases {
        Phases::BEFORE_AGENT | Phases::AFTER_AGENT
    }

    async fn before_agent(&self, cx: &RunContext, mut state: AgentState) -> Result<AgentState> {
        if state.thread_id.is_empty() {
            state.thread_id = Uuid::now_v7().to_string().into();
        }

        let id = state.thread_id.clone();
        let lease = self.store.lease(&id).await.map_err(|error| {
            error.context(format!(
                "cannot lease the session {id:?} (is this store the agent's own, too? then leave \
                 the hook out)"
            ))
        })?;

        let result = self
            .store
            .load(&id)
            .await
            .map_err(|error| error.context(format!("cannot load {id:?}")))?;
        let is_new = result.is_none();
        let mut session = result.unwrap_or_default();
        let mut inputs = inputs_of(&session);
        let shared_count = shared_len(&state.messages, &session.state.messages);
        // A history that has nothing in common with the one that was cut stays as it is.
        let cut_len = cx
            .history_cut()
            .filter(|len| *len == 0 || shared_count > 0)
            .map(|len| len.min(session.state.messages.len()));
        if let Some(len) = cut_len {
            session = self.cut_stored(&lease, session, &mut inputs, len).await?;
        }

        let messages = merge(&state.messages, &session.state.messages);
        clear_moved_positions(&mut session.state, &mut inputs, &messages);
        let warning = lease.dropped_warning(None).filter(|_| is_new);
        cx.set_value(LeasedSession {
            lease: Mutex::new(Some(lease)),
            messages: messages.clone(),
            inputs,
            infos: session.state.infos.clone(),
        });

        if let Some(text) = warning {
            cx.warn(text);
        }
        if is_new {
            return Ok(state);
        }

        warn_of_damage(cx, &session, &id);

        // Messages that this store does not have are later than its tasks and files. With the same
        // messages, the agent's own store is saved last.
        let has_later_messages = shared_count < session.state.messages.len();
        let is_own_newer = cx.history_cut().is_some()
            || shared_count < state.messages.len()
            || (shared_count > 0 && !has_later_messages);
        Ok(restored(state, session.state, messages, is_own_newer))
    }

    async fn after_agent(&self, cx: &RunContext, state: AgentState) -> Result<AgentState> {
        let make_error = || Error::other("the session was not loaded by this run");
        let session = cx.value::<LeasedSession>().ok_or_else(make_error)?;
        let lease = lock(&session.lease).take().ok_or_else(make_error)?;
        let mut saved_state = state.clone();
        let shared_len = session.messages.shared_prefix(&state.messages);
        saved_state
            .inputs
            .prepend(session.inputs.clone(), shared_len);
        saved_state.infos.prepend(&session.infos, shared_len);
        self.store.save(&lease, &saved_state).await?;
        Ok(state)
    }
}

impl SessionHooks {
    /// Cuts a stored session to its first `len` messages, and adapts its inputs.
    async fn cut_stored(
        &self,
        lease: &Lease,
        session: StoredSession,
        inputs: &mut Inputs,
        len: usize,
    ) -> Result<StoredSession> {
        let id = lease.session_id();
        let old_count = session.state.messages.len();
        let mut session = cut(id, session, len)?;
        inputs.reopen_from(session.state.messages.len());
        if session.state.messages.len() < old_count {
            // The agent's own store is cut when the run begins as well. If this run is not saved, a
            // later one must not find the messages again.
            session.state.inputs = inputs.clone();
            let saving = self.store.save(lease, &session.state);
            saving
                .await
                .map_err(|error| error.context(format!("cannot save {id:?}")))?;
        }
        Ok(session)
    }
}

impl fmt::Debug for SessionHooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionHooks").finish_non_exhaustive()
    }
}

/// Emits a warning for each damaged part of a stored session.
fn warn_of_damage(cx: &RunContext, session: &StoredSession, id: &str) {
    for damage in damage_texts(&session.damage) {
        cx.warn(format!(
            "the session {id:?} in the hook's store is damaged: {damage}"
        ));
    }
}

/// Returns all inputs of a stored session.
fn inputs_of(session: &StoredSession) -> Inputs {
    let mut inputs = session.state.inputs.clone();
    for id in session
        .input_ids
        .iter()
        .filter(|id| !session.state.inputs.contains(id))
    {
        // The positions of the messages are not known.
        inputs.begin(id.clone(), usize::MAX..usize::MAX);
    }
    inputs
}

/// Clears the positions of inputs and metadata of the stored messages that may have other positions
/// in the merged history.
fn clear_moved_positions(stored: &mut AgentState, inputs: &mut Inputs, merged: &Messages) {
    let shared_count = shared_len(merged, &stored.messages);
    if shared_count < stored.messages.len() {
        inputs.clear_positions_after(shared_count, shared_count);
        stored.infos.keep(shared_count);
    }
}

/// Returns the state of a run whose session was stored in this state, with the messages of both.
/// `is_own_newer` is true unless the hook's store alone has later messages, or the agent's own
/// store has none.
fn restored(
    mut state: AgentState,
    stored: AgentState,
    messages: Messages,
    is_own_newer: bool,
) -> AgentState {
    if !is_own_newer {
        state.todos = stored.todos;
        state.files = stored.files;
        if state.messages.is_empty() {
            state.compaction = stored.compaction;
        }
    }

    state.messages = messages;
    state.user_id = state.user_id.or(stored.user_id);
    state.title = stored.title.or(state.title);
    state.cwd = stored.cwd.or(state.cwd);
    state
}

/// Returns the messages of both stores: those of the stored history, then those of the own one.
/// Messages that both begin with appear once. One of the stores may have lost a message after
/// these, so later messages that both have appear once as well: all other stored messages, if the
/// own history ends with them; else the longest end of the stored history with which the other
/// messages of the own history begin.
fn merge(own: &Messages, stored: &Messages) -> Messages {
    let shared_len = shared_len(own, stored);
    let (shared, own_rest) = own.as_slice().split_at(shared_len);
    let stored_rest = &stored.as_slice()[shared_len..];
    if own_rest.ends_with(stored_rest) {
        return own.clone();
    }

    let max_overlap = own_rest.len().min(stored_rest.len());
    let overlap = (0..=max_overlap)
        .rev()
        .find(|len| stored_rest.ends_with(&own_rest[..*len]))
        .unwrap_or(0);
    shared
        .iter()
        .chain(stored_rest)
        .chain(&own_rest[overlap..])
        .cloned()
        .collect()
}

/// Returns the number of messages that both histories begin with.
fn shared_len(own: &Messages, stored: &Messages) -> usize {
    let pairs = own.as_slice().iter().zip(stored.as_slice());
    pairs
        .take_while(|(own_message, stored_message)| own_message == stored_message)
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_that_one_store_has_lost_doubles_no_others() {
        let messages = |names: &str| {
            let texts = names.chars().map(String::from);
            texts.fold(Messages::new(), Messages::human)
        };
        for (own, stored, expected) in [
            ("13", "123", "123"),
            ("123", "13", "123"),
            ("134", "123", "1234"),
            ("3", "12", "123"),
            ("12", "1", "12"),
            ("", "1", "1"),
        ] {
            let merged = merge(&messages(own), &messages(stored));
            assert_eq!(merged.as_slice(), messages(expected).as_slice());
        }
    }
}
