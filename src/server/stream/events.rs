//! The format `events`: one `StreamEvent` each.

use std::sync::Arc;

use serde_json::json;

use crate::sdk::{SdkMessage, StreamEvent, StreamEvents};

use super::out::Out;
use super::state::StreamState;

/// The encoder of the format.
#[derive(Clone, Debug)]
pub(super) struct Events {
    converter: StreamEvents,
    /// True once an event was emitted: the first one has the id of the thread.
    is_begun: bool,
}

impl Events {
    pub(super) fn new(run_id: Arc<str>) -> Self {
        Self {
            converter: StreamEvents::new().with_trace_id(run_id).with_subagents(),
            is_begun: false,
        }
    }

    pub(super) fn push(&mut self, message: &SdkMessage, out: &mut Out<'_>) {
        for event in self.convert(message) {
            emit(&event, out);
        }
    }

    pub(super) fn skip(&mut self, message: &SdkMessage) {
        self.convert(message);
    }

    fn convert(&mut self, message: &SdkMessage) -> Vec<StreamEvent> {
        let mut events = self.converter.push(message);
        if let Some(first) = events.first_mut()
            && !std::mem::replace(&mut self.is_begun, true)
        {
            first.thread_id = Some(message.envelope().session_id.clone());
        }
        if let SdkMessage::Result(result) = message
            && let Some(reason) = &result.terminal_reason
        {
            add_reason(&mut events, reason);
        }
        events
    }

    pub(super) fn snapshot(state: &StreamState, out: &mut Out<'_>) {
        let event = StreamEvent::new("state").with_data(state.snapshot());
        emit(&event, out);
    }

    pub(super) fn lagged(text: &str, out: &mut Out<'_>) {
        let event = StreamEvent::new("lagged").with_data(json!({ "error": text }));
        emit(&event, out);
    }

    pub(super) fn fail(text: &str, code: &str, out: &mut Out<'_>) {
        let data = json!({ "error": text, "reason": code });
        emit(&StreamEvent::new(StreamEvent::ERROR).with_data(data), out);
    }
}

/// Adds the reason of the end to an error, by which a program distinguishes a stop from a failure.
fn add_reason(events: &mut [StreamEvent], reason: &str) {
    let errors = events
        .iter_mut()
        .filter(|event| event.event == StreamEvent::ERROR);
    for data in errors.filter_map(|event| event.data.as_mut()) {
        data["reason"] = reason.into();
    }
}

fn emit(event: &StreamEvent, out: &mut Out<'_>) {
    out.named(event.event.clone(), event);
}
