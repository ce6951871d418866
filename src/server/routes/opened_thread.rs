//! The threads of a user, loaded for a request.

use std::sync::Arc;

use tokio::time::timeout;

use crate::agent::Session;
use crate::error::{Error, ErrorKind};
use crate::registry::TemplateInfo;
use crate::session::{AgentState, PendingCall, SessionStore};

use super::super::app::App;
use super::super::error::ApiError;
use super::super::random::new_thread_id;
use super::super::runs::{MAX_WAIT, RunKey, StoreId, StorePermit};
use super::super::users::Caller;
use super::path::checked_thread_id;

/// A thread in which a run is to start.
pub(super) struct OpenedThread {
    pub(super) agent_id: Arc<str>,
    agent_name: Arc<str>,
    pub(super) store: StoreId,
    pub(super) session: Session,
    /// The state; `None` if the thread does not exist yet.
    pub(super) state: Option<AgentState>,
    /// The permit to have the state in memory. It is held until the run has the state.
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
            permit.release_shared_permit();
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
    // The id, not the run: a reference to an ended run would keep its log in memory during the
    // load.
    let ended_run_id = || {
        let run = app.runs.find(key).filter(|run| !run.is_running());
        run.map(|run| run.id().clone())
    };
    loop {
        let run = app.runs.find(key).filter(|run| run.is_running());
        let earlier_id = ended_run_id();
        let stored = stored_state(app, caller, store, &key.thread).await?;
        // A run that ended during the load may have stored its response after the thread was read,
        // so the thread is loaded again. `last_id` also finds a run that both began and ended
        // during the load.
        let has_ended = run.is_some_and(|run| !run.is_running());
        let last_id = ended_run_id();
        if !has_ended && (last_id.is_none() || last_id == earlier_id) {
            return Ok(stored);
        }
    }
}

/// Returns the state of a thread of the user, or `None` if it does not exist, with the permit to
/// hold until the state is dropped. The permit counts as a load of the server until
/// [`StorePermit::release_shared_permit`].
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

/// Returns the pending calls of a thread. A fork's copies of calls are decided in the original
/// thread.
pub(super) fn own_pending(state: &AgentState) -> impl Iterator<Item = &PendingCall> {
    let pending = state.pending.iter();
    pending.filter(move |call| call.session_id == state.thread_id)
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn load_that_hangs_is_an_error() {
        let load = timeout(2 * MAX_WAIT, load_in_time::<()>(pending()));
        let error = load.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout);
    }
}
