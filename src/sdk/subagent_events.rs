//! The events of subagents.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::message::SdkMessage;
use super::stream_event::StreamEvent;
use super::system::SystemKind;

/// The maximum number of subagents whose starts are emitted at the same time.
const MAX_RUNNING: usize = 1_000;

/// Turns the messages of subagents into events.
#[derive(Clone, Debug, Default)]
pub(super) struct SubagentEvents {
    /// The names of the subagents in progress, by the call that started them.
    names: BTreeMap<Arc<str>, Arc<str>>,
    /// The length of the emitted text of each response in progress, in characters, by the session
    /// of the subagent: a call may have several.
    streamed: BTreeMap<Arc<str>, usize>,
}

impl SubagentEvents {
    pub(super) fn push(&mut self, message: &SdkMessage, out: &mut Vec<StreamEvent>) {
        let call = message.parent_tool_use_id();
        match message {
            SdkMessage::System(event) => self.system(message, &event.kind, out),
            SdkMessage::Partial(_) => {
                let text = message.text_delta().filter(|text| !text.is_empty());
                if let (Some(call), Some(text)) = (call, text) {
                    self.count(message.session_id(), text);
                    self.text(call, text, out);
                }
            }
            SdkMessage::Assistant(event) => {
                let Some(call) = call else { return };
                let text = event.text();
                let has_streamed = self.streamed.remove(message.session_id()).is_some();
                if !has_streamed && !text.is_empty() {
                    self.text(call, &text, out);
                }
            }
            _ => {}
        }
    }

    fn system(&mut self, message: &SdkMessage, kind: &SystemKind, out: &mut Vec<StreamEvent>) {
        match kind {
            SystemKind::StreamRestart { attempt, .. } => {
                let length = self.streamed.remove(message.session_id());
                let (Some(call), Some(length)) = (message.parent_tool_use_id(), length) else {
                    return;
                };
                let data = json!({"attempt": attempt, "superseded": length});
                out.push(self.event(StreamEvent::SUBAGENT_RESTART, call, data));
            }
            SystemKind::TaskStarted(start) => {
                let Some(name) = &start.subagent_type else {
                    return;
                };
                let mut event = StreamEvent::new(StreamEvent::SUBAGENT_START)
                    .with_name(name.clone())
                    .with_data(json!({
                        "task_id": start.task_id, "description": start.description
                    }));
                if let Some(call) = &start.tool_use_id {
                    // Without its name, the start would have no end.
                    if self.names.len() >= MAX_RUNNING {
                        return;
                    }
                    event = event.with_run_id(call.clone());
                    self.names.insert(call.clone(), name.clone());
                }
                out.push(event);
            }
            SystemKind::TaskNotification(end) => {
                let Some(call) = &end.tool_use_id else { return };
                self.streamed.remove(message.session_id());
                let Some(name) = self.names.remove(call) else {
                    return;
                };
                out.push(
                    StreamEvent::new(StreamEvent::SUBAGENT_END)
                        .with_name(name)
                        .with_run_id(call.clone())
                        .with_data(json!({
                            "task_id": end.task_id, "status": end.status, "summary": end.summary
                        })),
                );
            }
            _ => {}
        }
    }

    /// Counts the characters of a piece of a response.
    fn count(&mut self, session_id: &str, text: &str) {
        let char_count = text.chars().count();
        match self.streamed.get_mut(session_id) {
            Some(length) => *length += char_count,
            None => {
                self.streamed.insert(session_id.into(), char_count);
            }
        }
    }

    fn text(&self, call: &str, text: &str, out: &mut Vec<StreamEvent>) {
        out.push(self.event(StreamEvent::SUBAGENT_STREAM, call, json!({ "delta": text })));
    }

    /// Returns an event of the subagent that a call started.
    fn event(&self, kind: &'static str, call: &str, data: Value) -> StreamEvent {
        let event = StreamEvent::new(kind).with_run_id(call).with_data(data);
        StreamEvent {
            name: self.names.get(call).cloned(),
            ..event
        }
    }
}
