//! The background tasks of a run.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker, ready};

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};

use crate::util::byte_pool::PoolShare;
use crate::util::panic;
use crate::util::sync::lock;

use super::outcome_limits::{OutcomeLimits, cleaned};

/// The outcome of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskOutcome {
    /// The task finished with this text.
    Completed(String),
    /// The task failed with this text.
    Failed(String),
    /// The run ended before it did. Only the run sets it.
    Stopped,
}

impl TaskOutcome {
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Completed(text) | Self::Failed(text) => Some(text),
            Self::Stopped => None,
        }
    }
}

/// The background tasks of a run, which outlive the turn they began in: commands and subagents.
///
/// Tasks advance while the run is polled. The text of a finished task reaches the reader as a
/// `task_notification`, and the model before its next turn.
///
/// Tasks end when the run does: the run does not wait for them. Those that a run leaves unfinished
/// are reported as stopped, to the reader and, in the session's next run, to the model; dropping
/// the run drops them silently. Work that has to outlive the run belongs in `tokio::spawn`. The text
/// of an outcome is limited like the result of a tool, by
/// [`max_result_bytes`](crate::AgentBuilder::max_result_bytes); all of a run count toward its
/// [`max_history_bytes`](crate::AgentBuilder::max_history_bytes), and are cut to 1 KiB once three
/// quarters of that are used. Clones share it.
///
/// ```
/// use agentcore::FuncTool;
/// use agentcore::tool::TaskOutcome;
/// use serde_json::json;
///
/// let build = FuncTool::new("build", "Starts a build", json!({"type": "object"}), |cx, _args| async move {
///     let id = cx.tasks().spawn("build", async { TaskOutcome::Completed("built".into()) });
///     format!("The build runs as {id}.")
/// });
/// # let _ = build;
/// ```
#[derive(Clone, Default)]
pub struct BackgroundTasks(Arc<Mutex<Tasks>>);

type Task = BoxFuture<'static, (Arc<str>, TaskOutcome)>;

#[derive(Default)]
struct Tasks {
    /// `None` while it is polled, so that a task may spawn another. Most runs never have one.
    running: Option<FuturesUnordered<Task>>,
    added: Vec<Task>,
    count: u64,
    /// Id and label of those that have not ended, in the order in which they began.
    open: Vec<(Arc<str>, Arc<str>)>,
    /// True once the run has ended: a task added then would never be polled, and never be dropped
    /// if it holds the run.
    closed: bool,
    waker: Option<Waker>,
    /// A task that has ended, while its outcome is made ready. Its entry in `open` stays until then.
    ended: Option<BoxFuture<'static, EndedTask>>,
    limits: Option<OutcomeLimits>,
}

/// A task that has ended, without its label.
struct EndedTask {
    id: Arc<str>,
    outcome: TaskOutcome,
    text_len: usize,
}

/// A task that has ended.
pub(crate) struct FinishedTask {
    pub(crate) id: Arc<str>,
    pub(crate) label: Arc<str>,
    /// Its text is limited, and has no secrets of this process.
    pub(crate) outcome: TaskOutcome,
    /// The bytes of that text before it was limited.
    pub(crate) text_len: usize,
}

impl BackgroundTasks {
    /// Creates the tasks of a run, none yet. The texts of outcomes take their memory from the pool of
    /// `share`; the limit of each is within `bytes`, and the least once the pool is full.
    pub(crate) fn limited(bytes: RangeInclusive<usize>, share: PoolShare) -> Self {
        let tasks = Tasks {
            limits: Some(OutcomeLimits::new(bytes, share)),
            ..Tasks::default()
        };
        Self(Arc::new(Mutex::new(tasks)))
    }

    /// Adds a task and returns its id. A panic in it is a failure. When the run has ended, the task
    /// is dropped at once.
    pub fn spawn<F>(&self, label: impl Into<Arc<str>>, future: F) -> Arc<str>
    where
        F: Future<Output = TaskOutcome> + Send + 'static,
    {
        let label = label.into();
        let mut tasks = lock(&self.0);
        tasks.count += 1;
        let id: Arc<str> = format!("task_{}", tasks.count).into();
        if tasks.closed {
            // Unlocked first: dropping the future may call this method.
            drop(tasks);
            return id;
        }

        tasks.open.push((id.clone(), label));
        let own_id = id.clone();
        let task = panic::catch_async(future)
            .map(move |outcome| {
                let make_outcome = |text| TaskOutcome::Failed(format!("panicked: {text}"));
                (own_id, outcome.unwrap_or_else(make_outcome))
            })
            .boxed();
        tasks.added.push(task);
        if let Some(waker) = tasks.waker.take() {
            waker.wake();
        }

        id
    }

    /// The number of tasks that have not ended.
    pub fn len(&self) -> usize {
        lock(&self.0).open.len()
    }

    /// Returns `true` if all have ended.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Advances the tasks and takes one that has ended.
    pub(crate) fn poll_finished(&self, cx: &mut Context<'_>) -> Poll<FinishedTask> {
        let ended_task = lock(&self.0).ended.take();
        let mut ended_task = match ended_task {
            Some(task) => task,
            None => {
                let (id, outcome) = ready!(self.poll_running(cx));
                self.end(id, outcome)
            }
        };

        let polled = ended_task.poll_unpin(cx);
        let mut tasks = lock(&self.0);
        let Poll::Ready(EndedTask {
            id,
            outcome,
            text_len,
        }) = polled
        else {
            // The others wait for it: their outcomes would take memory meanwhile.
            tasks.ended = Some(ended_task);
            tasks.waker = Some(cx.waker().clone());
            return Poll::Pending;
        };

        if let Some(limits) = &mut tasks.limits {
            limits.add(&outcome);
        }

        let index = tasks.open.iter().position(|(open, _)| *open == id);
        let label = index
            .map(|index| tasks.open.remove(index).1)
            .unwrap_or_default();
        Poll::Ready(FinishedTask {
            id,
            label,
            outcome,
            text_len,
        })
    }

    /// The bytes of the announced outcomes that are not in the history yet.
    pub(crate) fn outcome_bytes(&self) -> usize {
        let tasks = lock(&self.0);
        tasks.limits.as_ref().map_or(0, OutcomeLimits::used)
    }

    /// Counts announced outcomes of so many bytes no longer: they are in the history, and count there.
    pub(crate) fn release_outcomes(&self, bytes: usize) {
        if let Some(limits) = &mut lock(&self.0).limits {
            limits.release(bytes);
        }
    }

    /// Makes the outcome of a task ready for its announcement.
    fn end(&self, id: Arc<str>, outcome: TaskOutcome) -> BoxFuture<'static, EndedTask> {
        let text_len = outcome.text().map_or(0, str::len);
        let max_bytes = {
            let tasks = lock(&self.0);
            tasks.limits.as_ref().map(OutcomeLimits::max_bytes)
        };
        let outcome = cleaned(outcome, max_bytes);
        let task = outcome.map(move |outcome| EndedTask {
            id,
            outcome,
            text_len,
        });
        task.boxed()
    }

    /// Advances the tasks that have not ended until one does.
    fn poll_running(&self, cx: &mut Context<'_>) -> Poll<(Arc<str>, TaskOutcome)> {
        let mut running_tasks = {
            let mut tasks = lock(&self.0);
            if tasks.open.is_empty() {
                tasks.waker = Some(cx.waker().clone());
                return Poll::Pending;
            }
            let mut running_tasks = tasks.running.take().unwrap_or_default();
            running_tasks.extend(tasks.added.drain(..));
            running_tasks
        };

        let polled = running_tasks.poll_next_unpin(cx);
        let mut tasks = lock(&self.0);
        let has_added = !tasks.added.is_empty();
        tasks.running = Some(running_tasks);
        tasks.waker = Some(cx.waker().clone());
        if let Poll::Ready(Some(ended)) = polled {
            return Poll::Ready(ended);
        }

        if has_added {
            // Spawned by a task during its poll: polled in the next round.
            cx.waker().wake_by_ref();
        }

        Poll::Pending
    }

    /// Drops the tasks that have not ended, and those added later; returns the former.
    pub(crate) fn close(&self) -> Vec<FinishedTask> {
        let (open_tasks, running_tasks, added_tasks, ended_task) = {
            let mut tasks = lock(&self.0);
            tasks.closed = true;
            tasks.limits = None;
            (
                std::mem::take(&mut tasks.open),
                std::mem::take(&mut tasks.running),
                std::mem::take(&mut tasks.added),
                std::mem::take(&mut tasks.ended),
            )
        };

        drop((running_tasks, added_tasks, ended_task));
        let stopped_tasks = open_tasks.into_iter().map(|(id, label)| FinishedTask {
            id,
            label,
            outcome: TaskOutcome::Stopped,
            text_len: 0,
        });

        stopped_tasks.collect()
    }
}

impl fmt::Debug for BackgroundTasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackgroundTasks")
            .field("open", &self.len())
            .finish_non_exhaustive()
    }
}
