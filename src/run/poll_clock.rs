//! The time of a run, without the time that its reader takes to poll it.

use std::num::NonZeroU64;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker, ready};
use std::time::Duration;

use futures::task::AtomicWaker;
use tokio::time::{Instant, Sleep, sleep};

use crate::util::time::later;

/// The clock of one run. It does not count the time from a wake to the poll that answers it: a
/// waiting run is polled only after a wake, so this is the reader's time.
pub(crate) struct PollClock {
    /// The task that polls the run.
    task: AtomicWaker,
    epoch: Instant,
    /// The time of the first wake that no poll has answered, in nanoseconds since `epoch`, at least
    /// 1. It is 0 if there is none.
    woken: AtomicU64,
    /// The nanoseconds between wakes and the polls that answered them.
    unpolled: AtomicU64,
}

impl Default for PollClock {
    fn default() -> Self {
        Self {
            task: AtomicWaker::new(),
            epoch: Instant::now(),
            woken: AtomicU64::new(0),
            unpolled: AtomicU64::new(0),
        }
    }
}

impl Wake for PollClock {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.woken.load(Ordering::Acquire) == 0 {
            let now = self.now().max(1);
            // If there are several wakes before a poll, the first counts.
            let _ = self
                .woken
                .compare_exchange(0, now, Ordering::AcqRel, Ordering::Acquire);
        }
        self.task.wake();
    }
}

impl PollClock {
    /// Registers the task that polls the run. Returns `true` if the run was woken since its last
    /// poll; if not, the next wake reaches the task.
    pub(crate) fn register(&self, cx: &Context<'_>) -> bool {
        self.task.register(cx.waker());
        self.woken.load(Ordering::Acquire) != 0
    }

    /// Polls `future`, whose wakes go through this clock: `waker` is the clock's own.
    pub(crate) fn poll<F: Future + Unpin>(
        &self,
        waker: &Waker,
        cx: &mut Context<'_>,
        future: &mut F,
    ) -> Poll<F::Output> {
        self.task.register(cx.waker());
        let woken = self.woken.swap(0, Ordering::AcqRel);
        if woken != 0 {
            let late = self.now().saturating_sub(woken);
            self.unpolled.fetch_add(late, Ordering::AcqRel);
        }
        Pin::new(future).poll(&mut Context::from_waker(waker))
    }

    /// Returns the time since the run was created, except the time in which it was woken and not
    /// polled.
    pub(crate) fn elapsed(&self) -> Duration {
        let unpolled = self.unpolled.load(Ordering::Acquire);
        Duration::from_nanos(self.now().saturating_sub(unpolled))
    }

    /// Returns the time of the first wake after the last poll; `None` if there was none.
    pub(crate) fn unanswered_wake(&self) -> Option<NonZeroU64> {
        NonZeroU64::new(self.woken.load(Ordering::Acquire))
    }

    fn now(&self) -> u64 {
        let elapsed = Instant::now().saturating_duration_since(self.epoch);
        u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// A timer that counts a run's own time.
pub(crate) struct RunTimer {
    since: Duration,
    limit: Duration,
    sleep: Pin<Box<Sleep>>,
}

impl RunTimer {
    pub(crate) fn start(clock: &PollClock, limit: Duration) -> Self {
        Self {
            since: clock.elapsed(),
            limit,
            sleep: Box::pin(sleep(limit)),
        }
    }

    /// Returns `Ready` once the limit is reached.
    pub(crate) fn poll(&mut self, clock: &PollClock, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            ready!(self.sleep.as_mut().poll(cx));
            let elapsed = clock.elapsed().saturating_sub(self.since);
            let remaining = self.limit.saturating_sub(elapsed);
            if remaining.is_zero() {
                return Poll::Ready(());
            }
            self.sleep.as_mut().reset(later(Instant::now(), remaining));
        }
    }
}
