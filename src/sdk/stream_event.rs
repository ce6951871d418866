//! The run as events for a browser.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::message::Todo;

use super::assistant::AssistantEvent;
use super::message::SdkMessage;
use super::notice::Activity;
use super::progress::{PermissionRequest, ToolProgress};
use super::result::ResultMessage;
use super::subagent_events::SubagentEvents;
use super::system::SystemKind;

/// One event for a client that displays an agent's work.
///
/// Not to be confused with the content of `SdkMessage::Partial`, which is a
/// [`sdk::PartialEvent`](super::PartialEvent).
///
/// Absent fields are not written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct StreamEvent {
    /// The kind of event: one of the constants of this type.
    pub event: Cow<'static, str>,
    /// The name of the tool or model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Arc<str>>,
    /// The id of the tool call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<Arc<str>>,
    /// The payload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// The id of the thread. On [`DONE`](Self::DONE), and on the first event of a stream of the
    /// server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<Arc<str>>,
}

impl StreamEvent {
    /// The model is asked.
    pub const MODEL_START: &'static str = "on_chat_model_start";
    /// The model wrote: `{"delta": text}`.
    pub const MODEL_STREAM: &'static str = "on_chat_model_stream";
    /// The model starts over, and its output since its start is superseded: `{"attempt": n}`.
    pub const MODEL_RESTART: &'static str = "on_chat_model_restart";
    /// The response is complete.
    pub const MODEL_END: &'static str = "on_chat_model_end";
    /// A tool starts: `{"args": ..}`, with the call's id as `run_id`.
    pub const TOOL_START: &'static str = "on_tool_start";
    /// A tool ended: `{"output": ..}`, and `"is_error": true` when it failed. The data of a call
    /// that waits for an answer, if the run ends for that, is `{"output": null, "waiting": true}`.
    pub const TOOL_END: &'static str = "on_tool_end";
    /// A subagent starts: `{"task_id": .., "description": ..}`, with its type as the name and the
    /// id of the call that started it as `run_id`. As all events of subagents, only
    /// [with subagents](StreamEvents::with_subagents).
    pub const SUBAGENT_START: &'static str = "on_subagent_start";
    /// A subagent wrote: `{"delta": text}`.
    pub const SUBAGENT_STREAM: &'static str = "on_subagent_stream";
    /// A subagent's model starts over: `{"attempt": n, "superseded": m}`. The last `m` characters
    /// (Unicode scalar values) that the subagent wrote are superseded.
    pub const SUBAGENT_RESTART: &'static str = "on_subagent_restart";
    /// A subagent ended: `{"task_id": .., "status": .., "summary": ..}`.
    pub const SUBAGENT_END: &'static str = "on_subagent_end";
    /// The task list or files changed: `{"todos": [..], "files": [path]}`, each if it changed.
    pub const STATE_CHANGED: &'static str = "on_state_changed";
    /// A question waits for a person: `{"id": .., "question": .., "args": .., "expects_text": ..}`,
    /// and `choices` if there are options to pick from; with the tool as the name and the call's id
    /// as `run_id`.
    pub const PERMISSION_REQUEST: &'static str = "on_permission_request";
    /// The run succeeded: `{"thread_id": .., "total_duration_ms": ..}`, and `trace_id` if it
    /// [is known](StreamEvents::with_trace_id).
    pub const DONE: &'static str = "done";
    /// The run failed: `{"error": text}`.
    pub const ERROR: &'static str = "error";

    /// Creates an event without anything but its kind.
    pub fn new(event: impl Into<Cow<'static, str>>) -> Self {
        Self {
            event: event.into(),
            ..Self::default()
        }
    }

    /// Sets the name of the tool or model.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the id of the call.
    #[must_use]
    pub fn with_run_id(mut self, id: impl Into<Arc<str>>) -> Self {
        self.run_id = Some(id.into());
        self
    }

    /// Sets the data of the event.
    #[must_use]
    pub fn with_data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    /// Sets the id of the thread.
    #[must_use]
    pub fn with_thread_id(mut self, id: impl Into<Arc<str>>) -> Self {
        self.thread_id = Some(id.into());
        self
    }
}

/// Turns the messages of one run into [`StreamEvent`]s.
///
/// Every start has its end, even if the run is interrupted; both have the same name. Without
/// partial messages each response is one delta. Messages of subagents are omitted, except their
/// questions, unless [asked for](Self::with_subagents): the call that runs one is an ordinary tool
/// call.
///
/// ```
/// use agentcore::sdk::{Envelope, StreamEvents, ToolProgress};
/// use serde_json::json;
///
/// let mut events = StreamEvents::new();
/// let start = ToolProgress::new(Envelope::new("th_1", 4), "call_1", "read_file", 0.0)
///     .with_data(json!({"state": "started", "args": {"path": "main.py"}}));
/// assert_eq!(
///     serde_json::to_value(events.push(&start.into()))?,
///     json!([{"event": "on_tool_start", "name": "read_file", "run_id": "call_1",
///             "data": {"args": {"path": "main.py"}}}])
/// );
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct StreamEvents {
    model: Option<Arc<str>>,
    trace_id: Option<Arc<str>>,
    subagents: Option<SubagentEvents>,
    /// A response is being written.
    is_open: bool,
    /// True once text of that response was emitted.
    has_text: bool,
    /// The calls in progress.
    tools: Vec<OpenTool>,
}

/// A call in progress.
#[derive(Clone, Debug)]
struct OpenTool {
    id: Arc<str>,
    name: Arc<str>,
    /// True if its last message is that it waits for an answer.
    is_waiting: bool,
}

impl StreamEvents {
    /// Creates the converter for a run that begins.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the id of the run's trace, for the `done` event.
    #[must_use]
    pub fn with_trace_id(mut self, id: impl Into<Arc<str>>) -> Self {
        self.trace_id = Some(id.into());
        self
    }

    /// Adds the events of subagents.
    #[must_use]
    pub fn with_subagents(mut self) -> Self {
        self.subagents = Some(SubagentEvents::default());
        self
    }

    /// Returns the events of the next message of the run, often none.
    pub fn push(&mut self, message: &SdkMessage) -> Vec<StreamEvent> {
        let mut out = Vec::new();
        if let SdkMessage::PermissionRequest(request) = message {
            out.push(question(request));
            return out;
        }
        if let Some(subagents) = &mut self.subagents {
            subagents.push(message, &mut out);
        }
        if message.parent_tool_use_id().is_some() {
            return out;
        }

        match message {
            SdkMessage::System(event) => self.system(&event.kind, &mut out),
            SdkMessage::Partial(_) => {
                if let Some(text) = message.text_delta().filter(|text| !text.is_empty()) {
                    self.open(&mut out);
                    self.text(text, &mut out);
                }
            }
            SdkMessage::Assistant(event) => self.response(event, &mut out),
            SdkMessage::ToolProgress(progress) => self.tool(progress, &mut out),
            SdkMessage::Result(result) => self.result(result, &mut out),
            SdkMessage::User(_) | SdkMessage::PermissionRequest(_) | SdkMessage::Unknown(_) => {}
        }

        out
    }

    fn system(&mut self, kind: &SystemKind, out: &mut Vec<StreamEvent>) {
        match kind {
            SystemKind::Init(init) if !init.model.is_empty() => {
                self.model = Some(init.model.clone());
            }
            SystemKind::StateChanged { todos, files } => out.push(state_changed(todos, files)),
            SystemKind::Status(status) if status.status == Some(Activity::Requesting) => {
                self.open(out);
            }
            SystemKind::StreamRestart { attempt, .. } if self.is_open => {
                self.has_text = false;
                out.push(
                    self.of_model(StreamEvent::MODEL_RESTART)
                        .with_data(json!({ "attempt": attempt })),
                );
            }
            _ => {}
        }
    }

    fn response(&mut self, event: &AssistantEvent, out: &mut Vec<StreamEvent>) {
        self.open(out);
        let text = event.text();
        if !self.has_text && !text.is_empty() {
            self.text(&text, out);
        }
        self.close(out);
        self.rename_model(&event.message.model);
    }

    /// Takes the name of the model of a response for the next one, unless it is the short form of
    /// the name so far.
    fn rename_model(&mut self, response_model: &Arc<str>) {
        let name = self.model.as_deref().unwrap_or_default();
        let short_name = name.split_once(':').map_or(name, |(_, name)| name);
        let is_same = !short_name.is_empty() && response_model.starts_with(short_name);
        if !response_model.is_empty() && !is_same {
            self.model = Some(response_model.clone());
        }
    }

    fn tool(&mut self, progress: &ToolProgress, out: &mut Vec<StreamEvent>) {
        let Some(data) = &progress.data else { return };
        let id = &progress.tool_use_id;
        let open_tool = self.tools.iter_mut().find(|tool| tool.id == *id);
        let event = |name| {
            StreamEvent::new(name)
                .with_name(progress.tool_name.clone())
                .with_run_id(id.clone())
        };

        if progress.is_started() {
            // A tool's own progress may have the form of a start.
            if open_tool.is_none() {
                self.tools.push(OpenTool {
                    id: id.clone(),
                    name: progress.tool_name.clone(),
                    is_waiting: false,
                });
                out.push(event(StreamEvent::TOOL_START).with_data(json!({"args": data["args"]})));
            }
        } else if progress.is_finished() {
            self.tools.retain(|tool| tool.id != *id);
            let mut end_data = json!({ "output": data["output"] });
            if data["is_error"] == true {
                end_data["is_error"] = true.into();
            }
            out.push(event(StreamEvent::TOOL_END).with_data(end_data));
        } else if let Some(tool) = open_tool {
            // The call ends with the run, because a tool's own progress may have this form as well.
            tool.is_waiting = progress.is_waiting();
        }
    }

    fn result(&mut self, result: &ResultMessage, out: &mut Vec<StreamEvent>) {
        self.close(out);
        let has_pending_calls = result.has_pending_calls();
        for tool in std::mem::take(&mut self.tools) {
            let key = if tool.is_waiting && has_pending_calls {
                "waiting"
            } else {
                "is_error"
            };
            out.push(
                StreamEvent::new(StreamEvent::TOOL_END)
                    .with_name(tool.name)
                    .with_run_id(tool.id)
                    .with_data(json!({"output": null, key: true})),
            );
        }

        if result.is_error {
            let text = match &*result.errors {
                [] => result
                    .result
                    .clone()
                    .unwrap_or_else(|| result.subtype.to_string()),
                errors => errors.join("\n"),
            };

            out.push(StreamEvent::new(StreamEvent::ERROR).with_data(json!({ "error": text })));
            return;
        }

        let thread = &result.envelope.session_id;
        let mut data = json!({"thread_id": &**thread, "total_duration_ms": result.duration_ms});
        if let Some(id) = &self.trace_id {
            data["trace_id"] = json!(id);
        }
        let done_event = StreamEvent::new(StreamEvent::DONE).with_data(data);
        out.push(done_event.with_thread_id(thread.clone()));
    }

    fn open(&mut self, out: &mut Vec<StreamEvent>) {
        if !self.is_open {
            self.is_open = true;
            self.has_text = false;
            out.push(self.of_model(StreamEvent::MODEL_START));
        }
    }

    fn close(&mut self, out: &mut Vec<StreamEvent>) {
        if self.is_open {
            self.is_open = false;
            out.push(self.of_model(StreamEvent::MODEL_END));
        }
    }

    fn text(&mut self, text: &str, out: &mut Vec<StreamEvent>) {
        self.has_text = true;
        out.push(StreamEvent::new(StreamEvent::MODEL_STREAM).with_data(json!({ "delta": text })));
    }

    fn of_model(&self, event: &'static str) -> StreamEvent {
        StreamEvent {
            name: self.model.clone(),
            ..StreamEvent::new(event)
        }
    }
}

fn question(request: &PermissionRequest) -> StreamEvent {
    let mut data = json!({
        "id": request.id,
        "question": request.question,
        "args": request.input,
        "expects_text": request.expects_text,
    });
    if let Some(choices) = &request.choices {
        data["choices"] = json!(choices);
    }
    StreamEvent::new(StreamEvent::PERMISSION_REQUEST)
        .with_name(request.tool_name.clone())
        .with_run_id(request.tool_use_id.clone())
        .with_data(data)
}

fn state_changed(todos: &Option<Vec<Todo>>, files: &Option<Vec<String>>) -> StreamEvent {
    let mut data = json!({});
    if let Some(todos) = todos {
        data["todos"] = json!(todos);
    }
    if let Some(files) = files {
        data["files"] = json!(files);
    }
    StreamEvent::new(StreamEvent::STATE_CHANGED).with_data(data)
}
