//! The context of a task in its run.

use std::fmt;
use std::sync::{Arc, Weak};

use futures::future::BoxFuture;

use crate::message::Message;
use crate::sdk::{SdkMessage, SystemKind, TaskProgress};
use crate::util::Cancellation;
use crate::util::secret::redact_text;

use super::entry::TaskEntry;

/// The stream of a run, as its background tasks use it.
pub(crate) trait TaskSink: Send + Sync {
    /// Sends a system message of the run.
    fn emit(&self, kind: SystemKind);
    /// Sends a message of a child run.
    fn forward(&self, message: SdkMessage);
    /// Completes when the reader has taken all messages emitted so far.
    fn drained(&self) -> BoxFuture<'_, ()>;
}

/// The stream of a run, which the run owns.
pub(super) type WeakSink = Weak<dyn TaskSink>;

/// The context of a background task: its connection to the stream of the run, and its messages.
/// Cheap to clone. A clone that outlives the task reports nothing.
#[derive(Clone)]
pub struct TaskContext {
    entry: Arc<TaskEntry>,
    sink: Option<WeakSink>,
}

impl TaskContext {
    pub(super) fn new(entry: Arc<TaskEntry>, sink: Option<WeakSink>) -> Self {
        Self { entry, sink }
    }

    /// Returns the task's id.
    pub fn id(&self) -> &Arc<str> {
        &self.entry.id
    }

    /// Returns a token that is cancelled when the task is stopped or has ended. Pass it to work
    /// that the task spawns.
    pub fn cancellation(&self) -> &Cancellation {
        &self.entry.cancellation
    }

    /// Emits a `task_progress` message with this summary, and waits until the reader has taken it.
    ///
    /// # Cancel safety
    ///
    /// The message is emitted by the first poll. Dropping the future later ends only the wait.
    pub async fn progress(&self, summary: impl Into<String> + Send) {
        let mut summary = summary.into();
        redact_text(&mut summary);
        self.report(Some(summary));
        self.drained().await;
    }

    /// Forwards a message of a run inside this task, such as a subagent's, and waits until the
    /// reader has taken it. A message without a `parent_tool_use_id` gets the id of the call that
    /// began the task.
    ///
    /// `init` and `result` are not forwarded, because the task has its own messages; the usage of a
    /// `result` is counted. After a response with tool calls, the progress of the task is emitted.
    ///
    /// # Cancel safety
    ///
    /// The message is emitted by the first poll. Dropping the future later ends only the wait.
    pub async fn forward(&self, mut message: SdkMessage) {
        let Some(sink) = self.open_sink() else {
            return;
        };

        let parent_id = &mut message.envelope_mut().parent_tool_use_id;
        if parent_id.is_none() {
            *parent_id = self.entry.spec.tool_use_id.clone();
        }

        let is_own = *parent_id == self.entry.spec.tool_use_id;
        let mut has_progress = false;
        match &message {
            SdkMessage::System(event) if matches!(event.kind, SystemKind::Init(_)) => return,
            SdkMessage::Result(result) => {
                self.entry.count_tokens(result.usage.total_tokens());
                return;
            }
            SdkMessage::Assistant(response) if is_own => {
                let mut count = 0;
                let calls = response.message.message.tool_calls();
                if let Some(last) = calls.inspect(|_| count += 1).last() {
                    self.entry.count_tools(count, last.name.clone());
                    has_progress = true;
                }
            }
            _ => {}
        }

        self.entry.open_tasks.record(&message);
        sink.forward(message);
        if has_progress {
            self.report(None);
        }
        sink.drained().await;
    }

    /// Waits for the next message that a handle [sends](super::TaskHandle::send).
    ///
    /// # Cancel safety
    ///
    /// The future may be dropped without losing a message.
    pub async fn next_message(&self) -> Message {
        loop {
            if let Some(message) = self.entry.take_message() {
                return message;
            }
            self.entry.message_arrival.notified().await;
        }
    }

    /// Returns the stream of the run, until the task has ended.
    fn open_sink(&self) -> Option<Arc<dyn TaskSink>> {
        let sink = self.sink.as_ref().filter(|_| !self.entry.has_ended())?;
        sink.upgrade()
    }

    /// Puts back a message that the task could not use. It is the next message again.
    pub(crate) fn return_message(&self, message: Message) {
        self.entry.return_message(message);
    }

    fn report(&self, summary: Option<String>) {
        let Some(sink) = self.open_sink() else {
            return;
        };
        let entry = &self.entry;
        let mut progress = TaskProgress::new(entry.id.clone(), entry.spec.text(), entry.usage());
        progress.tool_use_id = entry.spec.tool_use_id.clone();
        progress.subagent_type = entry.spec.subagent_type.clone();
        progress.last_tool_name = entry.last_tool();
        progress.summary = summary;
        sink.emit(SystemKind::TaskProgress(Box::new(progress)));
    }

    async fn drained(&self) {
        if let Some(sink) = self.sink.as_ref().and_then(Weak::upgrade) {
            sink.drained().await;
        }
    }
}

impl fmt::Debug for TaskContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskContext")
            .field("id", &self.entry.id)
            .finish_non_exhaustive()
    }
}
