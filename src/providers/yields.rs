//! Yields of a stream that waits for its next chunk.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use tokio::task::yield_now;

/// Yields of a task that waits for a chunk. A chunk that has arrived with the last one is passed on
/// as soon as the connection's task is polled, for which a yield is enough. A timer costs more: it
/// wakes the thread that waits for events.
///
/// The wake at the end of a yield is withdrawn by [`end`](Self::end), because the chunk usually
/// wakes the task earlier, and a second wake would poll the run for nothing.
#[derive(Default)]
pub(super) struct Yields {
    waker: Option<Arc<YieldWaker>>,
}

struct YieldWaker {
    task: Waker,
    is_waiting: AtomicBool,
}

impl Yields {
    /// Ends the yield, if there is one.
    pub(super) fn end(&self) {
        if let Some(waker) = &self.waker {
            waker.is_waiting.store(false, Ordering::Release);
        }
    }

    /// Lets other tasks run before this one is polled again. Always returns `Pending`.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let is_other = |waker: &Arc<YieldWaker>| !waker.task.will_wake(cx.waker());
        if self.waker.as_ref().is_none_or(is_other) {
            self.end();
            self.waker = None;
        }

        let waker = self.waker.get_or_insert_with(|| {
            Arc::new(YieldWaker {
                task: cx.waker().clone(),
                is_waiting: AtomicBool::new(false),
            })
        });
        waker.is_waiting.store(true, Ordering::Release);
        let yield_waker = Waker::from(waker.clone());
        let _ = pin!(yield_now()).poll(&mut Context::from_waker(&yield_waker));
        Poll::Pending
    }
}

impl Drop for Yields {
    fn drop(&mut self) {
        self.end();
    }
}

impl Wake for YieldWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.is_waiting.load(Ordering::Acquire) {
            self.task.wake_by_ref();
        }
    }
}
