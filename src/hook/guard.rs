//! The execution of one phase of one hook: its panics, its time limit, its name in errors.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::CatchUnwind;
use futures::task::AtomicWaker;
use pin_project_lite::pin_project;

use crate::error::{Error, ErrorKind, Result};
use crate::run::{PollClock, RunContext, RunTimer};
use crate::util::panic;

use super::hook::Hook;
use super::phases::Phases;

tokio::task_local! {
    /// The run whose hook this task is in.
    static RUN: RunContext;
}

/// Returns the run whose hook the current task is in, of nested runs the inner one.
pub(crate) fn current_run() -> Option<RunContext> {
    RUN.try_with(RunContext::clone).ok()
}

/// Awaits one phase of `hook`. Errors, panics and an exceeded time limit become errors that name
/// the hook and the phase.
pub(crate) fn guard<T>(
    cx: &RunContext,
    hook: &dyn Hook,
    phase: Phases,
    future: impl Future<Output = Result<T>>,
) -> impl Future<Output = Result<T>> {
    guard_wrapping(cx, hook, phase, None, future)
}

/// The calls of [`Next::run`](super::Next::run) of a hook that are in progress.
#[derive(Default)]
pub(super) struct RunsInProgress {
    count: AtomicUsize,
    /// The task of the hook, while it waits: the calls may be in other tasks.
    waiting_hook: AtomicWaker,
}

impl RunsInProgress {
    /// Counts a call as in progress until the result is dropped.
    pub(super) fn enter(&self) -> RunInProgress<'_> {
        self.count.fetch_add(1, Ordering::Relaxed);
        RunInProgress(self)
    }

    /// Returns `true` if a call is in progress. The hook is then woken when the last one ends.
    fn wait(&self, cx: &mut Context<'_>) -> bool {
        let has_runs = || self.count.load(Ordering::Relaxed) > 0;
        if !has_runs() {
            return false;
        }
        self.waiting_hook.register(cx.waker());
        // The last one may have ended before it could wake the hook.
        has_runs()
    }

    /// Ends the wait of the hook: a call that it ends itself must not wake it.
    fn end_wait(&self) {
        drop(self.waiting_hook.take());
    }
}

/// A call of [`Next::run`](super::Next::run) in progress.
pub(super) struct RunInProgress<'a>(&'a RunsInProgress);

impl Drop for RunInProgress<'_> {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.0.waiting_hook.wake();
        }
    }
}

/// Awaits a wrapping phase of `hook`, as [`guard`].
///
/// An error that the hook only passes on from `Next::run` is not attributed to the hook.
pub(super) async fn guard_wrapping<T>(
    cx: &RunContext,
    hook: &dyn Hook,
    phase: Phases,
    runs_in_progress: Option<&RunsInProgress>,
    future: impl Future<Output = Result<T>>,
) -> Result<T> {
    let guarded_future = GuardedHook {
        future: Some(AssertUnwindSafe(RUN.scope(cx.clone(), future)).catch_unwind()),
        runs_in_progress,
        timeout: cx.settings().hook_timeout,
        clock: &cx.shared().clock,
        timer: None,
    };

    let name = hook.name();
    let phase = phase.name();
    let text = match guarded_future.await {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(error)) if error.is_attributed() => return Err(error),
        Ok(Err(error)) => {
            let text = format!("hook `{name}` failed in {phase}: {error}");
            return Err(Error::new(ErrorKind::Hook, text)
                .with_source(error)
                .attributed());
        }
        Err(HookFailure::Panic(message)) => format!("hook `{name}` panicked in {phase}: {message}"),
        Err(HookFailure::Timeout(timeout)) => {
            format!(
                "hook `{name}` took longer than {timeout:?} in {phase}; raise \
                 `AgentBuilder::hook_timeout`"
            )
        }
    };

    Err(Error::new(ErrorKind::Hook, text).attributed())
}

pin_project! {
    /// The future of a hook's phase. It fails if the phase takes too long, before it waits for a
    /// call of `Next::run` or after it has waited for one.
    struct GuardedHook<'a, F> {
        // `None` only during the drop.
        #[pin]
        future: Option<CatchUnwind<AssertUnwindSafe<F>>>,
        // The calls of `Next::run` in progress: their time is not the hook's.
        runs_in_progress: Option<&'a RunsInProgress>,
        timeout: Option<Duration>,
        clock: &'a PollClock,
        // Set only while the hook waits for something other than `Next::run`: a hook that repeats a
        // call must not begin with a timer that has almost run out.
        timer: Option<Box<RunTimer>>,
    }

    impl<F> PinnedDrop for GuardedHook<'_, F> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            let mut future = this.future;
            if let Some(runs) = *this.runs_in_progress {
                runs.end_wait();
            }
            // A stopped run drops many hooks at once; a second panic would abort the process.
            if let Err(text) = panic::catch(|| future.set(None)) {
                tracing::warn!("a hook panicked while it was cancelled: {text}");
            }
        }
    }
}

enum HookFailure {
    Panic(String),
    Timeout(Duration),
}

impl<T, F: Future<Output = Result<T>>> Future for GuardedHook<'_, F> {
    type Output = std::result::Result<Result<T>, HookFailure>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let Some(future) = this.future.as_pin_mut() else {
            return Poll::Pending;
        };

        if let Some(runs) = *this.runs_in_progress {
            runs.end_wait();
        }
        match future.poll(cx) {
            Poll::Ready(Ok(output)) => return Poll::Ready(Ok(output)),
            Poll::Ready(Err(payload)) => {
                let text = panic::into_message(payload);
                return Poll::Ready(Err(HookFailure::Panic(text)));
            }
            Poll::Pending => {}
        }

        let is_in_next = this.runs_in_progress.is_some_and(|runs| runs.wait(cx));
        let Some(timeout) = this.timeout.filter(|_| !is_in_next) else {
            *this.timer = None;
            return Poll::Pending;
        };

        let clock = *this.clock;
        let start = || Box::new(RunTimer::start(clock, timeout));
        match this.timer.get_or_insert_with(start).poll(clock, cx) {
            Poll::Ready(()) => Poll::Ready(Err(HookFailure::Timeout(timeout))),
            Poll::Pending => Poll::Pending,
        }
    }
}
