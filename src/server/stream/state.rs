//! The state shared by all formats, which converts messages into steps.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::message::{Message, ToolCall};
use crate::sdk::{
    AssistantEvent, Envelope, PartialEvent, PermissionDenied, ResultMessage, SdkMessage,
    SystemEvent, SystemKind, TaskNotification, TaskStarted, TaskState, ToolProgress, UserEvent,
};
use crate::session::AgentState;

use super::encoder::EncoderOptions;
use super::history::{History, ShownMessage};
use super::lanes::{Lanes, own};
use super::step::{Author, CallProgress, CallResult, Output, Step, StepKind, SubagentEnd};

/// The estimated memory of a call, an id, a path or a pointer to a message, in bytes.
const ENTRY_BYTES: usize = 128;

/// The lanes of a run's agents, and the history of its thread.
#[derive(Clone, Debug)]
pub(super) struct StreamState {
    run_id: Arc<str>,
    thread_id: Arc<str>,
    lanes: Lanes,
    history: History,
}

/// The result of a call, from a message of the run or from the progress of the call.
struct ReceivedResult<'a> {
    call_id: &'a Arc<str>,
    name: &'a Arc<str>,
    output: Output<'a>,
    is_error: bool,
}

impl StreamState {
    pub(super) fn new(options: EncoderOptions) -> Self {
        let thread_id = options.state.as_ref().map(|state| state.thread_id.clone());
        Self {
            run_id: options.run_id.clone(),
            thread_id: thread_id.unwrap_or_default(),
            lanes: Lanes::default(),
            history: History::new(options),
        }
    }

    pub(super) fn run_id(&self) -> &Arc<str> {
        &self.run_id
    }

    pub(super) fn thread_id(&self) -> &Arc<str> {
        &self.thread_id
    }

    pub(super) fn history(&self) -> &History {
        &self.history
    }

    /// Estimates the memory in bytes of the calls, ids and messages that no other reader shares.
    pub(super) fn index_size(&self) -> usize {
        let entries = self.lanes.entry_count() + self.history.entry_count();
        entries * ENTRY_BYTES + self.history.files_len()
    }

    /// Returns the id of a call for readers.
    pub(super) fn shown_call_id(&self, subagent: &Option<Arc<str>>, id: &Arc<str>) -> Arc<str> {
        self.lanes.shown_call_id(subagent, id)
    }

    /// Returns `true` if the reader has been shown this call of the agent itself.
    pub(super) fn has_call(&self, id: &str) -> bool {
        self.lanes.main().has_shown(id)
    }

    /// Sets the state after the run.
    pub(super) fn set_final(&mut self, state: &AgentState) {
        self.history.set_state(state);
    }

    /// Replaces the history by the state of a run whose messages are unknown.
    pub(super) fn replace(&mut self, state: AgentState) {
        self.thread_id = state.thread_id.clone();
        self.history = History::of_state(state);
    }

    /// Moves the messages so far to the messages that readers share.
    pub(super) fn share_history(&mut self) {
        self.history.share();
    }

    /// Returns the thread at this position.
    pub(super) fn snapshot(&self) -> Value {
        let mut snapshot = self.history.state();
        snapshot["thread_id"] = json!(self.thread_id);
        if let Some(messages) = self.history.messages() {
            let own_messages: Vec<&Message> = messages
                .iter()
                .filter(|shown| shown.subagent.is_none())
                .map(|shown| &*shown.message)
                .collect();
            snapshot["messages"] = json!(own_messages);
        }
        snapshot
    }

    /// Prepares the lanes for a reader that begins at this position. Returns its first steps: the
    /// open turns and the active subagents. The pieces of the open responses are hidden from it.
    pub(super) fn reopen(&mut self) -> Vec<Step<'static>> {
        self.lanes.reopen()
    }

    /// Returns the steps of the next message.
    pub(super) fn push<'a>(&mut self, message: &'a SdkMessage) -> Vec<Step<'a>> {
        let mut steps = Vec::new();
        let envelope = message.envelope();
        if envelope.parent_tool_use_id.is_none() && !envelope.session_id.is_empty() {
            self.thread_id = envelope.session_id.clone();
        }
        match message {
            SdkMessage::System(event) => self.push_system(message, event, &mut steps),
            SdkMessage::Partial(event) => self.push_partial(event, &mut steps),
            SdkMessage::Assistant(event) => self.push_response(event, &mut steps),
            SdkMessage::User(event) => self.push_user(event, &mut steps),
            SdkMessage::ToolProgress(progress) => self.push_progress(progress, &mut steps),
            SdkMessage::Result(result) => self.push_end(result, &mut steps),
            SdkMessage::PermissionRequest(_) => {
                self.push_other(envelope, "permission_request", message, &mut steps);
            }
            SdkMessage::Unknown(unknown) => {
                self.push_other(envelope, &unknown.kind, message, &mut steps);
            }
        }
        steps
    }

    fn push_system<'a>(
        &mut self,
        message: &'a SdkMessage,
        event: &'a SystemEvent,
        steps: &mut Vec<Step<'a>>,
    ) {
        let envelope = &event.envelope;
        match &event.kind {
            SystemKind::Init(_) if envelope.parent_tool_use_id.is_none() => {
                steps.push(own(StepKind::RunStarted));
            }
            SystemKind::StateChanged { todos, files } => {
                if let Some(todos) = todos {
                    self.history.set_todos(todos);
                }
                if let Some(files) = files {
                    self.history.add_files(files);
                }
                let kind = StepKind::StateChanged {
                    todos: todos.is_some(),
                    files: files.is_some(),
                };
                self.push_step(envelope, kind, steps);
            }
            SystemKind::StreamRestart { .. } => {
                self.lanes.with_lane(envelope, steps, |lane, _, out| {
                    lane.restart(out);
                });
            }
            SystemKind::TaskStarted(start) if is_subagent(start, envelope) => {
                self.lanes.start(start, envelope, steps);
            }
            SystemKind::TaskNotification(end) => match self.lanes.index_of_end(end, envelope) {
                Some(index) => self.lanes.end(index, subagent_end(end), steps),
                None => self.push_other(envelope, event.kind.subtype(), message, steps),
            },
            SystemKind::PermissionDenied(denied) => {
                self.push_denial(denied, envelope, steps);
                self.push_other(envelope, event.kind.subtype(), message, steps);
            }
            kind => self.push_other(envelope, kind.subtype(), message, steps),
        }
    }

    fn push_partial<'a>(&mut self, event: &'a PartialEvent, steps: &mut Vec<Step<'a>>) {
        let new_id = self.unique_id(&event.envelope);
        self.lanes
            .with_lane(&event.envelope, steps, |lane, ids, out| {
                lane.push_piece(event, || new_id, ids, out);
            });
    }

    fn push_response<'a>(&mut self, event: &'a AssistantEvent, steps: &mut Vec<Step<'a>>) {
        let envelope = &event.envelope;
        let new_id = self.unique_id(envelope);
        let (id, is_as_streamed) = self.lanes.with_lane(envelope, steps, |lane, ids, out| {
            lane.finish_response(event, || new_id, ids, out)
        });
        let subagent = self.lanes.id_of(envelope);
        let has_removed = self.history.remove(&event.supersedes);
        self.history.add(ShownMessage {
            id,
            uuid: envelope.uuid,
            subagent,
            message: event.message.message.clone(),
        });
        if has_removed || !is_as_streamed {
            self.push_step(envelope, StepKind::Replaced, steps);
        }
    }

    fn push_user<'a>(&mut self, event: &'a UserEvent, steps: &mut Vec<Step<'a>>) {
        let envelope = &event.envelope;
        for (index, message) in event.messages.iter().enumerate() {
            let id: Arc<str> = match message.as_tool_result() {
                Some(result) => {
                    let received = ReceivedResult {
                        call_id: &result.tool_call_id,
                        name: &result.name,
                        output: Output::Content(&result.content),
                        is_error: result.is_error,
                    };
                    self.push_result(envelope, received, steps);
                    let subagent = self.lanes.id_of(envelope);
                    let shown_call_id = self.shown_call_id(&subagent, &result.tool_call_id);
                    format!("{shown_call_id}.result").into()
                }
                None => {
                    let id: Arc<str> = match index {
                        0 => envelope.uuid.to_string().into(),
                        _ => format!("{}.{index}", envelope.uuid).into(),
                    };
                    self.push_user_text(envelope, &id, message, steps);
                    id
                }
            };
            let subagent = self.lanes.id_of(envelope);
            self.history.add(ShownMessage {
                id,
                uuid: envelope.uuid,
                subagent,
                message: message.clone(),
            });
        }
    }

    /// Shows a text of the user that arrived during the run.
    fn push_user_text<'a>(
        &mut self,
        envelope: &Envelope,
        id: &Arc<str>,
        message: &'a Message,
        steps: &mut Vec<Step<'a>>,
    ) {
        let parts = message.content().parts().iter();
        let texts: Vec<&str> = parts
            .filter_map(|part| part.as_text())
            .filter(|text| !text.is_empty())
            .collect();
        if texts.is_empty() {
            return;
        }
        self.lanes.with_lane(envelope, steps, |_, _, out| {
            out(StepKind::TextStart(id.clone(), Author::User));
            for text in texts {
                out(StepKind::TextDelta(id.clone(), text));
            }
            out(StepKind::TextEnd(id.clone()));
        });
    }

    fn push_progress<'a>(&mut self, progress: &'a ToolProgress, steps: &mut Vec<Step<'a>>) {
        let (id, name) = (&progress.tool_use_id, &progress.tool_name);
        let envelope = &progress.envelope;
        let Some(data) = progress.data.as_ref().filter(|_| !progress.heartbeat) else {
            return;
        };
        if progress.is_finished() {
            let received = ReceivedResult {
                call_id: id,
                name,
                output: Output::Value(&data["output"]),
                is_error: data["is_error"] == true,
            };
            self.push_result(envelope, received, steps);
        } else if !progress.is_started() && !progress.is_waiting() {
            self.push_own_progress(progress, data, steps);
        }
    }

    /// Shows the tool's own data about the progress of a call.
    fn push_own_progress<'a>(
        &mut self,
        progress: &'a ToolProgress,
        data: &'a Value,
        steps: &mut Vec<Step<'a>>,
    ) {
        let (id, name) = (&progress.tool_use_id, &progress.tool_name);
        let envelope = &progress.envelope;
        let elapsed = progress.elapsed_time_seconds;
        let is_shown = self.lanes.with_lane(envelope, steps, |lane, _, _| {
            lane.record_progress(id, name, elapsed)
        });
        let Some(is_shown) = is_shown else {
            return;
        };
        let earlier = self.earlier_call(id, is_shown);
        let is_unknown = !is_shown && earlier.is_none();
        let subagent = self.lanes.id_of(envelope);
        let kind = StepKind::Progress(CallProgress {
            id: self.lanes.shown_call_id(&subagent, id),
            data,
            earlier,
            is_unknown,
        });
        self.lanes.with_lane(envelope, steps, |lane, _, out| {
            if !is_unknown {
                lane.show(id);
            }
            out(kind);
        });
    }

    /// Returns a call that the reader has not been shown.
    fn earlier_call(&self, id: &str, is_shown: bool) -> Option<ToolCall> {
        // The search may pass the whole history.
        if is_shown {
            return None;
        }
        self.history.call(id).cloned()
    }

    /// Shows the result of a call, unless it has been shown.
    fn push_result<'a>(
        &mut self,
        envelope: &Envelope,
        received: ReceivedResult<'a>,
        steps: &mut Vec<Step<'a>>,
    ) {
        let ReceivedResult {
            call_id,
            name,
            output,
            is_error,
        } = received;
        let new_result = self.lanes.with_lane(envelope, steps, |lane, _, _| {
            lane.record_result(call_id, name)
        });
        let Some(new_result) = new_result else {
            return;
        };
        let earlier = self.earlier_call(call_id, new_result.is_call_shown);
        let subagent = self.lanes.id_of(envelope);
        let result = CallResult {
            id: self.lanes.shown_call_id(&subagent, call_id),
            output,
            is_error,
            is_denied: new_result.is_denied,
            earlier,
        };
        self.push_step(envelope, StepKind::CallResult(result), steps);
    }

    fn push_denial(
        &mut self,
        denied: &PermissionDenied,
        envelope: &Envelope,
        steps: &mut Vec<Step<'_>>,
    ) {
        self.lanes.with_lane(envelope, steps, |lane, _, _| {
            lane.deny(&denied.tool_use_id, &denied.tool_name);
        });
    }

    /// Ends everything that is open, and the run.
    fn push_end<'a>(&mut self, result: &'a ResultMessage, steps: &mut Vec<Step<'a>>) {
        self.lanes.end_all(result.has_pending_calls(), steps);
        steps.push(own(StepKind::Finished(result)));
    }

    fn push_step<'a>(
        &mut self,
        envelope: &Envelope,
        kind: StepKind<'a>,
        steps: &mut Vec<Step<'a>>,
    ) {
        self.lanes.with_lane(envelope, steps, |_, _, out| out(kind));
    }

    fn push_other<'a>(
        &mut self,
        envelope: &Envelope,
        name: &'a str,
        message: &'a SdkMessage,
        steps: &mut Vec<Step<'a>>,
    ) {
        self.push_step(envelope, StepKind::Other(name, message), steps);
    }

    /// Returns a new id for a response whose own id is empty or in use.
    fn unique_id(&self, envelope: &Envelope) -> Arc<str> {
        format!("{}.{}", self.run_id, envelope.seq).into()
    }
}

/// Returns `true` for the start of a subagent's run; other tasks are commands in the background.
fn is_subagent(start: &TaskStarted, envelope: &Envelope) -> bool {
    envelope.parent_tool_use_id.is_some()
        || (start.subagent_type.is_some() && start.tool_use_id.is_some())
}

fn subagent_end(end: &TaskNotification) -> SubagentEnd {
    let summary = end.summary.clone();
    match &end.status {
        TaskState::Completed => SubagentEnd::Success(Some(summary)),
        TaskState::Paused => SubagentEnd::Suspended,
        status => SubagentEnd::Failed(summary, status.to_string().into()),
    }
}
