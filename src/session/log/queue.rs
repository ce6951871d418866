//! A queue of jobs for one blocking thread.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::error::{Error, ErrorKind, Result};
use crate::util::panic;
use crate::util::sync::lock;

/// A queue of jobs that run in order, all on one of the runtime's threads for blocking work. The
/// thread is released when the queue is empty.
///
/// Jobs do not run in the futures that wait for them: a future that is not polled, such as that of
/// a run with a slow reader, would block all others.
#[derive(Clone, Default)]
pub(in crate::session) struct Queue(Arc<Inner>);

/// The queues in which the calls of a store take turns, where not all can work at once.
#[derive(Default)]
pub(in crate::session) struct Queues {
    pub(in crate::session) readers: Option<Queue>,
    /// Calls that read many logs, or a whole log twice, which would delay the other readers.
    pub(in crate::session) listers: Option<Queue>,
    pub(in crate::session) writers: Option<Queue>,
}

#[derive(Default)]
struct Inner {
    jobs: Mutex<Jobs>,
    /// The time at which the write of the current job was queued. `None` between jobs, and once it
    /// was taken.
    queued_at: Mutex<Option<Instant>>,
}

#[derive(Default)]
struct Jobs {
    waiting: VecDeque<Job>,
    /// True while a thread works on them, or is about to.
    has_worker: bool,
}

struct Job {
    queued_at: Instant,
    work: Box<dyn FnOnce() + Send>,
}

/// The worker that runs the jobs. If its thread never starts, because the runtime is shut down,
/// another thread takes over: the jobs may belong to another runtime.
struct Worker(Option<Arc<Inner>>);

impl Queue {
    /// Runs `work` after the jobs before it, or in place outside a runtime. If the future is
    /// dropped before that, the work is skipped; work that has begun is finished. A panic of `work`
    /// continues in this future.
    ///
    /// # Errors
    ///
    /// Returns the error of `work`, and [`ErrorKind::Cancelled`] if no thread can be started.
    pub(in crate::session) async fn run<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce() -> Result<T> + Send + 'static,
    {
        let Ok(runtime) = Handle::try_current() else {
            return work();
        };

        let (sender, outcome) = oneshot::channel();
        let work = Box::new(move || {
            if !sender.is_closed() {
                // The send fails if the caller is gone; the work is done in both cases.
                drop(sender.send(catch_unwind(AssertUnwindSafe(work))));
            }
        });

        let queued_at = Instant::now();
        self.push(&runtime, Job { queued_at, work });
        match outcome.await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(panic)) => resume_unwind(panic),
            Err(_) => Err(Error::new(
                ErrorKind::Cancelled,
                "no thread could be started for it",
            )),
        }
    }

    /// Runs `work` after the jobs before it without waiting for it, or in place outside a runtime.
    /// If no thread can be started, `work` is dropped. A panic ends the job alone.
    pub(in crate::session) fn spawn(&self, work: impl FnOnce() + Send + 'static) {
        let Ok(runtime) = Handle::try_current() else {
            return work();
        };
        let work = Box::new(move || drop(panic::catch(work)));
        let queued_at = Instant::now();
        self.push(&runtime, Job { queued_at, work });
    }

    fn push(&self, runtime: &Handle, job: Job) {
        let mut jobs = lock(&self.0.jobs);
        jobs.waiting.push_back(job);
        if !std::mem::replace(&mut jobs.has_worker, true) {
            let worker = Worker(Some(self.0.clone()));
            drop(jobs);
            runtime.spawn_blocking(move || worker.run());
        }
    }

    /// Takes the time for which the current write has waited. Returns zero if it was taken before.
    #[cfg_attr(not(all(feature = "sqlite", unix)), expect(dead_code))]
    pub(in crate::session) fn take_waiting_time(&self) -> Duration {
        let queued_at = self.take_queued_at();
        queued_at.map_or(Duration::ZERO, |queued_at| queued_at.elapsed())
    }

    /// Takes the time at which the current write was queued.
    pub(in crate::session) fn take_queued_at(&self) -> Option<Instant> {
        lock(&self.0.queued_at).take()
    }

    /// Sets the time at which the current write was queued.
    pub(in crate::session) fn set_queued_at(&self, queued_at: Instant) {
        *lock(&self.0.queued_at) = Some(queued_at);
    }
}

impl Inner {
    /// Runs the jobs until none waits.
    fn run_jobs(&self) {
        loop {
            let mut jobs = lock(&self.jobs);
            let Some(job) = jobs.waiting.pop_front() else {
                jobs.has_worker = false;
                return;
            };
            drop(jobs);
            *lock(&self.queued_at) = Some(job.queued_at);
            // Skipped work is only dropped, which may close a log: that is code of its storage, and
            // may panic.
            drop(panic::catch(job.work));

            // A write outside a job must not count the waiting time of this job.
            *lock(&self.queued_at) = None;
        }
    }
}

impl Worker {
    fn run(mut self) {
        if let Some(inner) = self.0.take() {
            inner.run_jobs();
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let Some(inner) = self.0.take() else {
            return;
        };

        let shared = inner.clone();
        let spawn_outcome = thread::Builder::new().spawn(move || shared.run_jobs());
        if spawn_outcome.is_err() {
            let mut jobs = lock(&inner.jobs);
            jobs.has_worker = false;
            let abandoned_jobs = std::mem::take(&mut jobs.waiting);
            drop(jobs);

            // Dropping the jobs reports the failure to their callers.
            drop(abandoned_jobs);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn unpolled_future_does_not_block_other_jobs() {
        let queue = Queue::default();
        let (sender, wait) = std::sync::mpsc::channel();
        let mut first = Box::pin(queue.run(move || Ok(wait.recv().unwrap())));
        assert!(futures::poll!(&mut first).is_pending());
        let mut unpolled = Box::pin(queue.run(|| Ok(2)));
        assert!(futures::poll!(&mut unpolled).is_pending());
        let mut dropped_job = Box::pin(queue.run(|| -> Result<()> { panic!("never done") }));
        assert!(futures::poll!(&mut dropped_job).is_pending());
        drop(dropped_job);
        sender.send(1).unwrap();
        assert_eq!(queue.run(|| Ok(3)).await.unwrap(), 3);
        assert_eq!((first.await.unwrap(), unpolled.await.unwrap()), (1, 2));
    }

    #[tokio::test]
    async fn panic_of_a_job_reaches_only_its_caller() {
        let queue = Queue::default();
        let asking_queue = queue.clone();
        let task =
            tokio::spawn(async move { asking_queue.run(|| -> Result<()> { panic!("bad") }).await });
        assert!(task.await.unwrap_err().is_panic());
        assert_eq!(queue.run(|| Ok(1)).await.unwrap(), 1);
    }

    #[test]
    fn jobs_of_other_runtimes_complete_after_a_shutdown() {
        let queue = Queue::default();
        let runtime = || {
            tokio::runtime::Builder::new_current_thread()
                .build()
                .unwrap()
        };

        let ended_runtime = runtime();

        // As if its threads had never started.
        lock(&queue.0.jobs).has_worker = true;
        let worker = Worker(Some(queue.0.clone()));
        let handle = ended_runtime.handle().clone();
        drop(ended_runtime);
        let other_runtime = runtime();
        let mut waiting_job = Box::pin(queue.run(|| Ok(1)));
        let first = other_runtime.block_on(async { futures::poll!(&mut waiting_job).is_pending() });
        assert!(first);
        drop(handle.spawn_blocking(move || worker.run()));
        assert_eq!(other_runtime.block_on(waiting_job).unwrap(), 1);
    }

    #[tokio::test]
    async fn job_outside_a_runtime_runs_in_place() {
        let queue = Queue::default();
        let handle = thread::spawn(move || futures::executor::block_on(queue.run(|| Ok(1))));
        assert_eq!(handle.join().unwrap().unwrap(), 1);
    }
}
