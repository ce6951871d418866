//! The handle of a server.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::watch;

use crate::registry::Registry;

use super::runs::RunTable;

/// A handle of a server, for its agents and its shutdown. Cheap to clone.
///
/// ```
/// use std::time::Duration;
///
/// use agentcore::AgentBuilder;
/// use agentcore::server::Server;
/// use agentcore::testing::ScriptedModel;
///
/// # async fn example() -> Result<(), agentcore::Error> {
/// let agent = AgentBuilder::new(ScriptedModel::new());
/// let server = Server::new().agent("default", agent).token("a token of your own");
/// let handle = server.handle();
/// let router = server.router()?;
/// // .. serve the router ..
/// handle.shutdown(Duration::from_secs(10)).await;
/// assert!(handle.is_closing());
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
pub struct ServerHandle(Arc<Inner>);

struct Inner {
    registry: Registry,
    /// Set by the router.
    runs: OnceLock<RunTable>,
    is_closing: watch::Sender<bool>,
}

impl ServerHandle {
    pub(super) fn new(registry: Registry) -> Self {
        Self(Arc::new(Inner {
            registry,
            runs: OnceLock::new(),
            is_closing: watch::Sender::new(false),
        }))
    }

    pub(super) fn set_runs(&self, runs: RunTable) {
        // Only the router, which is built once, calls this.
        let _is_first = self.0.runs.set(runs);
    }

    pub(super) fn closing(&self) -> watch::Receiver<bool> {
        self.0.is_closing.subscribe()
    }

    /// Returns the registry of the server's agents, with their tools and the event bus.
    pub fn registry(&self) -> &Registry {
        &self.0.registry
    }

    /// Returns `true` once a shutdown has begun.
    pub fn is_closing(&self) -> bool {
        *self.0.is_closing.borrow()
    }

    /// Ends all runs and streams within `limit`. All later requests are answered with 503.
    ///
    /// Calls with open questions wait for a later decision, other runs are interrupted, and all
    /// states are stored. Runs that take longer are dropped: their threads have the messages that
    /// were stored by then. Call this before the connections are closed, for example in the future
    /// passed to `with_graceful_shutdown`. [`Server::serve`](super::Server::serve) calls it itself.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, runs that have not ended yet continue to their end.
    pub async fn shutdown(&self, limit: Duration) {
        self.0.is_closing.send_replace(true);
        if let Some(runs) = self.0.runs.get() {
            runs.shutdown(limit).await;
        }
    }
}

impl fmt::Debug for ServerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerHandle")
            .field("runs", &self.0.runs.get())
            .field("is_closing", &self.is_closing())
            .finish_non_exhaustive()
    }
}
