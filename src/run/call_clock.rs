//! The time that a call takes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use crate::message::ToolCall;
use crate::sdk::ToolProgress;
use crate::util::sync::lock;

use super::context::RunContext;
use super::poll_clock::PollClock;

/// The start time of a call, and the time of its last progress as the run counts it.
pub(crate) struct CallClock {
    run: Arc<PollClock>,
    started: Instant,
    last_progress: Mutex<Duration>,
    /// The number of [`PausedClock`]s. While there are any, the time without progress is zero.
    pauses: AtomicUsize,
}

impl CallClock {
    pub(crate) fn start(run: &RunContext) -> Arc<Self> {
        let run = run.shared().clock.clone();
        Arc::new(Self {
            started: Instant::now(),
            last_progress: Mutex::new(run.elapsed()),
            run,
            pauses: AtomicUsize::new(0),
        })
    }

    fn elapsed(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// Returns the time since the call's last progress, or zero while the clock is paused.
    pub(crate) fn idle(&self) -> Duration {
        if self.pauses.load(Ordering::Acquire) > 0 {
            return Duration::ZERO;
        }
        self.run
            .elapsed()
            .saturating_sub(*lock(&self.last_progress))
    }

    /// Restarts the time without progress.
    pub(crate) fn touch(&self) {
        *lock(&self.last_progress) = self.run.elapsed();
    }

    /// Returns a progress message of the call.
    pub(crate) fn progress(&self, run: &RunContext, call: &ToolCall) -> ToolProgress {
        let id = call.id.clone();
        let name = call.name.clone();
        ToolProgress::new(run.shared().envelope(), id, name, self.elapsed())
    }
}

/// Keeps the time without progress of a call at zero until it is dropped.
pub(crate) struct PausedClock<'a>(&'a CallClock);

impl<'a> PausedClock<'a> {
    pub(crate) fn begin(clock: &'a CallClock) -> Self {
        clock.pauses.fetch_add(1, Ordering::AcqRel);
        Self(clock)
    }
}

impl Drop for PausedClock<'_> {
    fn drop(&mut self) {
        self.0.touch();
        self.0.pauses.fetch_sub(1, Ordering::AcqRel);
    }
}
