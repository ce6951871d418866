//! Sessions for those who wire them by hand.

use std::fmt;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::hook::{Hook, Phases};
use crate::run::RunContext;
use crate::state::{AgentState, Lease, SessionStore};
use crate::util::sync::lock;

/// Loads the session from `store` before a run and saves it after, the run's own messages
/// included.
///
/// [`AgentBuilder::store`](crate::AgentBuilder::store) is the usual way, and stores every message
/// as it comes; with this hook a run that is dropped half-way leaves the store as it was. It is
/// for a second store beside the agent's own, or for a part of the work that a hook around it
/// decides about.
pub fn session_hooks(store: impl SessionStore) -> SessionHooks {
    SessionHooks {
        store: Arc::new(store),
    }
}

/// Loads and saves sessions; made by [`session_hooks`].
///
/// * The session is the run's. One without an id gets a new one, which
///   [`RunOutput::state`](crate::RunOutput::state) has as its `thread_id`.
/// * A session that the store does not have is new, not an error.
/// * What the store has comes before what the agent's own store has.
/// * The session is leased while the run goes on: a second run of it fails with
///   [`ErrorKind::SessionBusy`](crate::ErrorKind::SessionBusy) inside the hook's error.
/// * A save that fails is a warning; the answer stands.
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

/// The right to write the session, from the beginning of a run to its end.
struct Held(Mutex<Option<Lease>>);

#[async_trait]
impl Hook for SessionHooks {
    fn name(&self) -> &str {
        "session"
    }

    fn description(&self) -> &str {
        "Loads the session before a run and saves it after"
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
        let stored = self.store.load(&id).await;
        let stored = stored.map_err(|error| error.context(format!("cannot load {id:?}")))?;
        cx.set_value(Held(Mutex::new(Some(lease))));
        let Some(stored) = stored else {
            return Ok(state);
        };
        let stored = stored.state;
        let own = std::mem::take(&mut state.messages);
        if own.is_empty() {
            state.compaction = stored.compaction;
        }
        state.messages = stored.messages;
        state.messages.extend(own.as_slice().iter().cloned());
        state.user_id = state.user_id.or(stored.user_id);
        state.todos = stored.todos;
        state.files = stored.files;
        Ok(state)
    }

    async fn after_agent(&self, cx: &RunContext, state: AgentState) -> Result<AgentState> {
        let held = cx.value::<Held>();
        let lease = held.and_then(|held| lock(&held.0).take());
        let lease = lease.ok_or_else(|| Error::other("the session was not loaded by this run"))?;
        self.store.save(&lease, &state).await?;
        Ok(state)
    }
}

impl fmt::Debug for SessionHooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionHooks").finish_non_exhaustive()
    }
}
