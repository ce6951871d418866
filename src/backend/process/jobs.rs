//! Commands in the background.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;
use uuid::Uuid;

use crate::error::{Error, ErrorKind, Result};
use crate::util::Cancellation;
use crate::util::sync::lock;

use super::super::command::{BackgroundOutput, CommandOutput};
use super::super::failure::no_command;
use super::capture::Capture;
use super::group::Group;
use super::running::Running;

/// The maximum number of commands that are kept. Commands that have ended make room for new ones,
/// even if their output was not read.
const MAX_JOBS: usize = 32;

/// The commands that a backend runs in the background. All are killed when it is dropped.
#[derive(Debug, Default)]
pub(in super::super) struct Jobs {
    jobs: Mutex<JobList>,
}

#[derive(Debug, Default)]
struct JobList {
    /// The number of commands that were started.
    count: u64,
    /// The number of commands that are about to start.
    reserved: usize,
    by_id: BTreeMap<String, Job>,
}

/// A place for a command that is about to start. Dropping it frees the place.
#[derive(Debug)]
pub(in super::super) struct Place<'a> {
    jobs: &'a Jobs,
    is_taken: bool,
}

/// A command in the background.
#[derive(Clone, Debug)]
struct Job {
    /// The position in the order of the starts.
    number: u64,
    group: Arc<Group>,
    out: Capture,
    err: Capture,
    stop: Cancellation,
    outcome: watch::Receiver<Option<CommandOutput>>,
}

impl Jobs {
    /// Reserves a place for a command. Its process starts after that, so that nothing of a command
    /// without a place runs.
    ///
    /// # Errors
    ///
    /// Returns an error if the maximum number of commands is running.
    pub(in super::super) fn reserve(&self) -> Result<Place<'_>> {
        let mut jobs = lock(&self.jobs);
        let running_jobs = jobs.by_id.values().filter(|job| job.is_running());
        if running_jobs.count() + jobs.reserved >= MAX_JOBS {
            let text = format!("{MAX_JOBS} background commands are running; stop one");
            return Err(Error::new(ErrorKind::Other, text));
        }
        jobs.reserved += 1;
        Ok(Place {
            jobs: self,
            is_taken: false,
        })
    }

    pub(in super::super) fn poll(&self, id: &str) -> Result<BackgroundOutput> {
        let mut jobs = lock(&self.jobs);
        let job = jobs.by_id.get(id).ok_or_else(|| no_command(id))?;
        let output = job.output();
        if !output.running {
            jobs.by_id.remove(id);
        }
        Ok(output)
    }

    pub(in super::super) async fn wait(&self, id: &str) -> Result<()> {
        let job = lock(&self.jobs).by_id.get(id).cloned();
        let mut outcome = job.ok_or_else(|| no_command(id))?.outcome;
        // An error means that the task, and with it the command, has ended.
        drop(outcome.wait_for(Option::is_some).await.map(drop));
        Ok(())
    }

    pub(in super::super) async fn stop(&self, id: &str) -> Result<BackgroundOutput> {
        let removed = lock(&self.jobs).by_id.remove(id);
        let mut job = removed.ok_or_else(|| no_command(id))?;
        job.stop.cancel();
        // An error means that the task, and with it the command, has ended.
        drop(job.outcome.wait_for(Option::is_some).await.map(drop));
        Ok(job.output())
    }
}

impl Place<'_> {
    /// Adds a command that has started, and returns its id.
    pub(in super::super) fn take(mut self, running: Running, limit: Option<Duration>) -> String {
        let mut jobs = lock(&self.jobs.jobs);
        jobs.reserved -= 1;
        self.is_taken = true;
        jobs.make_room();

        // Random, because sessions that share the backend must not guess the ids of each other.
        let id = format!("bg_{}", Uuid::new_v4().simple());
        let (sender, outcome) = watch::channel(None);
        jobs.count += 1;
        let job = Job {
            number: jobs.count,
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

        jobs.by_id.insert(id.clone(), job);
        id
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if !self.is_taken {
            lock(&self.jobs.jobs).reserved -= 1;
        }
    }
}

impl JobList {
    /// Removes the ended command that was started first if no room is left. There is one: the new
    /// command had a reserved place, so fewer than [`MAX_JOBS`] others are running.
    fn make_room(&mut self) {
        if self.by_id.len() < MAX_JOBS {
            return;
        }

        let ended_jobs = self.by_id.iter().filter(|(_, job)| !job.is_running());
        let oldest_job = ended_jobs.min_by_key(|(_, job)| job.number);
        if let Some(id) = oldest_job.map(|(id, _)| id.clone()) {
            self.by_id.remove(&id);
        }
    }
}

impl Job {
    fn is_running(&self) -> bool {
        // An error means that the task, and with it the command, has ended.
        self.outcome.borrow().is_none() && self.outcome.has_changed().is_ok()
    }

    fn output(&self) -> BackgroundOutput {
        let is_running = self.is_running();
        let outcome = self.outcome.borrow().clone();
        let mut output = outcome.unwrap_or_default();
        if is_running {
            output.stdout = self.out.take_decided();
            output.stderr = self.err.take_decided();
        }
        BackgroundOutput::new(output, is_running)
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        for job in lock(&self.jobs).by_id.values() {
            job.group.end();
        }
    }
}
