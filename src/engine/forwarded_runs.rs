//! The conversion of child runs' messages for the stream of their parent.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::sdk::{
    Envelope, ResultMessage, SdkMessage, SystemEvent, SystemKind, TaskNotification, TaskStarted,
    TaskState, TaskUsage,
};
use crate::tool::{OpenTasks, TaskSpec};
use crate::util::sync::lock;

/// The child runs whose messages one call forwards, by session.
#[derive(Default)]
pub(crate) struct ForwardedRuns {
    runs: Mutex<BTreeMap<Arc<str>, ForwardedRun>>,
    /// The tasks of these runs and of their own child runs that have not ended.
    open_tasks: OpenTasks,
}

#[derive(Default)]
struct ForwardedRun {
    task: TaskSpec,
    tool_uses: u64,
}

impl ForwardedRuns {
    /// Sets the description of the child run in a session.
    pub(crate) fn describe(&self, session_id: Arc<str>, task: TaskSpec) {
        lock(&self.runs).entry(session_id).or_default().task = task;
    }

    /// Converts a message of the child run within the call `call_id` to a message of the run that
    /// made the call. A stream has one `init` and one `result`, so the `init` and `result` of
    /// children become the start and the end of a task.
    pub(crate) fn forward(&self, call_id: &Arc<str>, message: SdkMessage) -> SdkMessage {
        let message = self.translated(call_id, message);
        self.open_tasks.record(&message);
        message
    }

    fn translated(&self, call_id: &Arc<str>, mut message: SdkMessage) -> SdkMessage {
        let envelope = message.envelope_mut();
        let parent_id = envelope
            .parent_tool_use_id
            .get_or_insert_with(|| call_id.clone());
        let is_of_child = *parent_id == *call_id;
        match message {
            SdkMessage::System(SystemEvent {
                envelope,
                kind: SystemKind::Init(_),
            }) => {
                let mut runs = lock(&self.runs);
                let run = runs.entry(envelope.session_id.clone()).or_default();
                let kind = SystemKind::TaskStarted(Box::new(run.started(&envelope)));
                SystemEvent::new(envelope, kind).into()
            }
            SdkMessage::Result(result) => {
                let run = lock(&self.runs).remove(&result.envelope.session_id);
                let end = run.unwrap_or_default().ended(&result);
                let kind = SystemKind::TaskNotification(Box::new(end));
                SystemEvent::new(result.envelope, kind).into()
            }
            SdkMessage::Assistant(event) => {
                let count = event.message.message.tool_calls().count() as u64;
                if is_of_child && count > 0 {
                    let mut runs = lock(&self.runs);
                    let run = runs.entry(event.envelope.session_id.clone()).or_default();
                    run.tool_uses += count;
                }
                SdkMessage::Assistant(event)
            }
            other => other,
        }
    }

    /// Takes the end messages of forwarded runs that had no result, because their futures were
    /// dropped.
    pub(crate) fn take_stopped(&self) -> Vec<SdkMessage> {
        self.open_tasks.take_stopped()
    }
}

impl ForwardedRun {
    fn id<'a>(&'a self, envelope: &'a Envelope) -> &'a Arc<str> {
        self.task.id.as_ref().unwrap_or(&envelope.session_id)
    }

    /// Returns the call that began the run: the call of its task, or else its parent call.
    fn call_id(&self, envelope: &Envelope) -> Option<Arc<str>> {
        let call_id = self.task.tool_use_id.as_ref();
        call_id.or(envelope.parent_tool_use_id.as_ref()).cloned()
    }

    fn started(&self, envelope: &Envelope) -> TaskStarted {
        let mut start = TaskStarted::new(self.id(envelope).clone(), self.task.text());
        start.tool_use_id = self.call_id(envelope);
        start.subagent_type = self.task.subagent_type.clone();
        start
    }

    fn ended(&self, result: &ResultMessage) -> TaskNotification {
        let summary = match &result.result {
            Some(text) => text.clone(),
            None => result.errors.join("\n"),
        };
        let envelope = &result.envelope;
        let id = self.id(envelope).clone();
        let mut end = TaskNotification::new(id, state(result), summary);
        end.tool_use_id = self.call_id(envelope);
        let tokens = result.usage.total_tokens();
        end.usage = Some(TaskUsage::new(tokens, self.tool_uses, result.duration_ms));
        end
    }
}

/// Returns the final state of the task that a run with this result was.
fn state(result: &ResultMessage) -> TaskState {
    match result.terminal_reason.as_deref() {
        _ if result.has_pending_calls() => TaskState::Paused,
        Some("hook_stopped") => TaskState::Stopped,
        _ if result.subtype.is_success() => TaskState::Completed,
        _ if result.is_aborted() => TaskState::Stopped,
        _ => TaskState::Failed,
    }
}
