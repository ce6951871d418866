//! Commands in the background.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;

use crate::error::{Error, ErrorKind, Result};
use crate::util::Cancellation;
use crate::util::sync::lock;

use super::super::command::{BackgroundOutput, CommandOutput};
use super::super::failure::no_command;
use super::capture::Capture;
use super::group::Group;
use super::running::Running;

/// The maximum number of commands that are kept, including ended ones.
const MAX_JOBS: usize = 32;

/// The commands a backend runs in the background; all are killed when it is dropped.
#[derive(Debug, Default)]
pub(in super::super) struct Jobs {
    next: AtomicU64,
    jobs: Mutex<BTreeMap<String, Job>>,
}

#[derive(Clone, Debug)]
struct Job {
    group: Arc<Group>,
    out: Capture,
    err: Capture,
    stop: Cancellation,
    outcome: watch::Receiver<Option<CommandOutput>>,
}

impl Jobs {
    pub(in super::super) fn start(
        &self,
        running: Running,
        limit: Option<Duration>,
    ) -> Result<String> {
        let mut jobs = lock(&self.jobs);
        if jobs.len() >= MAX_JOBS {
            let text = format!("{MAX_JOBS} background commands are running or unread; stop one");
            return Err(Error::new(ErrorKind::Other, text));
        }

        let id = format!("bg_{}", self.next.fetch_add(1, Ordering::Relaxed) + 1);
        let (sender, outcome) = watch::channel(None);
        let job = Job {
            group: running.group.clone(),
            out: running.out.clone(),
            err: running.err.clone(),
            stop: running.stop.clone(),
            outcome,
        };

        tokio::spawn(async move {
            let output = running.wait(limit).await;

            // The receiver is gone if the command was removed.
            drop(sender.send(Some(output)));
        });

        jobs.insert(id.clone(), job);
        Ok(id)
    }

    pub(in super::super) fn poll(&self, id: &str) -> Result<BackgroundOutput> {
        let mut jobs = lock(&self.jobs);
        let job = jobs.get(id).ok_or_else(|| no_command(id))?;
        let output = job.output();
        if !output.running {
            jobs.remove(id);
        }
        Ok(output)
    }

    pub(in super::super) async fn stop(&self, id: &str) -> Result<BackgroundOutput> {
        let removed = lock(&self.jobs).remove(id);
        let mut job = removed.ok_or_else(|| no_command(id))?;
        job.stop.cancel();
        // An error means that the task, and with it the command, has ended.
        drop(job.outcome.wait_for(Option::is_some).await.map(drop));
        Ok(job.output())
    }
}

impl Job {
    fn output(&self) -> BackgroundOutput {
        let outcome = self.outcome.borrow().clone();
        let is_running = outcome.is_none() && self.outcome.has_changed().is_ok();
        let mut output = outcome.unwrap_or_default();
        if is_running {
            output.stdout = self.out.take();
            output.stderr = self.err.take();
        }
        BackgroundOutput::new(output, is_running)
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        for job in lock(&self.jobs).values() {
            job.group.end();
        }
    }
}
