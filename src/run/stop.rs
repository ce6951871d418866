//! The stop of a run, by its deadline or by a caller.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::task::AtomicWaker;
use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use crate::util::sync::lock;

use super::exit_reason::ExitReason;

/// The time after a stop that all hooks at the run's end have together; each hook has its own limit
/// as well. The session store has the same time for one write.
pub(crate) const CLOSING_TIME: Duration = Duration::from_secs(10);

/// The reason for stopping the loop wherever it is, strongest last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Stop {
    None = 0,
    /// The time limit of the run was reached.
    Deadline = 1,
    Interrupt = 2,
    Abort = 3,
}

impl Stop {
    /// Returns the exit reason of a run that was stopped for this reason.
    pub(crate) fn exit_reason(self) -> ExitReason {
        match self {
            Self::Abort => ExitReason::Aborted,
            Self::Deadline => ExitReason::MaxDuration,
            _ => ExitReason::Interrupted,
        }
    }
}

/// The strongest stop that was requested, and the run's time limit.
pub(super) struct StopSignal {
    stop: AtomicU8,
    waker: AtomicWaker,
    /// Completes when the time limit is reached; `None` without a limit.
    timer: Mutex<Option<Pin<Box<Sleep>>>>,
    /// True once the run has a time limit. Most runs have none, and lock no timer.
    has_timer: AtomicBool,
}

impl Default for StopSignal {
    fn default() -> Self {
        Self {
            stop: AtomicU8::new(Stop::None as u8),
            waker: AtomicWaker::new(),
            timer: Mutex::default(),
            has_timer: AtomicBool::new(false),
        }
    }
}

impl StopSignal {
    pub(super) fn request(&self, stop: Stop) {
        self.stop.fetch_max(stop as u8, Ordering::AcqRel);
        self.waker.wake();
    }

    /// Requests a stop at `deadline`.
    pub(super) fn request_at(&self, deadline: Instant) {
        *lock(&self.timer) = Some(Box::pin(sleep_until(deadline)));
        self.has_timer.store(true, Ordering::Release);
    }

    pub(super) fn get(&self) -> Stop {
        match self.stop.load(Ordering::Acquire) {
            0 => Stop::None,
            1 => Stop::Deadline,
            2 => Stop::Interrupt,
            _ => Stop::Abort,
        }
    }

    /// Returns `true` if a stop was requested or the time limit has passed, even if the loop has
    /// not been polled since.
    pub(super) fn is_due(&self) -> bool {
        let is_late = |timer: &Pin<Box<Sleep>>| timer.deadline() <= Instant::now();
        let has_timer = self.has_timer.load(Ordering::Acquire);
        self.get() != Stop::None || has_timer && lock(&self.timer).as_ref().is_some_and(is_late)
    }

    /// Returns `true` if a stop was requested; otherwise the task is woken by the next request.
    fn poll_stopped(&self, cx: &mut Context<'_>) -> bool {
        self.waker.register(cx.waker());
        if self.has_timer.load(Ordering::Acquire) {
            self.poll_timer(cx);
        }
        self.get() != Stop::None
    }

    /// Requests a stop if the time limit is reached; otherwise the task is woken then.
    fn poll_timer(&self, cx: &mut Context<'_>) {
        let mut timer = lock(&self.timer);
        let is_due = timer
            .as_mut()
            .is_some_and(|sleep| sleep.as_mut().poll(cx).is_ready());
        if is_due {
            *timer = None;
            self.stop.fetch_max(Stop::Deadline as u8, Ordering::AcqRel);
        }
    }

    /// Awaits `future`; `None` if a stop is requested first.
    pub(super) fn unless_stopped<F: Future>(&self, future: F) -> UnlessStopped<'_, F> {
        UnlessStopped {
            signal: self,
            future,
        }
    }

    /// Awaits `future`. Returns `None` if the timer `grace` ends first. It starts when a stop is
    /// requested, and takes [`CLOSING_TIME`].
    pub(super) async fn within_grace<F: Future>(
        &self,
        grace: &mut Option<Pin<Box<Sleep>>>,
        future: F,
    ) -> Option<F::Output> {
        let mut future = pin!(future);
        poll_fn(|cx| {
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(Some(output));
            }

            if !self.poll_stopped(cx) {
                return Poll::Pending;
            }

            let grace = grace.get_or_insert_with(|| Box::pin(sleep(CLOSING_TIME)));
            grace.as_mut().poll(cx).map(|()| None)
        })
        .await
    }
}

pin_project! {
    /// A future that ends when the run is stopped. Not an `async fn`, which would keep its future
    /// twice.
    pub(crate) struct UnlessStopped<'a, F> {
        signal: &'a StopSignal,
        #[pin]
        future: F,
    }
}

impl<F: Future> Future for UnlessStopped<'_, F> {
    type Output = Option<F::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if this.signal.poll_stopped(cx) {
            return Poll::Ready(None);
        }
        this.future.poll(cx).map(Some)
    }
}
