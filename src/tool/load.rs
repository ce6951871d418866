//! Permits for calls that load much at once.

use std::fmt;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The number of calls of a run and its child runs that list or search a whole folder at the same
/// time. Each takes up to 100 MB while it does.
const AT_ONCE: usize = 2;

/// The permits of a run. Clones share them.
#[derive(Clone)]
pub(crate) struct LoadPermits(Arc<Semaphore>);

/// The permit of a call, until it is dropped. Outside any run, a permit limits nothing.
#[derive(Debug, Default)]
pub(crate) struct LoadPermit(#[expect(dead_code, reason = "held")] Option<OwnedSemaphorePermit>);

impl LoadPermits {
    /// Waits for a permit. Calls receive permits in the order in which they asked.
    pub(crate) async fn next(&self) -> LoadPermit {
        // Never closed, so there is no error.
        LoadPermit(self.0.clone().acquire_owned().await.ok())
    }
}

impl Default for LoadPermits {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(AT_ONCE)))
    }
}

impl fmt::Debug for LoadPermits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let free = self.0.available_permits();
        f.debug_struct("LoadPermits").field("free", &free).finish()
    }
}
