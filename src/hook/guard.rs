//! The execution of one phase of one hook: its panics, its time limit, its name in errors.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::CatchUnwind;
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

/// Awaits a wrapping phase of `hook`, as [`guard`]. `runs_in_progress` counts its calls of
/// [`Next::run`](super::Next::run) in progress.
///
/// An error that the hook only passes on from `Next::run` is not attributed to the hook.
pub(super) async fn guard_wrapping<T>(
    cx: &RunContext,
    hook: &dyn Hook,
    phase: Phases,
    runs_in_progress: Option<&AtomicUsize>,
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
        // The number of calls of `Next::run` in progress: their time is not the hook's.
        runs_in_progress: Option<&'a AtomicUsize>,
        timeout: Option<Duration>,
        clock: &'a PollClock,
        // Set only while the hook waits for something other than `Next::run`: a hook that repeats a
        // call must not begin with a timer that has almost run out.
        timer: Option<Box<RunTimer>>,
    }

    impl<F> PinnedDrop for GuardedHook<'_, F> {
        fn drop(this: Pin<&mut Self>) {
            let mut future = this.project().future;
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

        match future.poll(cx) {
            Poll::Ready(Ok(output)) => return Poll::Ready(Ok(output)),
            Poll::Ready(Err(payload)) => {
                let text = panic::into_message(payload);
                return Poll::Ready(Err(HookFailure::Panic(text)));
            }
            Poll::Pending => {}
        }

        let is_in_next = this
            .runs_in_progress
            .is_some_and(|count| count.load(Ordering::Relaxed) > 0);
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
