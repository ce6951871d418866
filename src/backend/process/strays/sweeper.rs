//! Searches that take longer than the call they belong to.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::util::sync::lock;

use super::super::cgroup::Cgroup;
use super::evidence::Evidence;
use super::sweep::Sweep;

/// The time the call of a command waits for its strays to end.
const IN_CALL: Duration = Duration::from_secs(2);
/// The time they are searched for after that.
const AFTERWARDS: Duration = Duration::from_secs(60);
/// The time one search may keep the others of its thread waiting.
const TURN: Duration = Duration::from_millis(250);
/// The time a turn waits for a cgroup to be empty.
const REMOVAL: Duration = Duration::from_millis(100);
/// The pauses between two turns of one search: twice as long each time, up to the last.
const PAUSE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// The thread that continues the searches of one backend; it exists only while there are any.
#[derive(Debug, Default)]
pub(in super::super::super) struct Sweeper {
    queue: Mutex<Queue>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    jobs: VecDeque<Job>,
    is_running: bool,
}

#[derive(Debug)]
struct Job {
    cleanup: Cleanup,
    until: Instant,
    next: Instant,
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
    /// Returns whether nothing remains to be done.
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
            sweep.scan(false);
        }
    }

    /// Stops what is recognized, then has `end_group` end the group, and ends the strays. Processes
    /// that are left after two seconds are passed to the thread of the backend. Blocks.
    pub(in super::super) fn end(mut self, end_group: impl FnOnce()) {
        let deadline = Instant::now() + IN_CALL;
        if let Some(sweep) = self.sweep_without_cgroup() {
            sweep.scan(true);
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
}

impl Strays {
    /// Returns the search, where parents have to show what was started: what is in a cgroup is
    /// known by it.
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
        queue.jobs.push_back(Job {
            cleanup,
            until: now + AFTERWARDS,
            next: now,
            pause: PAUSE,
        });

        self.arrived.notify_one();
        if queue.is_running {
            return;
        }

        let sweeper = self.clone();
        let thread = std::thread::Builder::new().name("agentcore-strays".to_owned());
        match thread.spawn(move || sweeper.work()) {
            Ok(_) => queue.is_running = true,
            // Without a thread the search is not possible.
            Err(_) => queue.jobs.clear(),
        }
    }

    fn work(&self) {
        while let Some(mut job) = self.next() {
            if job.cleanup.run(Instant::now() + TURN) {
                continue;
            }

            let now = Instant::now();
            if now >= job.until {
                tracing::warn!("processes of a command that is over were not ended");
                continue;
            }

            job.next = now + job.pause;
            job.pause = (job.pause * 2).min(MAX_PAUSE);
            lock(&self.queue).jobs.push_back(job);
        }
    }

    /// The next search that is due, waiting for it; `None` when there are no more.
    fn next(&self) -> Option<Job> {
        let mut queue = lock(&self.queue);
        loop {
            let Some(earliest_time) = queue.jobs.iter().map(|job| job.next).min() else {
                queue.is_running = false;
                return None;
            };

            let now = Instant::now();
            if earliest_time <= now {
                let index = queue.jobs.iter().position(|job| job.next <= now)?;
                return queue.jobs.remove(index);
            }

            let result = self.arrived.wait_timeout(queue, earliest_time - now);
            queue = result.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
