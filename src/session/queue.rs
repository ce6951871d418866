//! Waiting for a turn without a thread.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::util::sync::lock;

/// What one at a time may do. Those who wait for their turn take none of the runtime's threads.
#[derive(Debug)]
pub(super) struct Queue {
    turns: Arc<Semaphore>,
    /// Since when the one whose turn it is has waited.
    since: Mutex<Option<Instant>>,
}

/// A turn, until it is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    _permit: OwnedSemaphorePermit,
}

impl Queue {
    pub(super) fn new() -> Self {
        Self {
            turns: Arc::new(Semaphore::new(1)),
            since: Mutex::default(),
        }
    }

    /// A turn; none outside a runtime, where each has a thread of its own to wait on.
    pub(super) async fn turn(&self) -> Option<Turn> {
        Handle::try_current().ok()?;
        let since = Instant::now();
        let permit = self.turns.clone().acquire_owned().await.ok()?;
        *lock(&self.since) = Some(since);
        Some(Turn { _permit: permit })
    }

    /// How long the one whose turn it is has waited; asked once.
    pub(super) fn waited(&self) -> Duration {
        let since = lock(&self.since).take();
        since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}
