//! Turns for calls that load much at once.

use std::fmt;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The number of calls of a run and its child runs that list or search a whole folder at the same
/// time. Each takes up to 100 MB while it does.
const AT_ONCE: usize = 2;

/// The turns of a run. Clones share them.
#[derive(Clone)]
pub(crate) struct LoadTurns(Arc<Semaphore>);

/// A call's turn, which ends when it is dropped; one outside any run limits nothing.
#[derive(Debug, Default)]
pub(crate) struct LoadTurn(#[expect(dead_code, reason = "held")] Option<OwnedSemaphorePermit>);

impl LoadTurns {
    /// Waits for a turn. Calls get it in the order in which they asked for it.
    pub(crate) async fn next(&self) -> LoadTurn {
        // Never closed, so there is no error.
        LoadTurn(self.0.clone().acquire_owned().await.ok())
    }
}

impl Default for LoadTurns {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(AT_ONCE)))
    }
}

impl fmt::Debug for LoadTurns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let free = self.0.available_permits();
        f.debug_struct("LoadTurns").field("free", &free).finish()
    }
}
