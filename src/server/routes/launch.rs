//! The start of a run in a thread.

use std::sync::Arc;
use std::time::SystemTime;

use tokio::time::timeout;

use crate::agent::{Decision, Session};
use crate::error::{Error, ErrorKind};
use crate::message::Messages;
use crate::registry::TemplateInfo;
use crate::run::Run;
use crate::session::{AgentState, PendingCall, SessionStore};

use super::super::app::App;
use super::super::bounded_recorder::BoundedRecorder;
use super::super::error::ApiError;
use super::super::random::new_thread_id;
use super::super::runs::{MAX_WAIT, RunKey, ServerRun, StartRun, StoreId, StorePermit};
use super::super::stream::EncoderOptions;
use super::super::traces::Trace;
use super::super::users::Caller;
use super::path::checked_thread_id;

/// The input that a run starts with.
pub(super) enum LaunchInput {
    /// An input, with its id.
    Input(Messages, Option<Arc<str>>),
    /// An input, with its id, that replaces the messages from this position on.
    Regenerate(Messages, Option<Arc<str>>, usize),
    /// Decisions about pending calls.
    Decisions(Vec<Decision>),
}

impl LaunchInput {
    /// Removes the messages from the state that the run removes first. Returns `true` if the rest
    /// has the input already.
    fn adapt(&self, state: &mut AgentState) -> bool {
        match self {
            Self::Input(_, Some(id)) => state.inputs.contains(id),
            Self::Regenerate(.., position) => {
                let len = state.messages.len().min(*position);
                state.messages = state.messages.as_slice()[..len].iter().cloned().collect();
                state.infos.keep(len);
                state.inputs.reopen_from(len);
                false
            }
            Self::Input(_, None) | Self::Decisions(_) => false,
        }
    }
}

/// A thread in which a run is to start.
pub(super) struct OpenedThread {
    agent_id: Arc<str>,
    agent_name: Arc<str>,
    store: StoreId,
    pub(super) session: Session,
    /// The state; `None` if the thread does not exist yet.
    pub(super) state: Option<AgentState>,
    /// The permit of the state, which is held until a run has it.
    _permit: Option<StorePermit>,
}

impl OpenedThread {
    /// Returns the pending calls of this thread.
    pub(super) fn pending(&self) -> Vec<PendingCall> {
        self.state.iter().flat_map(own_pending).cloned().collect()
    }

    /// Checks that no other agent of the server asked about the calls. Agents that share a store
    /// share its threads, and the wrong agent would consume the decision for a call.
    ///
    /// # Errors
    ///
    /// Returns 409, with the path of the agent that asked.
    pub(super) fn check_agent(&self, app: &App, pending: &[PendingCall]) -> Result<(), ApiError> {
        if pending.is_empty() {
            return Ok(());
        }
        let templates = app.registry.list();
        let mut others = pending.iter();
        let Some(template) = others.find_map(|call| self.other_agent(call, &templates)) else {
            return Ok(());
        };
        Err(ApiError::conflict(format!(
            "the agent {:?} has asked about the calls of this thread; send the decisions to \
             /agents/{}/..",
            template.id, template.id
        )))
    }

    /// Returns the other agent of the server that asked about a call. An id or a name that no agent
    /// has belongs to an agent that was removed or renamed. The name decides only without the id:
    /// several agents may have the same.
    fn other_agent<'a>(
        &self,
        call: &PendingCall,
        templates: &'a [TemplateInfo],
    ) -> Option<&'a TemplateInfo> {
        if let Some(id) = &call.agent_id {
            if *id == self.agent_id {
                return None;
            }
            if let Some(template) = templates.iter().find(|template| *template.id == **id) {
                return Some(template);
            }
        }
        let name = call.agent.as_ref()?;
        if *name == self.agent_name {
            return None;
        }
        let template = templates.iter().find(|template| *template.name == **name);
        template.filter(|template| *template.id != *self.agent_id)
    }
}

/// Returns the pending calls of a thread. A fork's copies of calls are decided in the original
/// thread.
pub(super) fn own_pending(state: &AgentState) -> impl Iterator<Item = &PendingCall> {
    let pending = state.pending.iter();
    pending.filter(move |call| call.session_id == state.thread_id)
}

/// The options of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct LaunchOptions {
    /// True if the spans of the run are recorded.
    pub(super) is_traced: bool,
    /// True if a call that needs approval becomes pending at once.
    pub(super) leaves_calls_pending: bool,
    /// The id that an AG-UI client gave to the run.
    pub(super) client_run_id: Option<Arc<str>>,
    /// The ids that the client gave to the messages of the input.
    pub(super) message_ids: Vec<Arc<str>>,
}

/// Opens an existing or new thread of the user.
///
/// # Errors
///
/// Returns 404 if the thread belongs to another user: all users of a store share its ids.
pub(super) async fn open(
    app: &App,
    caller: &Caller,
    agent_id: &Arc<str>,
    thread: Option<&str>,
) -> Result<OpenedThread, ApiError> {
    open_or(app, caller, agent_id, thread, ApiError::foreign_thread).await
}

/// Opens an existing thread of the user.
///
/// # Errors
///
/// Returns the same 404 whether the thread does not exist or belongs to another user.
pub(super) async fn open_existing(
    app: &App,
    caller: &Caller,
    agent_id: &Arc<str>,
    thread: &str,
) -> Result<OpenedThread, ApiError> {
    let opened = open_or(app, caller, agent_id, Some(thread), ApiError::no_thread).await?;
    if opened.state.is_none() {
        return Err(ApiError::no_thread(thread));
    }
    Ok(opened)
}

async fn open_or(
    app: &App,
    caller: &Caller,
    agent_id: &Arc<str>,
    thread: Option<&str>,
    foreign: fn(&str) -> ApiError,
) -> Result<OpenedThread, ApiError> {
    let instance = app.instance(agent_id, caller).await?;
    let agent = instance.agent();
    let store = agent.store();
    let (id, state, permit) = match thread {
        Some(id) => {
            let key = RunKey {
                user: caller.id().clone(),
                store: StoreId::of(instance.store()),
                thread: checked_thread_id(id)?,
            };
            let (state, mut permit) = state_after_run(app, caller, &**store, &key).await?;
            permit.end_load();
            if is_foreign(app, caller, &state) {
                return Err(foreign(&key.thread));
            }
            (key.thread, state, Some(permit))
        }
        None => (new_thread_id().into(), None, None),
    };
    Ok(OpenedThread {
        session: instance.session(id),
        agent_id: agent_id.clone(),
        agent_name: agent.name().into(),
        store: StoreId::of(instance.store()),
        state,
        _permit: permit,
    })
}

/// Loads a thread in which a run is to start, with everything that its last run has stored.
///
/// # Errors
///
/// Returns a 429 as [`stored_state`].
async fn state_after_run(
    app: &App,
    caller: &Caller,
    store: &dyn SessionStore,
    key: &RunKey,
) -> Result<(Option<AgentState>, StorePermit), ApiError> {
    // An id, because an ended run holds its log.
    let ended_run_id = || {
        let run = app.runs.find(key).filter(|run| !run.is_running());
        run.map(|run| run.id().clone())
    };
    loop {
        let run = app.runs.find(key).filter(|run| run.is_running());
        let earlier_id = ended_run_id();
        let stored = stored_state(app, caller, store, &key.thread).await?;
        // A run that has ended during the load may have stored its response after it, even if it
        // began after the first look.
        let has_ended = run.is_some_and(|run| !run.is_running());
        let last_id = ended_run_id();
        if !has_ended && (last_id.is_none() || last_id == earlier_id) {
            return Ok(stored);
        }
    }
}

/// Returns the state of a thread of the user, or `None` if it does not exist, with the permit to
/// hold until the state is dropped. The permit counts as a load of the server until
/// [`StorePermit::end_load`].
///
/// # Errors
///
/// Returns 404 if the thread belongs to another user, and 429 as [`stored_state`].
pub(super) async fn owned_state(
    app: &App,
    caller: &Caller,
    store: &dyn SessionStore,
    id: &str,
) -> Result<(Option<AgentState>, StorePermit), ApiError> {
    let (state, permit) = stored_state(app, caller, store, id).await?;
    if is_foreign(app, caller, &state) {
        return Err(ApiError::no_thread(id));
    }
    Ok((state, permit))
}

/// Loads a thread for a request of the user.
///
/// # Errors
///
/// Returns a 429 if other requests load threads, or hold those of the user, for 30 seconds.
async fn stored_state(
    app: &App,
    caller: &Caller,
    store: &dyn SessionStore,
    id: &str,
) -> Result<(Option<AgentState>, StorePermit), ApiError> {
    let permit = timeout(MAX_WAIT, app.runs.quota_of(caller.id()).acquire_load()).await;
    let permit = permit.map_err(|_| {
        ApiError::too_many(
            "as many threads as may be in memory are loaded for other requests; read your replies \
             and streams and try again",
        )
    })?;
    let stored = load_in_time(store.load(id)).await?;
    Ok((stored.map(|stored| stored.state), permit))
}

/// Awaits a load for at most 30 seconds: a store that hangs must not stop the loads of others.
///
/// # Errors
///
/// Returns the error of the load, and [`ErrorKind::Timeout`] after 30 seconds.
pub(super) async fn load_in_time<T>(
    load: impl Future<Output = crate::error::Result<T>>,
) -> crate::error::Result<T> {
    timeout(MAX_WAIT, load).await.unwrap_or_else(|_| {
        let text = format!(
            "the store did not load the thread within {} s; check the store, or try again later",
            MAX_WAIT.as_secs()
        );
        Err(Error::new(ErrorKind::Timeout, text))
    })
}

fn is_foreign(app: &App, caller: &Caller, state: &Option<AgentState>) -> bool {
    state
        .as_ref()
        .is_some_and(|state| !app.is_of(state, caller))
}

/// Starts a run in its own task.
///
/// # Errors
///
/// Returns 409 if the thread has a run, 429 if there are too many runs, and 503 during a shutdown.
pub(super) fn launch(
    app: &App,
    caller: &Caller,
    opened: OpenedThread,
    launch_input: LaunchInput,
    options: LaunchOptions,
) -> Result<Arc<ServerRun>, ApiError> {
    let recorder = options.is_traced.then(BoundedRecorder::default);
    let mut session = opened.session;
    if let Some(recorder) = &recorder {
        session = session.trace_recorder(recorder.clone());
    }

    // A new thread has no messages; without a state, readers would treat them as unknown.
    let mut state = opened
        .state
        .unwrap_or_else(|| AgentState::new(session.id().clone()));
    let has_input = launch_input.adapt(&mut state);
    let (run, input) = new_run(session.clone(), launch_input);
    let run_id = run.handle().run_id().clone();
    let leaves_calls_pending = options.leaves_calls_pending;
    let new_input = if has_input { Messages::new() } else { input };
    let encoder_options = encoder_options(&run_id, state, &new_input, options);
    let key = RunKey {
        user: caller.id().clone(),
        store: opened.store,
        thread: session.id().clone(),
    };
    let server_run = app.runs.start(StartRun {
        key: key.clone(),
        agent: opened.agent_id.clone(),
        shows_folders: caller.0.is_admin,
        run,
        options: encoder_options,
        leaves_calls_pending,
    })?;
    if let Some(recorder) = recorder {
        app.traces.add(Trace {
            id: run_id,
            key,
            agent: opened.agent_id,
            started_at: SystemTime::now(),
            recorder,
        });
    }
    Ok(server_run)
}

/// Returns a run that has not begun, and the messages of its input.
fn new_run(session: Session, launch_input: LaunchInput) -> (Run, Messages) {
    match launch_input {
        LaunchInput::Input(messages, input_id) => {
            let run = with_input_id(session, input_id).run(messages.clone());
            (run, messages)
        }
        LaunchInput::Regenerate(messages, input_id, position) => {
            let session = session.replace_input(input_id, position);
            (session.run(messages.clone()), messages)
        }
        LaunchInput::Decisions(decisions) => {
            let run = session.must_exist().resume(decisions);
            (run, Messages::new())
        }
    }
}

/// Returns the data of the run for its encoders.
fn encoder_options(
    run_id: &Arc<str>,
    state: AgentState,
    input: &Messages,
    options: LaunchOptions,
) -> EncoderOptions {
    let mut encoder_options = EncoderOptions::new(run_id.clone()).with_state(state);
    if let Some(id) = options.client_run_id {
        encoder_options = encoder_options.with_client_run_id(id);
    }
    for (index, message) in input.as_slice().iter().enumerate() {
        let id = options
            .message_ids
            .get(index)
            .cloned()
            .unwrap_or_else(|| format!("{run_id}.in.{index}").into());
        encoder_options = encoder_options.with_input(id, message.clone());
    }
    encoder_options
}

fn with_input_id(session: Session, id: Option<Arc<str>>) -> Session {
    match id {
        Some(id) => session.input_id(id),
        None => session,
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;
    use crate::message::Message;

    #[test]
    fn state_before_a_run_has_neither_its_input_nor_what_it_removes() {
        let mut state = AgentState::new("s");
        state.messages = Messages::from("One")
            .ai("First.")
            .with(Message::human("Two"))
            .ai("Second.");
        state.inputs.begin("one".into(), 0..1);
        state.inputs.begin("two".into(), 2..3);
        let input = |id: &str| LaunchInput::Input(Messages::from("Two"), Some(id.into()));
        assert!(input("two").adapt(&mut state));
        assert!(!input("three").adapt(&mut state));
        assert_eq!(state.messages.len(), 4);

        let regenerated = LaunchInput::Regenerate(Messages::from("Two"), None, 2);
        assert!(!regenerated.adapt(&mut state));
        assert_eq!(state.messages.len(), 2);
        let starts = state.inputs.starts();
        let starts: Vec<_> = starts.map(|(id, start)| (&**id, start)).collect();
        assert_eq!(starts, [("one", 0)]);
    }

    #[tokio::test(start_paused = true)]
    async fn load_that_hangs_is_an_error() {
        let load = timeout(2 * MAX_WAIT, load_in_time::<()>(pending()));
        let error = load.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout);
    }
}
