//! The runs of the server, by thread.

use std::collections::HashMap;
use std::fmt;
use std::mem;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::run::Run;
use crate::tool::Answer;
use crate::util::sync::lock;
use crate::util::time::later;

use super::super::stream::{Encoder, EncoderOptions, StreamFormat};
use super::limits::{OnDisconnect, RunLimits};
use super::log::Log;
use super::questions::{AnswerOutcome, Questions};
use super::server_run::{ServerRun, ServerRunParts};
use super::store_id::StoreId;
use super::user_quota::{SharedQuota, UserQuota};

/// The maximum memory of ended runs whose logs are kept, as estimated, in bytes.
const MAX_ENDED_BYTES: usize = 256 * 1024 * 1024;

/// A thread of a user in a store, which has one run at a time, of any agent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RunKey {
    pub(crate) user: Arc<str>,
    pub(crate) store: StoreId,
    pub(crate) thread: Arc<str>,
}

/// A run to start.
pub(crate) struct StartRun {
    pub(crate) key: RunKey,
    pub(crate) agent: Arc<str>,
    /// True if the messages may name the folders of the server.
    pub(crate) shows_folders: bool,
    /// Not polled yet.
    pub(crate) run: Run,
    /// The run's id, the state before it and its input.
    pub(crate) options: EncoderOptions,
    /// True if a call that needs approval becomes pending at once.
    pub(crate) leaves_calls_pending: bool,
}

/// The reason a run cannot start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunRefusal {
    /// The thread has a run.
    Busy,
    /// The user has too many runs, with the limit.
    UserRuns(usize),
    /// The server has too many runs, with the limit.
    Runs(usize),
    /// The server shuts down.
    Closing,
}

impl fmt::Display for RunRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy => f.write_str(
                "the thread has a run already; wait for its end, or interrupt or steer it",
            ),
            Self::UserRuns(limit) => {
                write!(
                    f,
                    "you have {limit} runs, which is the limit; wait for one to end"
                )
            }
            Self::Runs(limit) => {
                write!(
                    f,
                    "the server has {limit} runs, which is its limit; try again later"
                )
            }
            Self::Closing => f.write_str("the server is shutting down; try again later"),
        }
    }
}

/// The runs in progress, and the logs of runs that ended recently. Cheap to clone.
#[derive(Clone)]
pub(crate) struct RunTable(Arc<Table>);

struct Table {
    limits: RunLimits,
    on_disconnect: OnDisconnect,
    inner: Mutex<Inner>,
}

struct Inner {
    runs: HashMap<RunKey, Arc<ServerRun>>,
    /// The quota of each user.
    quotas: HashMap<Arc<str>, Weak<UserQuota>>,
    /// The quota that all users share.
    shared_quota: SharedQuota,
    is_closing: bool,
}

impl RunTable {
    pub(crate) fn new(limits: RunLimits, on_disconnect: OnDisconnect) -> Self {
        Self(Arc::new(Table {
            limits,
            on_disconnect,
            inner: Mutex::new(Inner {
                runs: HashMap::new(),
                quotas: HashMap::new(),
                shared_quota: SharedQuota::default(),
                is_closing: false,
            }),
        }))
    }

    /// Starts a run in its own task. Drops the log of the thread's previous run.
    ///
    /// # Errors
    ///
    /// Returns an error if the thread has a run, if there are too many runs, or if the server shuts
    /// down. The run is dropped then.
    ///
    /// # Panics
    ///
    /// Panics if called outside of a tokio runtime.
    pub(crate) fn start(&self, start: StartRun) -> Result<Arc<ServerRun>, RunRefusal> {
        let StartRun {
            key,
            agent,
            shows_folders,
            run,
            options,
            leaves_calls_pending,
        } = start;
        let limits = &self.0.limits;
        let id = options.run_id.clone();
        // Measures all messages of the thread, and so is not made under the lock.
        let encoder = Encoder::new(StreamFormat::Events, options);
        let mut inner = lock(&self.0.inner);
        inner.check_start(&key, limits)?;

        let parts = ServerRunParts {
            id,
            handle: run.handle(),
            questions: Questions::new((!leaves_calls_pending).then(|| run.responder())),
            log: Log::new(limits, encoder),
            quota: inner.quota_of(&key.user, limits),
            key: key.clone(),
            agent,
            shows_folders,
        };
        let server_run = Arc::new(ServerRun::new(parts));
        let earlier = inner.runs.insert(key, server_run.clone());
        // A log may be large, and is not dropped under the lock.
        drop(inner);
        drop(earlier);

        let task = tokio::spawn(self.clone().drive(server_run.clone(), run));
        server_run.set_task(task.abort_handle());
        Ok(server_run)
    }

    /// Returns the run of a thread, or the last one while its log is kept.
    pub(crate) fn find(&self, key: &RunKey) -> Option<Arc<ServerRun>> {
        lock(&self.0.inner).runs.get(key).cloned()
    }

    /// Returns the run in progress of an agent in a thread of the user, in any store.
    pub(crate) fn running_of(
        &self,
        user: &str,
        agent: &str,
        thread: &str,
    ) -> Option<Arc<ServerRun>> {
        let mut runs = self.running(user).into_iter();
        runs.find(|run| *run.key().thread == *thread && **run.agent() == *agent)
    }

    /// Returns the quota of a user.
    pub(crate) fn quota_of(&self, user: &Arc<str>) -> Arc<UserQuota> {
        lock(&self.0.inner).quota_of(user, &self.0.limits)
    }

    /// Removes the log of a run that never began.
    pub(crate) fn remove_log(&self, run: &Arc<ServerRun>) {
        self.remove_if(run.key(), |last| Arc::ptr_eq(last, run));
    }

    /// Removes the log of a thread that was deleted, unless a new run of it is in progress.
    pub(crate) fn remove_thread_log(&self, key: &RunKey) {
        self.remove_if(key, |last| !last.is_running());
    }

    fn remove_if(&self, key: &RunKey, should_remove: impl FnOnce(&Arc<ServerRun>) -> bool) {
        let mut inner = lock(&self.0.inner);
        let removed = match inner.runs.get(key) {
            Some(run) if should_remove(run) => inner.runs.remove(key),
            _ => None,
        };
        // A log may be large, and is not dropped under the lock.
        drop(inner);
        drop(removed);
    }

    /// Returns the runs in progress of a user.
    pub(crate) fn running(&self, user: &str) -> Vec<Arc<ServerRun>> {
        let inner = lock(&self.0.inner);
        inner
            .runs
            .values()
            .filter(|run| *run.key().user == *user && run.is_running())
            .cloned()
            .collect()
    }

    /// Answers a question of one of the user's runs. Only the first answer counts.
    pub(crate) fn answer(&self, user: &str, id: &str, answer: Answer) -> AnswerOutcome {
        let run = {
            let inner = lock(&self.0.inner);
            let mut runs = inner.runs.values();
            runs.find(|run| *run.key().user == *user && run.questions().has(id))
                .cloned()
        };
        match run {
            Some(run) => run.questions().answer(id, answer),
            None => AnswerOutcome::Unknown,
        }
    }

    /// Returns `true` once a shutdown has begun.
    #[cfg(test)]
    pub(crate) fn is_closing(&self) -> bool {
        lock(&self.0.inner).is_closing
    }

    /// Ends all runs: calls with open questions become pending, the other runs are interrupted, and
    /// the states are stored. Runs that continue after half of `limit` are interrupted as well, and
    /// those that take longer than `limit` are dropped. No further run can start. A later call
    /// waits for the same runs, and interrupts or drops them if its own limit ends first. At the
    /// end, the table releases the logs and the states of all runs. Only readers hold them then.
    pub(crate) async fn shutdown(&self, limit: Duration) {
        self.end_runs(limit).await;
        let runs = mem::take(&mut lock(&self.0.inner).runs);
        // Logs may be large, and are not dropped under the lock.
        drop(runs);
    }

    /// Ends all runs within `limit`.
    async fn end_runs(&self, limit: Duration) {
        let start = Instant::now();
        let (was_closing, runs): (_, Vec<_>) = {
            let mut inner = lock(&self.0.inner);
            let was_closing = mem::replace(&mut inner.is_closing, true);
            (was_closing, inner.runs.values().cloned().collect())
        };

        // The questions that an earlier call closed are being stored.
        for run in runs.iter().filter(|_| !was_closing) {
            if run.questions().is_open() {
                run.questions().close();
            } else {
                run.handle().interrupt();
            }
        }

        if wait_for_ends(&runs, later(start, limit / 2)).await {
            return;
        }
        // A run that continues after its questions were closed is interrupted as well.
        for run in runs.iter().filter(|run| run.is_running()) {
            run.handle().interrupt();
        }

        if wait_for_ends(&runs, later(start, limit)).await {
            return;
        }
        for run in runs.iter().filter(|run| run.is_running()) {
            run.abort();
        }
    }

    /// Polls a run to its end, and drops its log after [`RunLimits::keep_log`]. If the log is
    /// dropped before, such as for a newer run, [`ServerRun`] aborts this task.
    async fn drive(self, server_run: Arc<ServerRun>, run: Run) {
        let key = server_run.key().clone();
        let weak_run = Arc::downgrade(&server_run);
        server_run.drive(run, self.0.on_disconnect).await;

        let is_this_run = |run: &Arc<ServerRun>| std::ptr::eq(Arc::as_ptr(run), weak_run.as_ptr());
        let is_busy = weak_run
            .upgrade()
            .is_some_and(|run| run.busy_error().is_some());
        if is_busy {
            // Another process runs the thread.
            self.remove_if(&key, is_this_run);
            return;
        }
        let old_logs = lock(&self.0.inner).take_old_logs(self.0.limits.runs);
        drop(old_logs);

        let keep_log = self.0.limits.keep_log;
        // Weak, so that the server can be dropped meanwhile.
        let table = Arc::downgrade(&self.0);
        drop(self);
        tokio::time::sleep(keep_log).await;
        if let Some(table) = table.upgrade() {
            Self(table).remove_if(&key, is_this_run);
        }
    }
}

impl Inner {
    /// Checks that a run of this thread may start.
    fn check_start(&self, key: &RunKey, limits: &RunLimits) -> Result<(), RunRefusal> {
        if self.is_closing {
            return Err(RunRefusal::Closing);
        }
        if self.runs.get(key).is_some_and(|run| run.is_running()) {
            return Err(RunRefusal::Busy);
        }

        let running = self.runs.values().filter(|run| run.is_running());
        let (mut count, mut user_count) = (0, 0);
        for run in running {
            count += 1;
            user_count += usize::from(run.key().user == key.user);
        }
        if user_count >= limits.runs_per_user {
            return Err(RunRefusal::UserRuns(limits.runs_per_user));
        }
        if count >= limits.runs {
            return Err(RunRefusal::Runs(limits.runs));
        }
        Ok(())
    }

    /// Returns the quota of a user.
    fn quota_of(&mut self, user: &Arc<str>, limits: &RunLimits) -> Arc<UserQuota> {
        if let Some(quota) = self.quotas.get(user).and_then(Weak::upgrade) {
            return quota;
        }
        self.quotas.retain(|_, quota| quota.strong_count() > 0);
        let quota = Arc::new(UserQuota::new(limits, self.shared_quota.clone()));
        self.quotas.insert(user.clone(), Arc::downgrade(&quota));
        quota
    }

    /// Removes the logs of ended runs until at most `limit` are left, with at most
    /// [`MAX_ENDED_BYTES`]. The caller drops them without the lock, since each may be large.
    fn take_old_logs(&mut self, limit: usize) -> Vec<Arc<ServerRun>> {
        let mut ended_runs: Vec<_> = self
            .runs
            .values()
            .filter(|run| !run.is_running())
            .map(|run| (run.clone(), run.size()))
            .collect();
        ended_runs.sort_by_key(|(run, _)| run.ended_at());
        let mut old_logs = self.take_excess(limit, &mut ended_runs, |_| 1);
        old_logs.extend(self.take_excess(MAX_ENDED_BYTES, &mut ended_runs, |size| size));
        old_logs
    }

    /// Removes logs until the sum of their weights is at most `limit`; `weight` computes one
    /// from the size of a log. The oldest log of the user with the highest sum is removed first, so
    /// that a user with many or large runs evicts no log of other users.
    fn take_excess(
        &mut self,
        limit: usize,
        ended_runs: &mut Vec<(Arc<ServerRun>, usize)>,
        weight: fn(usize) -> usize,
    ) -> Vec<Arc<ServerRun>> {
        let mut sums: HashMap<Arc<str>, usize> = HashMap::new();
        for (run, size) in &*ended_runs {
            *sums.entry(run.key().user.clone()).or_default() += weight(*size);
        }

        let mut old_logs = Vec::new();
        while sums.values().sum::<usize>() > limit {
            let most = sums.values().copied().max();
            let is_of_most =
                |(run, _): &(Arc<ServerRun>, usize)| sums.get(&run.key().user).copied() == most;
            let Some(index) = ended_runs.iter().position(is_of_most) else {
                break;
            };
            let (run, size) = ended_runs.remove(index);
            if let Some(sum) = sums.get_mut(&run.key().user) {
                *sum -= weight(size);
            }
            old_logs.extend(self.runs.remove(run.key()));
        }
        old_logs
    }
}

/// Waits for the end of all runs. Returns `false` if the deadline passes before.
async fn wait_for_ends(runs: &[Arc<ServerRun>], deadline: Instant) -> bool {
    let ends = futures::future::join_all(runs.iter().map(|run| run.finished()));
    timeout_at(deadline, ends).await.is_ok()
}

impl fmt::Debug for RunTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = lock(&self.0.inner);
        f.debug_struct("RunTable")
            .field("runs", &inner.runs.len())
            .field("is_closing", &inner.is_closing)
            .finish_non_exhaustive()
    }
}
