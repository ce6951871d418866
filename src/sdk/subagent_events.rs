//! The events of subagents.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::json;

use super::message::SdkMessage;
use super::stream_event::StreamEvent;
use super::system::SystemKind;

/// The maximum number of subagents whose names and texts are tracked at the same time.
const MAX_RUNNING: usize = 1_000;

/// Turns the messages of subagents into events.
#[derive(Clone, Debug, Default)]
pub(super) struct SubagentEvents {
    /// The names of the subagents in progress, by the call that started them.
    names: BTreeMap<Arc<str>, Arc<str>>,
    /// The calls whose subagents have emitted text of the response in progress.
    streamed: BTreeSet<Arc<str>>,
}

impl SubagentEvents {
    pub(super) fn push(&mut self, message: &SdkMessage, out: &mut Vec<StreamEvent>) {
        match message {
            SdkMessage::System(event) => self.task(&event.kind, out),
            SdkMessage::Partial(_) => {
                let text = message.text_delta().filter(|text| !text.is_empty());
                if let (Some(call), Some(text)) = (message.parent_tool_use_id(), text) {
                    if self.streamed.len() < MAX_RUNNING {
                        self.streamed.insert(call.into());
                    }
                    self.text(call, text, out);
                }
            }
            SdkMessage::Assistant(event) => {
                let Some(call) = message.parent_tool_use_id() else {
                    return;
                };
                let text = event.text();
                if !self.streamed.remove(call) && !text.is_empty() {
                    self.text(call, &text, out);
                }
            }
            _ => {}
        }
    }

    fn task(&mut self, kind: &SystemKind, out: &mut Vec<StreamEvent>) {
        match kind {
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
                    event = event.with_run_id(call.clone());
                    if self.names.len() < MAX_RUNNING {
                        self.names.insert(call.clone(), name.clone());
                    }
                }
                out.push(event);
            }
            SystemKind::TaskNotification(end) => {
                let call = end.tool_use_id.as_ref();
                let Some((call, name)) = call.and_then(|call| self.names.remove_entry(call)) else {
                    return;
                };
                self.streamed.remove(&call);
                out.push(
                    StreamEvent::new(StreamEvent::SUBAGENT_END)
                        .with_name(name)
                        .with_run_id(call)
                        .with_data(json!({
                            "task_id": end.task_id, "status": end.status, "summary": end.summary
                        })),
                );
            }
            _ => {}
        }
    }

    fn text(&self, call: &str, text: &str, out: &mut Vec<StreamEvent>) {
        let mut event = StreamEvent::new(StreamEvent::SUBAGENT_STREAM)
            .with_run_id(call)
            .with_data(json!({ "delta": text }));
        event.name = self.names.get(call).cloned();
        out.push(event);
    }
}
