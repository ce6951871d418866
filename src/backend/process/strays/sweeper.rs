//! The cleanup of commands whose processes have not ended with their call.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::util::sync::lock;

use super::super::cgroup::Cgroup;
use super::evidence::Evidence;
use super::sweep::{ScanMode, Sweep};

/// The time for which the call of a command waits until its strays have ended.
const IN_CALL: Duration = Duration::from_secs(2);
/// The time for which strays are searched after the call.
const AFTERWARDS: Duration = Duration::from_secs(60);
/// The maximum time of one attempt, in which the other cleanups of the thread wait.
const SLICE: Duration = Duration::from_millis(250);
/// The time for which an attempt waits until a cgroup is empty.
const REMOVAL: Duration = Duration::from_millis(100);
/// The first pause between two attempts of a cleanup. Each pause is twice as long as the previous
/// one.
const PAUSE: Duration = Duration::from_millis(50);
/// The maximum pause between two attempts.
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// The queue of the cleanups of one backend, and the thread that continues them. The thread exists
/// only while there are cleanups.
#[derive(Debug, Default)]
pub(in super::super::super) struct Sweeper {
    queue: Mutex<CleanupQueue>,
    /// Notified when a cleanup was added.
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct CleanupQueue {
    cleanups: VecDeque<QueuedCleanup>,
    /// True if the thread exists.
    is_running: bool,
}

#[derive(Debug)]
struct QueuedCleanup {
    cleanup: Cleanup,
    /// The time after which the cleanup is abandoned.
    deadline: Instant,
    /// The time of the next attempt.
    next_attempt: Instant,
    /// The pause after the next attempt.
    pause: Duration,
}

/// The remaining work for a command that is over.
#[derive(Debug)]
struct Cleanup {
    cgroup: Option<Cgroup>,
    sweep: Option<Sweep>,
}

/// The processes that left the group of one command. If some have not ended when this is dropped,
/// the thread of the backend searches for them.
#[derive(Debug)]
pub(in super::super::super) struct Strays {
    cleanup: Option<Cleanup>,
    sweeper: Arc<Sweeper>,
}

impl Cleanup {
    /// Ends the remaining processes and removes the cgroup. Returns `true` if nothing remains to be
    /// done.
    fn run(&mut self, deadline: Instant) -> bool {
        // Killing the cgroup ends its processes at once, but a privileged process can leave it.
        let sweep = self.sweep.as_mut();
        let is_quiet = sweep.is_none_or(|sweep| sweep.end(deadline));
        let removal_deadline = deadline.min(Instant::now() + REMOVAL);
        self.cgroup
            .take_if(|cgroup| cgroup.remove(removal_deadline));
        is_quiet && self.cgroup.is_none()
    }
}

impl Strays {
    pub(in super::super::super) fn new(
        evidence: Option<Evidence>,
        cgroup: Option<Cgroup>,
        sweeper: Arc<Sweeper>,
    ) -> Self {
        let sweep = evidence.map(Sweep::new);
        Self {
            cleanup: Some(Cleanup { cgroup, sweep }),
            sweeper,
        }
    }

    /// Moves the command's first process, a child that was not waited for, to the cgroup, if there
    /// is one. Blocks.
    pub(in super::super::super) fn admit(&mut self, child: Option<u32>) {
        if let Some(cleanup) = &mut self.cleanup {
            let is_in = |cgroup: &mut Cgroup| child.is_some_and(|child| cgroup.admit(child));
            cleanup.cgroup.take_if(|cgroup| !is_in(cgroup));
        }
    }

    /// Records the current processes, while their parents still identify them. Blocks.
    pub(in super::super) fn note(&mut self) {
        if let Some(sweep) = self.sweep_without_cgroup() {
            sweep.scan(ScanMode::Observe);
        }
    }

    /// Returns `true` if the group, whose leader was waited for, has processes other than its
    /// watcher, or if that is unknown. Blocks.
    pub(in super::super) fn has_members(&self) -> bool {
        let cleanup = self.cleanup.as_ref();
        let sweep = cleanup.and_then(|cleanup| cleanup.sweep.as_ref());
        sweep.is_none_or(Sweep::has_members)
    }

    /// Suspends the strays that are found (`SIGSTOP`), calls `end_group`, which ends the group, and
    /// kills the strays. Processes that are left after two seconds are passed to the thread of the
    /// backend. Blocks.
    pub(in super::super) fn end(mut self, end_group: impl FnOnce()) {
        let deadline = Instant::now() + IN_CALL;
        if let Some(sweep) = self.sweep_without_cgroup() {
            sweep.scan(ScanMode::Stop);
        }

        self.kill_cgroup();
        end_group();
        if self
            .cleanup
            .as_mut()
            .is_none_or(|cleanup| cleanup.run(deadline))
        {
            self.cleanup = None;
        } else {
            tracing::warn!(
                "a command left processes that start others all the time; \
                 they are searched for in the background, for a minute"
            );
        }
    }

    /// Returns the search if there is no cgroup, which would identify the processes.
    fn sweep_without_cgroup(&mut self) -> Option<&mut Sweep> {
        let cleanup = self.cleanup.as_mut()?;
        cleanup.sweep.as_mut().filter(|_| cleanup.cgroup.is_none())
    }

    fn kill_cgroup(&self) {
        let cleanup = self.cleanup.as_ref();
        if let Some(cgroup) = cleanup.and_then(|cleanup| cleanup.cgroup.as_ref()) {
            cgroup.kill();
        }
    }
}

impl Drop for Strays {
    fn drop(&mut self) {
        self.kill_cgroup();
        if let Some(cleanup) = self.cleanup.take() {
            self.sweeper.push(cleanup);
        }
    }
}

impl Sweeper {
    fn push(self: &Arc<Self>, cleanup: Cleanup) {
        let now = Instant::now();
        let mut queue = lock(&self.queue);
        queue.cleanups.push_back(QueuedCleanup {
            cleanup,
            deadline: now + AFTERWARDS,
            next_attempt: now,
            pause: PAUSE,
        });

        self.arrived.notify_one();
        if queue.is_running {
            return;
        }

        let sweeper = self.clone();
        let thread = std::thread::Builder::new().name("agentcore-strays".to_owned());
        match thread.spawn(move || sweeper.run_cleanups()) {
            Ok(_) => queue.is_running = true,
            // Without a thread the search is not possible.
            Err(_) => queue.cleanups.clear(),
        }
    }

    /// Runs the cleanups, one attempt after the other, until none is left.
    fn run_cleanups(&self) {
        while let Some(mut queued) = self.next() {
            if queued.cleanup.run(Instant::now() + SLICE) {
                continue;
            }

            let now = Instant::now();
            if now >= queued.deadline {
                tracing::warn!("processes of a command that is over were not ended");
                continue;
            }

            queued.next_attempt = now + queued.pause;
            queued.pause = (queued.pause * 2).min(MAX_PAUSE);
            lock(&self.queue).cleanups.push_back(queued);
        }
    }

    /// Waits for the next cleanup that is due. Returns `None` if none is left.
    fn next(&self) -> Option<QueuedCleanup> {
        let mut queue = lock(&self.queue);
        loop {
            let attempt_times = queue.cleanups.iter().map(|queued| queued.next_attempt);
            let Some(earliest_time) = attempt_times.min() else {
                queue.is_running = false;
                return None;
            };

            let now = Instant::now();
            if earliest_time <= now {
                let mut cleanups = queue.cleanups.iter();
                let index = cleanups.position(|queued| queued.next_attempt <= now)?;
                return queue.cleanups.remove(index);
            }

            let result = self.arrived.wait_timeout(queue, earliest_time - now);
            queue = result.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
