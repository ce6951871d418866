//! The signal that the call or the run that started background work has ended.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// A signal that the call or the run it belongs to has ended: it finished, timed out, was
/// interrupted or was dropped.
///
/// It is for threads and tasks that a tool or a hook has started. The future of the tool or hook
/// itself does not need it, because it is dropped. Clones share the signal.
#[derive(Clone, Default)]
pub struct Cancellation(Arc<Inner>);

#[derive(Default)]
struct Inner {
    cancelled: AtomicBool,
    notify: Notify,
}

impl Cancellation {
    /// Returns `true` once the call or the run has ended.
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::Acquire)
    }

    /// Completes when the call or the run has ended.
    ///
    /// # Cancel safety
    ///
    /// The future may be dropped, and `cancelled` called again.
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
