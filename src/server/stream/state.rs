//! The state that the formats share: it turns messages into steps.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::message::Message;
use crate::sdk::{
    AssistantEvent, Envelope, PartialEvent, PermissionDenied, ResultMessage, SdkMessage,
    SystemEvent, SystemKind, TaskNotification, TaskStarted, TaskState, ToolProgress, UserEvent,
};
use crate::session::AgentState;

use super::blocks::Sink;
use super::encoder::EncoderOptions;
use super::history::{History, Shown};
use super::ids::Ids;
use super::lane::Lane;
use super::step::{Author, CallResult, Output, Step, StepKind, Subagent, SubagentEnd};

/// The open blocks, the known calls and results, the turns and the subagents of a run.
#[derive(Clone, Debug)]
pub(super) struct StreamState {
    run_id: Arc<str>,
    thread_id: Arc<str>,
    main: Lane,
    /// The subagents at work, in the order of their starts.
    subagents: Vec<Lane>,
    /// The number of subagents that each call has started.
    children: HashMap<Arc<str>, u32>,
    ids: Ids,
    history: History,
}

/// The steps of one agent, in order.
struct Steps<'s, 'a> {
    subagent: Option<Arc<str>>,
    steps: &'s mut Vec<Step<'a>>,
}

impl<'a> Steps<'_, 'a> {
    fn sink(&mut self) -> impl FnMut(StepKind<'a>) {
        |kind| {
            self.steps.push(Step {
                subagent: self.subagent.clone(),
                kind,
            });
        }
    }
}

impl StreamState {
    pub(super) fn new(options: EncoderOptions) -> Self {
        let thread_id = options.state.as_ref().map(|state| state.thread_id.clone());
        Self {
            run_id: options.run_id.clone(),
            thread_id: thread_id.unwrap_or_default(),
            main: Lane::default(),
            subagents: Vec::new(),
            children: HashMap::new(),
            ids: Ids::default(),
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

    /// The id of a call for readers.
    pub(super) fn shown_call(&self, subagent: &Option<Arc<str>>, id: &Arc<str>) -> Arc<str> {
        self.ids.shown_call(subagent, id)
    }

    /// Returns `true` if the reader has been shown this call of the agent itself.
    pub(super) fn has_call(&self, id: &str) -> bool {
        self.main.has_shown(id)
    }

    /// Takes over the state after the run.
    pub(super) fn set_final(&mut self, state: &AgentState) {
        self.history.set_state(state);
    }

    /// Takes over the state of a run whose messages are not known, in place of the history.
    pub(super) fn replace(&mut self, state: AgentState) {
        self.thread_id = state.thread_id.clone();
        self.history = History::of_state(state);
    }

    /// Moves the messages so far to those that readers share.
    pub(super) fn share_history(&mut self) {
        self.history.share();
    }

    /// The session at this position.
    pub(super) fn snapshot(&self) -> Value {
        let mut snapshot = self.history.state();
        snapshot["thread_id"] = json!(self.thread_id);
        if let Some(messages) = self.history.messages() {
            let own_messages = messages.iter().filter(|shown| shown.subagent.is_none());
            let own_messages: Vec<&Message> = own_messages.map(|shown| &*shown.message).collect();
            snapshot["messages"] = json!(own_messages);
        }
        snapshot
    }

    /// The steps of a reader that begins at this position, without the open blocks.
    pub(super) fn reopen(&mut self) -> Vec<Step<'static>> {
        let mut steps = Vec::new();
        let mut starts = Vec::new();
        for lane in &self.subagents {
            starts.push(self.subagent(lane, None));
        }
        reopen(&mut self.main, &mut steps);
        for (lane, start) in self.subagents.iter_mut().zip(starts) {
            steps.push(Step {
                subagent: lane.id.clone(),
                kind: StepKind::SubagentStarted(start),
            });
            reopen(lane, &mut steps);
        }
        steps
    }

    /// The steps of the next message.
    pub(super) fn push<'a>(&mut self, message: &'a SdkMessage) -> Vec<Step<'a>> {
        let mut steps = Vec::new();
        let envelope = message.envelope();
        if envelope.parent_tool_use_id.is_none() && !envelope.session_id.is_empty() {
            self.thread_id = envelope.session_id.clone();
        }
        match message {
            SdkMessage::System(event) => self.system(message, event, &mut steps),
            SdkMessage::Partial(event) => self.piece(event, &mut steps),
            SdkMessage::Assistant(event) => self.answer(event, &mut steps),
            SdkMessage::User(event) => self.user(event, &mut steps),
            SdkMessage::ToolProgress(progress) => self.progress(progress, &mut steps),
            SdkMessage::Result(result) => self.finish(result, &mut steps),
            SdkMessage::PermissionRequest(_) => {
                self.other(envelope, "permission_request", message, &mut steps);
            }
            SdkMessage::Unknown(unknown) => {
                self.other(envelope, &unknown.kind, message, &mut steps);
            }
        }
        steps
    }

    fn system<'a>(
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
                self.add(envelope, kind, steps);
            }
            SystemKind::StreamRestart { .. } => {
                self.with_lane(envelope, steps, |lane, _, out| {
                    lane.restart(out);
                });
            }
            SystemKind::TaskStarted(start) if is_subagent(start, envelope) => {
                self.start_subagent(start, envelope, steps);
            }
            SystemKind::TaskNotification(end) => match self.ended_subagent(end, envelope) {
                Some(index) => self.end_subagent(index, subagent_end(end), steps),
                None => self.other(envelope, event.kind.subtype(), message, steps),
            },
            SystemKind::PermissionDenied(denied) => {
                self.deny(denied, envelope, steps);
                self.other(envelope, event.kind.subtype(), message, steps);
            }
            kind => self.other(envelope, kind.subtype(), message, steps),
        }
    }

    fn piece<'a>(&mut self, event: &'a PartialEvent, steps: &mut Vec<Step<'a>>) {
        let unique = self.unique_id(&event.envelope);
        self.with_lane(&event.envelope, steps, |lane, ids, out| {
            lane.piece(event, || unique, ids, out);
        });
    }

    fn answer<'a>(&mut self, event: &'a AssistantEvent, steps: &mut Vec<Step<'a>>) {
        let envelope = &event.envelope;
        let unique = self.unique_id(envelope);
        let (id, is_as_streamed) = self.with_lane(envelope, steps, |lane, ids, out| {
            lane.finish_answer(event, || unique, ids, out)
        });
        let subagent = self.lane_id(envelope);
        let has_removed = self.history.remove(&event.supersedes);
        self.history.add(Shown {
            id,
            uuid: envelope.uuid,
            subagent,
            message: event.message.message.clone(),
        });
        if has_removed || !is_as_streamed {
            self.add(envelope, StepKind::Replaced, steps);
        }
    }

    fn user<'a>(&mut self, event: &'a UserEvent, steps: &mut Vec<Step<'a>>) {
        let envelope = &event.envelope;
        for (index, message) in event.messages.iter().enumerate() {
            let id: Arc<str> = match message.as_tool_result() {
                Some(result) => {
                    let (call_id, output) =
                        (&result.tool_call_id, Output::Content(&result.content));
                    self.result(
                        envelope,
                        call_id,
                        &result.name,
                        output,
                        result.is_error,
                        steps,
                    );
                    let subagent = self.lane_id(envelope);
                    format!("{}.result", self.shown_call(&subagent, call_id)).into()
                }
                None => {
                    let id: Arc<str> = match index {
                        0 => envelope.uuid.to_string().into(),
                        _ => format!("{}.{index}", envelope.uuid).into(),
                    };
                    self.user_text(envelope, &id, message, steps);
                    id
                }
            };
            let subagent = self.lane_id(envelope);
            self.history.add(Shown {
                id,
                uuid: envelope.uuid,
                subagent,
                message: message.clone(),
            });
        }
    }

    /// Shows a text of the user that arrived during the run.
    fn user_text<'a>(
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
        self.with_lane(envelope, steps, |_, _, out| {
            out(StepKind::TextStart(id.clone(), Author::User));
            for text in texts {
                out(StepKind::TextDelta(id.clone(), text));
            }
            out(StepKind::TextEnd(id.clone()));
        });
    }

    fn progress<'a>(&mut self, progress: &'a ToolProgress, steps: &mut Vec<Step<'a>>) {
        let (id, name) = (&progress.tool_use_id, &progress.tool_name);
        let envelope = &progress.envelope;
        let Some(data) = progress.data.as_ref().filter(|_| !progress.heartbeat) else {
            return;
        };
        if progress.is_finished() {
            let is_error = data["is_error"] == true;
            let output = Output::Value(&data["output"]);
            self.result(envelope, id, name, output, is_error, steps);
        } else if !progress.is_started() {
            let elapsed = progress.elapsed_time_seconds;
            self.with_lane(envelope, steps, |lane, ids, out| {
                if lane.progress(id, name, elapsed) {
                    out(StepKind::Progress(ids.shown_call(&lane.id, id), data));
                }
            });
        }
    }

    /// Shows the result of a call, unless it has been shown.
    fn result<'a>(
        &mut self,
        envelope: &Envelope,
        call_id: &Arc<str>,
        name: &Arc<str>,
        output: Output<'a>,
        is_error: bool,
        steps: &mut Vec<Step<'a>>,
    ) {
        let new = self.with_lane(envelope, steps, |lane, _, _| lane.result(call_id, name));
        let Some(new) = new else {
            return;
        };
        let earlier = self
            .history
            .call(call_id)
            .filter(|_| !new.has_call)
            .cloned();
        let subagent = self.lane_id(envelope);
        let result = CallResult {
            id: self.ids.shown_call(&subagent, call_id),
            output,
            is_error,
            is_denied: new.is_denied,
            earlier,
        };
        self.add(envelope, StepKind::CallResult(result), steps);
    }

    fn deny(&mut self, denied: &PermissionDenied, envelope: &Envelope, steps: &mut Vec<Step<'_>>) {
        self.with_lane(envelope, steps, |lane, _, _| {
            lane.deny(&denied.tool_use_id, &denied.tool_name);
        });
    }

    /// Ends everything that is open, and the run.
    fn finish<'a>(&mut self, result: &'a ResultMessage, steps: &mut Vec<Step<'a>>) {
        let is_parked = result.terminal_reason.as_deref() == Some("tool_deferred");
        for index in (0..self.subagents.len()).rev() {
            let end = if is_parked {
                SubagentEnd::Suspended
            } else {
                SubagentEnd::Success(None)
            };
            self.end_subagent(index, end, steps);
        }
        let mut own_steps = Steps {
            subagent: None,
            steps,
        };
        self.main.end(&mut own_steps.sink());
        steps.push(own(StepKind::Finished(result)));
    }

    fn start_subagent(
        &mut self,
        start: &TaskStarted,
        envelope: &Envelope,
        steps: &mut Vec<Step<'_>>,
    ) {
        let call = envelope.parent_tool_use_id.as_ref();
        let Some(call) = call.or(start.tool_use_id.as_ref()) else {
            return;
        };
        let is_of_child = envelope.parent_tool_use_id.is_some();
        let mut lane = self.new_lane(call);
        lane.session_id = is_of_child.then(|| envelope.session_id.clone());
        lane.task_id = Some(start.task_id.clone());
        let mut subagent = self.subagent(&lane, start.subagent_type.clone());
        subagent.description.clone_from(&start.description);
        steps.push(Step {
            subagent: lane.id.clone(),
            kind: StepKind::SubagentStarted(subagent),
        });
        self.subagents.push(lane);
    }

    fn new_lane(&mut self, call: &Arc<str>) -> Lane {
        let number = self.children.entry(call.clone()).or_default();
        *number += 1;
        Lane::of_subagent(format!("{call}.{number}"), call.clone())
    }

    fn subagent(&self, lane: &Lane, name: Option<Arc<str>>) -> Subagent {
        let call = lane.parent_call.clone().unwrap_or_default();
        let lanes = std::iter::once(&self.main).chain(&self.subagents);
        let parent = lanes
            .filter(|other| other.id != lane.id)
            .find_map(|other| Some((other, other.tool_of(&call)?)));
        let tool = parent.map(|(_, tool)| tool.clone());
        let parent_id = parent.and_then(|(lane, _)| lane.id.clone());
        Subagent {
            name: name.or(tool).unwrap_or_else(|| "subagent".into()),
            description: String::new(),
            call: self.ids.shown_call(&parent_id, &call),
            parent: parent_id,
        }
    }

    /// The subagent that a notification ends.
    fn ended_subagent(&self, end: &TaskNotification, envelope: &Envelope) -> Option<usize> {
        let lanes = &self.subagents;
        let by_task = lanes
            .iter()
            .position(|lane| lane.task_id.as_ref() == Some(&end.task_id));
        by_task.or_else(|| {
            envelope.parent_tool_use_id.as_ref()?;
            let session_id = Some(&envelope.session_id);
            lanes
                .iter()
                .position(|lane| lane.session_id.as_ref() == session_id)
        })
    }

    fn end_subagent(&mut self, index: usize, end: SubagentEnd, steps: &mut Vec<Step<'_>>) {
        let mut lane = self.subagents.remove(index);
        let mut lane_steps = Steps {
            subagent: lane.id.clone(),
            steps,
        };
        lane.end(&mut lane_steps.sink());
        steps.push(Step {
            subagent: lane.id,
            kind: StepKind::SubagentFinished(end),
        });
    }

    /// Runs `act` with the agent that a message is from. A subagent whose start was not seen
    /// starts here.
    fn with_lane<'a, R>(
        &mut self,
        envelope: &Envelope,
        steps: &mut Vec<Step<'a>>,
        act: impl FnOnce(&mut Lane, &mut Ids, Sink<'_, 'a>) -> R,
    ) -> R {
        let lane = match self.lane_index(envelope, steps) {
            Some(index) => &mut self.subagents[index],
            None => &mut self.main,
        };
        let mut lane_steps = Steps {
            subagent: lane.id.clone(),
            steps,
        };
        act(lane, &mut self.ids, &mut lane_steps.sink())
    }

    /// The index of the subagent that a message is from; `None` for the agent itself.
    fn lane_index(&mut self, envelope: &Envelope, steps: &mut Vec<Step<'_>>) -> Option<usize> {
        let call = envelope.parent_tool_use_id.as_ref()?;
        let session_id = Some(&envelope.session_id);
        let mut lanes = self.subagents.iter();
        if let Some(index) = lanes.position(|lane| lane.session_id.as_ref() == session_id) {
            return Some(index);
        }

        let is_unnamed =
            |lane: &Lane| lane.session_id.is_none() && lane.parent_call.as_ref() == Some(call);
        let index = match self.subagents.iter().position(is_unnamed) {
            Some(index) => index,
            None => {
                let lane = self.new_lane(call);
                steps.push(Step {
                    subagent: lane.id.clone(),
                    kind: StepKind::SubagentStarted(self.subagent(&lane, None)),
                });
                self.subagents.push(lane);
                self.subagents.len() - 1
            }
        };
        self.subagents[index].session_id = session_id.cloned();
        Some(index)
    }

    fn lane_id(&self, envelope: &Envelope) -> Option<Arc<str>> {
        envelope.parent_tool_use_id.as_ref()?;
        let session_id = Some(&envelope.session_id);
        let lane = self
            .subagents
            .iter()
            .find(|lane| lane.session_id.as_ref() == session_id);
        lane?.id.clone()
    }

    fn add<'a>(&mut self, envelope: &Envelope, kind: StepKind<'a>, steps: &mut Vec<Step<'a>>) {
        self.with_lane(envelope, steps, |_, _, out| out(kind));
    }

    fn other<'a>(
        &mut self,
        envelope: &Envelope,
        name: &'a str,
        message: &'a SdkMessage,
        steps: &mut Vec<Step<'a>>,
    ) {
        self.add(envelope, StepKind::Other(name, message), steps);
    }

    /// The id of an answer that begins here, where its own is empty or in use.
    fn unique_id(&self, envelope: &Envelope) -> Arc<str> {
        format!("{}.{}", self.run_id, envelope.seq).into()
    }
}

fn reopen(lane: &mut Lane, steps: &mut Vec<Step<'static>>) {
    let mut lane_steps = Steps {
        subagent: lane.id.clone(),
        steps,
    };
    lane.reopen(&mut lane_steps.sink());
}

/// A step of the agent itself.
fn own(kind: StepKind<'_>) -> Step<'_> {
    Step {
        subagent: None,
        kind,
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
