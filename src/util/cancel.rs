//! The signal that detached work is no longer awaited.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Signals the end of the call or run it belongs to: finished, timed out, interrupted or dropped.
///
/// Work inside the future needs none of this, for dropping the future ends it. It is for background
/// threads and tasks that a tool started. Clones share the signal.
#[derive(Clone, Default)]
pub struct Cancellation(Arc<Inner>);

#[derive(Default)]
struct Inner {
    cancelled: AtomicBool,
    notify: Notify,
}

impl Cancellation {
    /// Returns `true` after the end.
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::Acquire)
    }

    /// Waits for the end. Cancel safe.
    pub async fn cancelled(&self) {
        let mut notification = std::pin::pin!(self.0.notify.notified());
        // Registered before the flag is read, so that a cancel in between is not missed.
        notification.as_mut().enable();
        if !self.is_cancelled() {
            notification.await;
        }
    }

    pub(crate) fn cancel(&self) {
        self.0.cancelled.store(true, Ordering::Release);
        self.0.notify.notify_waiters();
    }

    /// Cancels when the guard is dropped.
    pub(crate) fn guard(&self) -> CancelGuard {
        CancelGuard(self.clone())
    }
}

impl fmt::Debug for Cancellation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancellation")
            .field("cancelled", &self.is_cancelled())
            .finish()
    }
}

pub(crate) struct CancelGuard(Cancellation);

impl Drop for CancelGuard {
    fn drop(&mut self) {
        self.0.cancel();
    }
}
