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

/// The bit of a clock's state that is set while the reader polls the run's stream.
const IN_READER: u64 = 1;
/// The position of the other bits: the time of the first wake that no poll of the loop has
/// answered, in nanoseconds since the epoch of the clock, at least 1. They are 0 if there is none.
const WOKEN_SHIFT: u32 = 1;

/// The clock of one run. It does not count the time from a wake to the poll that answers it: a
/// waiting run is polled only after a wake, so this is the reader's time.
pub(crate) struct PollClock {
    /// The task that polls the run.
    task: AtomicWaker,
    epoch: Instant,
    /// [`IN_READER`], and the time of the first wake that no poll has answered.
    state: AtomicU64,
    /// The nanoseconds between wakes and the polls that answered them.
    unpolled: AtomicU64,
}

impl Default for PollClock {
    fn default() -> Self {
        Self {
            task: AtomicWaker::new(),
            epoch: Instant::now(),
            state: AtomicU64::new(0),
            unpolled: AtomicU64::new(0),
        }
    }
}

impl Wake for PollClock {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut state = self.state.load(Ordering::Relaxed);
        let mut now = 0;
        loop {
            let mut next = state;
            // If there are several wakes before a poll, the first counts.
            if woken(state).is_none() {
                if now == 0 {
                    now = self.now().max(1);
                }
                next |= now << WOKEN_SHIFT;
            }

            // Written even if nothing changes, so that the reader sees what happened before this
            // wake.
            let outcome =
                self.state
                    .compare_exchange_weak(state, next, Ordering::AcqRel, Ordering::Relaxed);
            match outcome {
                Ok(_) => break,
                Err(current) => state = current,
            }
        }

        // A wake of the task during its own poll would run it again for nothing, on another thread
        // where there is one. The reader sees the wake before its poll ends.
        if state & IN_READER == 0 {
            self.task.wake();
        }
    }
}

/// Returns the time of the unanswered wake in a state of the clock.
fn woken(state: u64) -> Option<NonZeroU64> {
    NonZeroU64::new(state >> WOKEN_SHIFT)
}

impl PollClock {
    /// Begins a poll of the run's stream. Wakes of the loop do not reach the task until
    /// [`leave_reader`](Self::leave_reader).
    pub(crate) fn enter_reader(&self) {
        self.state.fetch_or(IN_READER, Ordering::AcqRel);
    }

    /// Ends a poll of the run's stream. Returns `true` if the loop was woken and not polled since.
    /// The caller then has to wake the task, unless the reader polls again anyway, as after a
    /// message.
    pub(crate) fn leave_reader(&self) -> bool {
        let state = self.state.fetch_and(!IN_READER, Ordering::AcqRel);
        woken(state).is_some()
    }

    /// Registers the task that polls the run. Returns `true` if the run was woken since its last
    /// poll; if not, the next wake reaches the task.
    pub(crate) fn register(&self, cx: &Context<'_>) -> bool {
        self.task.register(cx.waker());
        self.unanswered_wake().is_some()
    }

    /// Polls `future`, whose wakes go through this clock: `waker` is the clock's own. The task is
    /// [registered](Self::register) before.
    pub(crate) fn poll<F: Future + Unpin>(&self, waker: &Waker, future: &mut F) -> Poll<F::Output> {
        let former = self.state.fetch_and(IN_READER, Ordering::AcqRel);
        if let Some(woken) = woken(former) {
            let late = self.now().saturating_sub(woken.get());
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
        woken(self.state.load(Ordering::Acquire))
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
