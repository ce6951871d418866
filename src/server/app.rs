//! The state that all routes share.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use tokio::sync::watch;

use crate::error::{Error, ErrorKind};
use crate::net::AddressPolicy;
use crate::registry::{Instance, Registry};
use crate::session::{AgentState, SessionStore};

use super::auth::Auth;
use super::error::ApiError;
use super::limits::ServerLimits;
use super::origin::Origins;
use super::runs::{RunKey, RunTable, ServerRun, StoreId};
use super::traces::TraceLog;
use super::uploads::Uploads;
use super::users::{Caller, LOCAL_USER};

/// The state that all routes share. Cheap to clone.
#[derive(Clone)]
pub(super) struct App(Arc<AppState>);

/// The parts of an [`App`].
pub(super) struct AppState {
    pub(super) registry: Registry,
    pub(super) runs: RunTable,
    pub(super) limits: ServerLimits,
    pub(super) auth: Auth,
    pub(super) origins: Origins,
    pub(super) callbacks: AddressPolicy,
    /// The models that a thread may change to.
    pub(super) models: BTreeSet<String>,
    pub(super) traces: TraceLog,
    pub(super) uploads: Uploads,
    pub(super) is_closing: watch::Receiver<bool>,
    /// The description of the routes, as JSON.
    pub(super) openapi: Arc<str>,
    /// The interval of the comments that keep an idle stream open.
    pub(super) keep_alive: Duration,
}

impl App {
    pub(super) fn new(state: AppState) -> Self {
        Self(Arc::new(state))
    }

    /// Returns the user's instance of an agent.
    pub(super) async fn instance(
        &self,
        agent: &str,
        caller: &Caller,
    ) -> Result<Arc<Instance>, ApiError> {
        let instance = self.registry.get_or_clone(agent, caller.id()).await;
        instance.map_err(of_agent)
    }

    /// Returns the user's agent for a description, without starting its container.
    pub(super) async fn described(
        &self,
        agent: &str,
        caller: &Caller,
    ) -> Result<Arc<Instance>, ApiError> {
        let instance = self.registry.described(agent, caller.id()).await;
        instance.map_err(of_agent)
    }

    /// Returns the store of an agent's threads.
    pub(super) async fn store(&self, agent: &str) -> Result<Arc<dyn SessionStore>, ApiError> {
        let store = self.registry.session_store(agent).await;
        store.map_err(of_agent)
    }

    /// Returns the run of a thread, or its last run while the log is kept. The run may be one of
    /// another agent that shares the store of this one.
    pub(super) async fn run(
        &self,
        caller: &Caller,
        agent: &str,
        thread: &Arc<str>,
    ) -> Option<Arc<ServerRun>> {
        let of_store = match self.registry.session_store(agent).await {
            Ok(store) => self.runs.find(&RunKey {
                user: caller.id().clone(),
                store: StoreId::of(&store),
                thread: thread.clone(),
            }),
            Err(_) => None,
        };
        // The run of an agent that was removed since, or replaced by one with another store.
        of_store.or_else(|| self.runs.running_of(caller.id(), agent, thread))
    }

    /// Returns `true` if a thread belongs to the user.
    pub(super) fn is_of(&self, state: &AgentState, caller: &Caller) -> bool {
        match &state.user_id {
            Some(user) => user == caller.id(),
            // Such a thread was written by a program without users; a server without users
            // continues it.
            None => matches!(self.auth, Auth::Token(_)) && **caller.id() == *LOCAL_USER,
        }
    }
}

/// Returns the error of an agent that cannot be built.
fn of_agent(error: Error) -> ApiError {
    match error.kind() {
        // Such as a tool that must be registered first.
        ErrorKind::Config => ApiError::bad_request(error.to_string()),
        // Too many backends have files in memory.
        ErrorKind::QuotaExhausted => {
            ApiError::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
        }
        _ => error.into(),
    }
}

impl Deref for App {
    type Target = AppState;

    fn deref(&self) -> &AppState {
        &self.0
    }
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App")
            .field("runs", &self.runs)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}
