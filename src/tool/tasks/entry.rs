//! One task, as its run, its context and its handles share it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::message::Message;
use crate::sdk::{TaskStarted, TaskUsage};
use crate::util::Cancellation;
use crate::util::sync::lock;

use super::open_tasks::OpenTasks;
use super::spec::TaskSpec;

/// The maximum number of messages that wait for a task.
pub(super) const MAX_MESSAGES: usize = 16;

/// The outcome of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskOutcome {
    /// The task finished with this text.
    Completed(String),
    /// The task failed with this text.
    Failed(String),
    /// The task was stopped, the run ended before it did, or the task itself reports that it
    /// stopped early.
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

/// One task.
pub(crate) struct TaskEntry {
    pub(super) id: Arc<str>,
    pub(super) spec: TaskSpec,
    start_time: Instant,
    /// Cancelled when the task is stopped or has ended.
    pub(super) cancellation: Cancellation,
    /// True once the task is stopped. Set with `state` locked, so that the outcome that is set
    /// afterwards is `Stopped`.
    is_stopped: AtomicBool,
    state: Mutex<TaskEntryState>,
    /// Notified when the outcome is set.
    pub(super) end_notify: Notify,
    /// The tasks below this one.
    pub(super) open_tasks: OpenTasks,
    /// Notified when a message arrives.
    pub(super) message_arrival: Notify,
}

#[derive(Default)]
struct TaskEntryState {
    tokens: u64,
    unread_count: usize,
    tool_uses: u64,
    last_tool: Option<Arc<str>>,
    outcome: Option<TaskOutcome>,
    duration: Option<Duration>,
    /// The messages that the task has not taken.
    messages: VecDeque<Message>,
}

/// The reason why a message is not accepted.
pub(super) enum Refusal {
    Ended,
    Stopped,
    Full,
}

impl TaskEntry {
    pub(super) fn new(id: Arc<str>, spec: TaskSpec) -> Arc<Self> {
        Arc::new(Self {
            id,
            spec: spec.cleaned(),
            start_time: Instant::now(),
            cancellation: Cancellation::default(),
            is_stopped: AtomicBool::new(false),
            state: Mutex::default(),
            end_notify: Notify::new(),
            open_tasks: OpenTasks::default(),
            message_arrival: Notify::new(),
        })
    }

    pub(crate) fn id(&self) -> &Arc<str> {
        &self.id
    }

    pub(crate) fn spec(&self) -> &TaskSpec {
        &self.spec
    }

    /// Returns the tasks of this task's runs that have not ended.
    pub(crate) fn open_tasks(&self) -> &OpenTasks {
        &self.open_tasks
    }

    /// Returns `true` if the task was stopped by a handle.
    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Acquire)
    }

    /// Stops the task. Returns `false` if it has ended or was stopped before.
    pub(super) fn stop(&self) -> bool {
        let state = lock(&self.state);
        if state.outcome.is_some() || self.is_stopped.swap(true, Ordering::AcqRel) {
            return false;
        }
        drop(state);
        self.cancellation.cancel();
        true
    }

    /// Returns the message about the start.
    pub(super) fn started(&self) -> TaskStarted {
        let mut start = TaskStarted::new(self.id.clone(), self.spec.text());
        start.tool_use_id = self.spec.tool_use_id.clone();
        start.subagent_type = self.spec.subagent_type.clone();
        start
    }

    /// Counts calls of tools, the last of which has this name.
    pub(super) fn count_tools(&self, count: u64, last_tool: Arc<str>) {
        let mut state = lock(&self.state);
        state.tool_uses += count;
        state.last_tool = Some(last_tool);
    }

    pub(super) fn count_tokens(&self, tokens: u64) {
        let mut state = lock(&self.state);
        state.tokens = state.tokens.saturating_add(tokens);
    }

    pub(super) fn last_tool(&self) -> Option<Arc<str>> {
        lock(&self.state).last_tool.clone()
    }

    /// Returns the usage so far.
    pub(crate) fn usage(&self) -> TaskUsage {
        let state = lock(&self.state);
        let duration = state.duration.unwrap_or_else(|| self.start_time.elapsed());
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        TaskUsage::new(state.tokens, state.tool_uses, millis)
    }

    /// Sets the outcome and wakes the futures that wait for the outcome.
    pub(super) fn end(&self, outcome: TaskOutcome) {
        self.set_outcome(outcome);
        self.end_notify.notify_waiters();
    }

    /// Sets the outcome, unless there is one: `Stopped` if the task was stopped, else `outcome`.
    /// Discards the messages that the task has not taken. Returns `false` if the task was stopped.
    pub(super) fn set_outcome(&self, outcome: TaskOutcome) -> bool {
        let duration = self.start_time.elapsed();
        let mut state = lock(&self.state);
        let is_stopped = self.is_stopped();
        if state.outcome.is_none() {
            let outcome = if is_stopped {
                TaskOutcome::Stopped
            } else {
                outcome
            };
            state.outcome = Some(outcome);
            state.duration = Some(duration);
        }
        state.unread_count += state.messages.len();
        state.messages.clear();
        !is_stopped
    }

    /// Returns the number of messages that the task had not read when it ended.
    pub(crate) fn unread_count(&self) -> usize {
        lock(&self.state).unread_count
    }

    pub(super) fn outcome(&self) -> Option<TaskOutcome> {
        lock(&self.state).outcome.clone()
    }

    pub(super) fn has_ended(&self) -> bool {
        lock(&self.state).outcome.is_some()
    }

    /// Adds a message for the task.
    ///
    /// # Errors
    ///
    /// Returns the reason if the task has ended, was stopped or has too many messages.
    pub(super) fn add_message(&self, message: Message) -> Result<(), Refusal> {
        let mut state = lock(&self.state);
        if state.outcome.is_some() {
            return Err(Refusal::Ended);
        }
        if self.is_stopped() {
            return Err(Refusal::Stopped);
        }
        if state.messages.len() >= MAX_MESSAGES {
            return Err(Refusal::Full);
        }
        state.messages.push_back(message);
        drop(state);
        self.message_arrival.notify_one();
        Ok(())
    }

    /// Puts a message back in front of the others.
    pub(super) fn return_message(&self, message: Message) {
        lock(&self.state).messages.push_front(message);
    }

    pub(super) fn take_message(&self) -> Option<Message> {
        lock(&self.state).messages.pop_front()
    }
}
