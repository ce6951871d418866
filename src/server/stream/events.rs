//! The format `events`: one `StreamEvent` each.

use serde_json::json;

use crate::sdk::{SdkMessage, StreamEvent, StreamEvents};

use super::out::Out;
use super::state::StreamState;

/// The encoder of the format.
#[derive(Clone, Debug, Default)]
pub(super) struct Events(StreamEvents);

impl Events {
    pub(super) fn push(&mut self, message: &SdkMessage, out: &mut Out<'_>) {
        for event in self.0.push(message) {
            emit(&event, out);
        }
    }

    pub(super) fn skip(&mut self, message: &SdkMessage) {
        self.0.push(message);
    }

    pub(super) fn snapshot(state: &StreamState, out: &mut Out<'_>) {
        let event = StreamEvent::new("state").with_data(state.snapshot());
        emit(&event, out);
    }

    pub(super) fn lagged(text: &str, out: &mut Out<'_>) {
        let event = StreamEvent::new("lagged").with_data(json!({ "error": text }));
        emit(&event, out);
    }

    pub(super) fn fail(text: &str, out: &mut Out<'_>) {
        let event = StreamEvent::new(StreamEvent::ERROR).with_data(json!({ "error": text }));
        emit(&event, out);
    }
}

fn emit(event: &StreamEvent, out: &mut Out<'_>) {
    out.named(event.event.clone(), event);
}
