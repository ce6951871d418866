//! Work that outlives a turn.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};

use crate::util::panic;
use crate::util::sync::lock;

/// What a task came to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskOutcome {
    /// It finished with this text.
    Completed(String),
    /// It failed with this text.
    Failed(String),
}

/// Work of a run that outlives the turn it began in: background commands, background subagents.
///
/// Tasks advance while the run is polled, and end when the run does: dropping the run drops
/// them. What a finished task says reaches the model before its next turn. Clones share it.
#[derive(Clone, Default)]
pub struct TaskScope(Arc<Mutex<Tasks>>);

type Task = BoxFuture<'static, (Arc<str>, Arc<str>, TaskOutcome)>;

#[derive(Default)]
struct Tasks {
    /// Out while it is polled, so that a task may spawn another.
    running: FuturesUnordered<Task>,
    added: Vec<Task>,
    count: u64,
    open: usize,
    /// Set when the run is over: what would be added then would never be polled, and never be
    /// dropped if it holds the run.
    closed: bool,
    waker: Option<Waker>,
}

/// A task that has ended.
pub(crate) struct FinishedTask {
    pub(crate) id: Arc<str>,
    pub(crate) label: Arc<str>,
    pub(crate) outcome: TaskOutcome,
}

impl TaskScope {
    /// Adds a task and returns its id. A panic in it is a failure. When the run is over, the task
    /// is dropped at once.
    pub fn spawn<F>(&self, label: impl Into<Arc<str>>, future: F) -> Arc<str>
    where
        F: Future<Output = TaskOutcome> + Send + 'static,
    {
        let label = label.into();
        let mut tasks = lock(&self.0);
        tasks.count += 1;
        if tasks.closed {
            let id = format!("task_{}", tasks.count).into();
            // What the future holds may come back here when it is dropped.
            drop(tasks);
            return id;
        }
        tasks.open += 1;
        let id: Arc<str> = format!("task_{}", tasks.count).into();
        let named = (id.clone(), label);
        let task = std::panic::AssertUnwindSafe(future)
            .catch_unwind()
            .map(move |outcome| {
                let outcome = outcome.unwrap_or_else(|payload| {
                    TaskOutcome::Failed(format!("panicked: {}", panic::message(&*payload)))
                });
                (named.0, named.1, outcome)
            })
            .boxed();
        tasks.added.push(task);
        if let Some(waker) = tasks.waker.take() {
            waker.wake();
        }
        id
    }

    /// How many tasks have not ended.
    pub fn len(&self) -> usize {
        lock(&self.0).open
    }

    /// Whether none is going on.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Advances the tasks and takes one that has ended.
    pub(crate) fn poll_finished(&self, cx: &mut Context<'_>) -> Poll<FinishedTask> {
        let mut running = {
            let mut tasks = lock(&self.0);
            if tasks.open == 0 {
                tasks.waker = Some(cx.waker().clone());
                return Poll::Pending;
            }
            let mut running = std::mem::take(&mut tasks.running);
            running.extend(tasks.added.drain(..));
            running
        };
        let polled = running.poll_next_unpin(cx);
        let mut tasks = lock(&self.0);
        let waiting = !tasks.added.is_empty();
        tasks.running = running;
        tasks.waker = Some(cx.waker().clone());
        if let Poll::Ready(Some((id, label, outcome))) = polled {
            tasks.open -= 1;
            return Poll::Ready(FinishedTask { id, label, outcome });
        }
        if waiting {
            // Spawned by a task while it was polled: look at it in the next round.
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Drops whatever has not ended, and whatever is added later.
    pub(crate) fn close(&self) {
        let (running, added) = {
            let mut tasks = lock(&self.0);
            tasks.closed = true;
            tasks.open = 0;
            (
                std::mem::take(&mut tasks.running),
                std::mem::take(&mut tasks.added),
            )
        };
        drop((running, added));
    }
}

impl fmt::Debug for TaskScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskScope")
            .field("open", &self.len())
            .finish_non_exhaustive()
    }
}
