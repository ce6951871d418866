//! The events of one message, numbered.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Serialize;

use super::sse::SseEvent;

/// Collects the events of one message and gives them their ids.
pub(super) struct Out<'a> {
    /// The run and the number of the message; `None` for events that have no position.
    position: Option<(Arc<str>, u64)>,
    count: u32,
    events: &'a mut Vec<SseEvent>,
}

impl<'a> Out<'a> {
    pub(super) fn new(run_id: Arc<str>, seq: u64, events: &'a mut Vec<SseEvent>) -> Self {
        Self {
            position: Some((run_id, seq)),
            count: 0,
            events,
        }
    }

    pub(super) fn unnumbered(events: &'a mut Vec<SseEvent>) -> Self {
        Self {
            position: None,
            count: 0,
            events,
        }
    }

    /// Adds an event whose body is this value as JSON.
    pub(super) fn json(&mut self, body: &impl Serialize) {
        self.add(None, body, false);
    }

    /// Adds an event with a name.
    pub(super) fn named(&mut self, name: Cow<'static, str>, body: &impl Serialize) {
        self.add(Some(name), body, false);
    }

    /// Adds a bare line.
    pub(super) fn line(&mut self, body: &impl Serialize) {
        self.add(None, body, true);
    }

    /// Adds an event with a body that is no JSON.
    pub(super) fn text(&mut self, body: &str) {
        self.push(None, body.to_owned(), false);
    }

    fn add(&mut self, event: Option<Cow<'static, str>>, body: &impl Serialize, is_line: bool) {
        let data = serde_json::to_string(body).unwrap_or_else(|error| {
            tracing::error!(%error, "an event of a stream cannot be written as JSON");
            serde_json::json!({"error": format!("this event cannot be written as JSON: {error}")})
                .to_string()
        });
        self.push(event, data, is_line);
    }

    fn push(&mut self, event: Option<Cow<'static, str>>, data: String, is_line: bool) {
        let id = match &self.position {
            None => String::new(),
            Some((run, seq)) if self.count == 0 => format!("{run}:{seq}"),
            Some((run, seq)) => format!("{run}:{seq}.{}", self.count),
        };
        self.count += 1;
        self.events.push(SseEvent {
            id,
            event,
            data,
            is_line,
        });
    }
}
