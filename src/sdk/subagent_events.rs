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
    /// The subagents in progress, by the call that started them, in the order of their starts.
    running: BTreeMap<Arc<str>, Vec<RunningSubagent>>,
    /// The emitted text of each response in progress, by the session of the subagent: a call may
    /// have several.
    streamed: BTreeMap<Arc<str>, StreamedText>,
}

/// A subagent whose start was emitted.
#[derive(Clone, Debug)]
struct RunningSubagent {
    task_id: Arc<str>,
    name: Arc<str>,
    /// The session of its start: its own or, for a background task, the one that began it.
    session_id: Arc<str>,
}

/// The emitted text of a response in progress.
#[derive(Clone, Debug)]
struct StreamedText {
    /// The call of the subagent.
    call: Arc<str>,
    /// The length in characters.
    length: usize,
}

impl SubagentEvents {
    pub(super) fn push(&mut self, message: &SdkMessage, out: &mut Vec<StreamEvent>) {
        let call = message.parent_tool_use_id();
        match message {
            SdkMessage::System(event) => self.system(message, &event.kind, out),
            SdkMessage::Partial(_) => {
                let text = message.text_delta().filter(|text| !text.is_empty());
                if let (Some(call), Some(text)) = (call, text) {
                    self.count(message.session_id(), call, text);
                    self.text(message, call, text, out);
                }
            }
            SdkMessage::Assistant(event) => {
                let Some(call) = call else { return };
                let text = event.text();
                let has_streamed = self.streamed.remove(message.session_id()).is_some();
                if !has_streamed && !text.is_empty() {
                    self.text(message, call, &text, out);
                }
            }
            _ => {}
        }
    }

    fn system(&mut self, message: &SdkMessage, kind: &SystemKind, out: &mut Vec<StreamEvent>) {
        match kind {
            SystemKind::StreamRestart { attempt, .. } => {
                let streamed = self.streamed.remove(message.session_id());
                let (Some(call), Some(streamed)) = (message.parent_tool_use_id(), streamed) else {
                    return;
                };
                let data = json!({"attempt": attempt, "superseded": streamed.length});
                out.push(self.event(StreamEvent::SUBAGENT_RESTART, message, call, data));
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
                    // The end of a subagent that is not recorded is not emitted, so its start is
                    // not emitted either.
                    if self.running.values().map(Vec::len).sum::<usize>() >= MAX_RUNNING {
                        return;
                    }
                    event = event.with_run_id(call.clone());
                    let subagent = RunningSubagent {
                        task_id: start.task_id.clone(),
                        name: name.clone(),
                        session_id: message.session_id().into(),
                    };
                    self.running.entry(call.clone()).or_default().push(subagent);
                }
                out.push(event);
            }
            SystemKind::TaskNotification(end) => {
                let Some(call) = &end.tool_use_id else { return };
                self.end_response(message.session_id(), call);
                let Some(subagent) = self.remove(call, &end.task_id) else {
                    return;
                };
                out.push(
                    StreamEvent::new(StreamEvent::SUBAGENT_END)
                        .with_name(subagent.name)
                        .with_run_id(call.clone())
                        .with_data(json!({
                            "task_id": end.task_id, "status": end.status, "summary": end.summary
                        })),
                );
            }
            _ => {}
        }
    }

    /// Removes a subagent that has ended, with what it has streamed of a response.
    fn remove(&mut self, call: &Arc<str>, task_id: &Arc<str>) -> Option<RunningSubagent> {
        let subagents = self.running.get_mut(call)?;
        let index = subagents.iter().position(|one| one.task_id == *task_id)?;
        let subagent = subagents.remove(index);
        let has_ended = subagents.is_empty();
        self.end_response(&subagent.session_id, call);
        if has_ended {
            self.running.remove(call);
            // A background task may have begun in another session than its subagent's.
            self.streamed.retain(|_, streamed| streamed.call != *call);
        }
        Some(subagent)
    }

    /// Ends the response that a session streams for a call. A task that a subagent began has the
    /// subagent's session, whose own response continues.
    fn end_response(&mut self, session_id: &str, call: &str) {
        let streamed = self.streamed.get(session_id);
        if streamed.is_some_and(|streamed| *streamed.call == *call) {
            self.streamed.remove(session_id);
        }
    }

    /// Counts the characters of a piece of a response.
    fn count(&mut self, session_id: &str, call: &str, text: &str) {
        let length = text.chars().count();
        match self.streamed.get_mut(session_id) {
            Some(streamed) => streamed.length += length,
            None => {
                let call = call.into();
                let streamed = StreamedText { call, length };
                self.streamed.insert(session_id.into(), streamed);
            }
        }
    }

    fn text(&self, message: &SdkMessage, call: &str, text: &str, out: &mut Vec<StreamEvent>) {
        let data = json!({ "delta": text });
        out.push(self.event(StreamEvent::SUBAGENT_STREAM, message, call, data));
    }

    /// Returns an event of the subagent that a call started and that sent `message`.
    fn event(
        &self,
        kind: &'static str,
        message: &SdkMessage,
        call: &str,
        data: Value,
    ) -> StreamEvent {
        let event = StreamEvent::new(kind).with_run_id(call).with_data(data);
        let name = self.running.get(call).and_then(|subagents| {
            let mut newest_first = subagents.iter().rev();
            let sender = newest_first.find(|one| *one.session_id == *message.session_id());
            sender.or(subagents.last()).map(|one| one.name.clone())
        });
        StreamEvent { name, ..event }
    }
}
