//! The background tasks of a run.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker, ready};

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};

use crate::sdk::SystemKind;
use crate::util::byte_pool::PoolShare;
use crate::util::panic::{self, DropContained};
use crate::util::sync::lock;
use crate::util::text::head;

use super::context::{TaskContext, WeakSink};
use super::entry::{TaskEntry, TaskOutcome};
use super::handle::TaskHandle;
use super::outcome_limits::{OutcomeLimits, cleaned};
use super::spec::TaskSpec;

/// The maximum number of ended tasks that can be looked up.
const MAX_ENDED: usize = 64;
/// The maximum number of characters of the text of an ended task that can be looked up.
const MAX_ENDED_TEXT: usize = 64 * 1024;

/// The background tasks of a run, such as commands and subagents. A task outlives the turn in which
/// it began. Clones share the tasks.
///
/// Tasks advance while the run is polled. The reader receives a `task_started` when a task begins,
/// and a `task_notification` with the text of its outcome when it ends. The model reads that text
/// before its next turn.
///
/// Tasks end with the run. The run does not wait for them, unless
/// [`AgentBuilder::unfinished_tasks`](crate::AgentBuilder::unfinished_tasks) is set. Tasks that
/// have not ended by then are reported as stopped, to the reader and, in the session's next run, to
/// the model. Dropping the run drops its tasks without a report. Work that has to outlive the run
/// belongs in `tokio::spawn`.
///
/// The text of an outcome is limited like the result of a tool, by
/// [`max_result_bytes`](crate::AgentBuilder::max_result_bytes). All outcomes of a run count toward
/// its [`max_history_bytes`](crate::AgentBuilder::max_history_bytes); once three quarters of that
/// limit are used, further outcomes are cut to 1 KiB.
///
/// ```
/// use agentcore::FuncTool;
/// use agentcore::tool::TaskOutcome;
/// use serde_json::json;
///
/// let parameters = json!({"type": "object"});
/// let build = FuncTool::new("build", "Starts a build", parameters, |cx, _args| async move {
///     let id = cx.tasks().spawn("build", async { TaskOutcome::Completed("built".into()) });
///     format!("The build runs as {id}.")
/// });
/// # let _ = build;
/// ```
#[derive(Clone, Default)]
pub struct BackgroundTasks(Arc<Mutex<Tasks>>);

type Task = BoxFuture<'static, (Arc<TaskEntry>, TaskOutcome)>;

#[derive(Default)]
struct Tasks {
    /// The futures of the tasks. Taken out while they are polled, because a task may spawn another
    /// and lock this value. `None` also before the first poll and after the end of the run.
    running: Option<FuturesUnordered<Task>>,
    /// The futures of tasks that began since the last poll.
    added: Vec<Task>,
    /// The number in the last id that was made.
    count: u64,
    /// The tasks that have not ended, in the order in which they began.
    open: Vec<Arc<TaskEntry>>,
    /// The tasks that ended last.
    ended_entries: Vec<Arc<TaskEntry>>,
    /// The stream of the run; `None` outside any run.
    sink: Option<WeakSink>,
    /// True once the run has ended: a task added then would never be polled, and never be dropped
    /// if it holds the run.
    is_closed: bool,
    waker: Option<Waker>,
    /// A task whose future has ended and whose outcome is being limited and redacted. It stays in
    /// `open` until that is done.
    preparing: Option<BoxFuture<'static, EndedTask>>,
    limits: Option<OutcomeLimits>,
}

/// A task that has ended and is to be announced.
pub(crate) struct EndedTask {
    pub(crate) entry: Arc<TaskEntry>,
    /// The outcome, with its text limited and redacted.
    pub(crate) outcome: TaskOutcome,
    /// The size of the text before it was limited, in bytes.
    pub(crate) text_len: usize,
    /// True if the task did not end on its own and was not stopped by a handle: its run ended
    /// first.
    pub(crate) ended_with_run: bool,
}

impl BackgroundTasks {
    /// Creates the empty list of a run's tasks. The texts of outcomes count in the pool of `share`.
    /// The limit of each text is the room that the pool has left for it, within `bytes`.
    pub(crate) fn limited(bytes: RangeInclusive<usize>, share: PoolShare) -> Self {
        let tasks = Tasks {
            limits: Some(OutcomeLimits::new(bytes, share)),
            ..Tasks::default()
        };
        Self(Arc::new(Mutex::new(tasks)))
    }

    /// Connects the tasks with the stream of their run.
    pub(crate) fn connect(&self, sink: WeakSink) {
        lock(&self.0).sink = Some(sink);
    }

    /// Adds a task and returns its id. A panic of the task is a failure. If the run has ended, the
    /// task is dropped at once.
    pub fn spawn<F>(&self, label: impl Into<Arc<str>>, future: F) -> Arc<str>
    where
        F: Future<Output = TaskOutcome> + Send + 'static,
    {
        let task = self.begin(TaskSpec::new(label), |_| future);
        task.id().clone()
    }

    /// Adds a task that reports to the reader of the run, and returns its handle. A panic of the
    /// task is a failure. If the run has ended, the task is dropped at once.
    ///
    /// The task has the id of `spec`. If `spec` has no id, or another task has the same id, the
    /// task has a new one.
    ///
    /// ```
    /// use agentcore::FuncTool;
    /// use agentcore::tool::{TaskOutcome, TaskSpec};
    /// use serde_json::json;
    ///
    /// let parameters = json!({"type": "object"});
    /// let index = FuncTool::new("index", "Indexes", parameters, |cx, _args| async move {
    ///     let spec = TaskSpec::new("index").with_tool_use_id(cx.call_id());
    ///     let task = cx.tasks().begin(spec, |task| async move {
    ///         task.progress("half of it").await;
    ///         TaskOutcome::Completed("indexed".into())
    ///     });
    ///     format!("The index is made by {}.", task.id())
    /// });
    /// # let _ = index;
    /// ```
    pub fn begin<F, T>(&self, spec: TaskSpec, task: F) -> TaskHandle
    where
        F: FnOnce(TaskContext) -> T,
        T: Future<Output = TaskOutcome> + Send + 'static,
    {
        let (entry, sink, is_closed) = {
            let mut tasks = lock(&self.0);
            let own_id = spec.id.clone().filter(|id| tasks.find(id).is_none());
            let next_id = tasks.next_id();
            let id = own_id.unwrap_or(next_id);
            let entry = TaskEntry::new(id, spec);
            if !tasks.is_closed {
                tasks.open.push(entry.clone());
            }
            (entry, tasks.sink.clone(), tasks.is_closed)
        };

        let handle = TaskHandle::new(entry.clone(), sink.clone());
        if is_closed {
            entry.end(TaskOutcome::Stopped);
            return handle;
        }

        if let Some(sink) = sink.as_ref().and_then(WeakSink::upgrade) {
            sink.emit(SystemKind::TaskStarted(Box::new(entry.started())));
        }

        // Called without the lock: it is foreign code.
        let context = TaskContext::new(entry.clone(), sink);
        let future = panic::catch(|| task(context)).map(|future| {
            let future = Box::pin(panic::catch_async(future));
            DropContained::new(future, "a background task")
        });
        self.add(entry, future);
        handle
    }

    /// Adds the future of a task. An `Err`, here or as its output, is the text of a panic.
    fn add<T>(&self, entry: Arc<TaskEntry>, future: Result<T, String>)
    where
        T: Future<Output = Result<TaskOutcome, String>> + Send + 'static,
    {
        let own_entry = entry.clone();
        let task = async move {
            let _end = entry.cancellation.guard();
            let panicked = |text| TaskOutcome::Failed(format!("panicked: {text}"));
            let outcome = match future {
                Err(text) => panicked(text),
                Ok(future) => tokio::select! {
                    biased;
                    outcome = future => outcome.unwrap_or_else(panicked),
                    () = entry.cancellation.cancelled() => TaskOutcome::Stopped,
                },
            };
            (entry.clone(), outcome)
        };

        let mut tasks = lock(&self.0);
        if tasks.is_closed {
            // Unlocked first: dropping the future may call this method.
            drop(tasks);
            own_entry.end(TaskOutcome::Stopped);
            return;
        }
        tasks.added.push(task.boxed());
        if let Some(waker) = tasks.waker.take() {
            waker.wake();
        }
    }

    /// Returns the handle of a task that is in progress or among the 64 that ended last.
    pub fn get(&self, id: &str) -> Option<TaskHandle> {
        let tasks = lock(&self.0);
        let entry = tasks.find(id)?.clone();
        Some(TaskHandle::new(entry, tasks.sink.clone()))
    }

    /// Returns the handles of the 64 tasks that ended last, in the order in which they ended. All
    /// tasks in progress follow, in the order in which they began.
    pub fn list(&self) -> Vec<TaskHandle> {
        let tasks = lock(&self.0);
        tasks
            .ended_entries
            .iter()
            .chain(&tasks.open)
            .map(|entry| TaskHandle::new(entry.clone(), tasks.sink.clone()))
            .collect()
    }

    /// Returns the number of tasks that have not ended. [`list`](Self::list) also returns tasks
    /// that have ended, so it may be longer.
    pub fn len(&self) -> usize {
        lock(&self.0).open.len()
    }

    /// Returns `true` if all tasks have ended. [`list`](Self::list) may still return some of them.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Advances the tasks and takes a task that has ended.
    pub(crate) fn poll_ended(&self, cx: &mut Context<'_>) -> Poll<EndedTask> {
        let preparing_task = {
            let mut tasks = lock(&self.0);
            if tasks.open.is_empty() {
                tasks.set_waker(cx.waker());
                return Poll::Pending;
            }
            tasks.preparing.take()
        };

        let mut preparing_task = match preparing_task {
            Some(task) => task,
            None => {
                let (entry, outcome) = ready!(self.poll_running(cx));
                self.prepare(entry, outcome)
            }
        };

        let polled = preparing_task.poll_unpin(cx);
        let Poll::Ready(ended_task) = polled else {
            // Other tasks that have ended wait for this one, because their outcomes would take
            // memory as well.
            let mut tasks = lock(&self.0);
            tasks.preparing = Some(preparing_task);
            tasks.set_waker(cx.waker());
            return Poll::Pending;
        };

        Poll::Ready(self.record_end(ended_task))
    }

    /// Records the end of a task, and returns the task with its final outcome.
    fn record_end(&self, mut task: EndedTask) -> EndedTask {
        if !task.entry.set_outcome(shortened(&task.outcome)) {
            // A handle stopped the task after its future had ended.
            task.outcome = TaskOutcome::Stopped;
            task.text_len = 0;
        }

        let mut tasks = lock(&self.0);
        if let Some(limits) = &mut tasks.limits {
            limits.add(&task.outcome);
        }

        let entry = &task.entry;
        tasks.open.retain(|open| !Arc::ptr_eq(open, entry));
        tasks.keep_ended(entry.clone());
        drop(tasks);
        entry.end_notify.notify_waiters();
        task
    }

    /// Returns the size of the announced outcomes that are not in the history yet, in bytes.
    pub(crate) fn outcome_bytes(&self) -> usize {
        let tasks = lock(&self.0);
        tasks.limits.as_ref().map_or(0, OutcomeLimits::used)
    }

    /// Subtracts `bytes` of announced outcomes, which the history counts now.
    pub(crate) fn release_outcomes(&self, bytes: usize) {
        if let Some(limits) = &mut lock(&self.0).limits {
            limits.release(bytes);
        }
    }

    /// Limits and redacts the outcome of a task, so that it can be announced.
    fn prepare(
        &self,
        entry: Arc<TaskEntry>,
        outcome: TaskOutcome,
    ) -> BoxFuture<'static, EndedTask> {
        let text_len = outcome.text().map_or(0, str::len);
        let max_bytes = {
            let tasks = lock(&self.0);
            tasks.limits.as_ref().map(OutcomeLimits::max_bytes)
        };
        let outcome = cleaned(outcome, max_bytes);
        let task = outcome.map(move |outcome| EndedTask {
            entry,
            outcome,
            text_len,
            ended_with_run: false,
        });
        task.boxed()
    }

    /// Advances the tasks that have not ended until one does.
    fn poll_running(&self, cx: &mut Context<'_>) -> Poll<(Arc<TaskEntry>, TaskOutcome)> {
        let mut running_tasks = {
            let mut tasks = lock(&self.0);
            let mut running_tasks = tasks.running.take().unwrap_or_default();
            running_tasks.extend(tasks.added.drain(..));
            running_tasks
        };

        let polled = running_tasks.poll_next_unpin(cx);
        let mut tasks = lock(&self.0);
        let has_added = !tasks.added.is_empty();
        tasks.running = Some(running_tasks);
        tasks.set_waker(cx.waker());
        if let Poll::Ready(Some(ended)) = polled {
            return Poll::Ready(ended);
        }

        if has_added {
            // Spawned by a task during its poll: polled in the next round.
            cx.waker().wake_by_ref();
        }

        Poll::Pending
    }

    /// Drops the tasks that have not ended, and returns them as stopped. Tasks that are added later
    /// are dropped at once.
    pub(crate) fn close(&self) -> Vec<EndedTask> {
        let (open_tasks, running_tasks, added_tasks, preparing_task) = {
            let mut tasks = lock(&self.0);
            tasks.is_closed = true;
            tasks.limits = None;
            (
                std::mem::take(&mut tasks.open),
                std::mem::take(&mut tasks.running),
                std::mem::take(&mut tasks.added),
                std::mem::take(&mut tasks.preparing),
            )
        };

        drop((running_tasks, added_tasks, preparing_task));
        let stopped_tasks = open_tasks.into_iter().map(|entry| {
            entry.end(TaskOutcome::Stopped);
            EndedTask {
                ended_with_run: !entry.is_stopped(),
                entry,
                outcome: TaskOutcome::Stopped,
                text_len: 0,
            }
        });

        stopped_tasks.collect()
    }
}

impl Tasks {
    /// Sets the waker of the run, which a new task wakes.
    fn set_waker(&mut self, waker: &Waker) {
        match &mut self.waker {
            Some(former) => former.clone_from(waker),
            former => *former = Some(waker.clone()),
        }
    }

    /// Returns an id that no task has, in progress or among the last ended.
    fn next_id(&mut self) -> Arc<str> {
        loop {
            self.count += 1;
            let id = format!("task_{}", self.count);
            if self.find(&id).is_none() {
                return id.into();
            }
        }
    }

    fn find(&self, id: &str) -> Option<&Arc<TaskEntry>> {
        let mut entries = self.open.iter().chain(&self.ended_entries);
        entries.find(|entry| **entry.id() == *id)
    }

    fn keep_ended(&mut self, entry: Arc<TaskEntry>) {
        if self.ended_entries.len() >= MAX_ENDED {
            self.ended_entries.remove(0);
        }
        self.ended_entries.push(entry);
    }
}

/// Returns the outcome with at most [`MAX_ENDED_TEXT`] characters of text.
fn shortened(outcome: &TaskOutcome) -> TaskOutcome {
    let shorten = |text: &str| head(text, MAX_ENDED_TEXT).0.to_owned();
    match outcome {
        TaskOutcome::Completed(text) => TaskOutcome::Completed(shorten(text)),
        TaskOutcome::Failed(text) => TaskOutcome::Failed(shorten(text)),
        TaskOutcome::Stopped => TaskOutcome::Stopped,
    }
}

impl fmt::Debug for BackgroundTasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackgroundTasks")
            .field("open", &self.len())
            .finish_non_exhaustive()
    }
}
