//! One server-sent event.

use std::borrow::Cow;

/// The approximate number of bytes of an event without its id and its data.
const FRAME_LEN: usize = 64;

/// One event of a stream, as it is written.
///
/// ```
/// use agentcore::server::SseEvent;
///
/// let mut bytes = Vec::new();
/// let event = SseEvent::new("{\"type\":\"done\"}").with_id("run_1:7").with_event("done");
/// event.write(&mut bytes);
/// assert_eq!(bytes, b"id: run_1:7\nevent: done\ndata: {\"type\":\"done\"}\n\n");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SseEvent {
    /// The position: `RUN:SEQ`, or `RUN:SEQ.N` for the N-th further event of one message. Empty for
    /// an event that has no position.
    pub id: String,
    /// The name of the event.
    pub event: Option<Cow<'static, str>>,
    /// The body; each of its lines is a line of data.
    pub data: String,
    /// True if the event is a line without the framing of server-sent events.
    pub is_line: bool,
}

impl SseEvent {
    /// Creates an event with this body.
    pub fn new(data: impl Into<String>) -> Self {
        Self {
            data: data.into(),
            ..Self::default()
        }
    }

    /// Sets the position.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self
    }

    /// Sets the name.
    #[must_use]
    pub fn with_event(mut self, event: impl Into<Cow<'static, str>>) -> Self {
        self.event = Some(event.into());
        self
    }

    /// Appends the bytes of the event.
    pub fn write(&self, out: &mut Vec<u8>) {
        if self.is_line {
            out.extend_from_slice(self.data.as_bytes());
            out.push(b'\n');
            return;
        }

        if !self.id.is_empty() {
            field(out, "id", &one_line(&self.id));
        }
        if let Some(event) = &self.event {
            field(out, "event", &one_line(event));
        }
        let mut data = self.data.as_str();
        while let Some(end) = memchr::memchr2(b'\n', b'\r', data.as_bytes()) {
            field(out, "data", &data[..end]);
            // A lone carriage return ends a line, too.
            let len = if data[end..].starts_with("\r\n") {
                2
            } else {
                1
            };
            data = &data[end + len..];
        }
        field(out, "data", data);
        out.push(b'\n');
    }
}

/// Returns the bytes of events. Each event is dropped once it is written.
pub(crate) fn write_events(events: Vec<SseEvent>) -> Vec<u8> {
    let data_len = |event: &SseEvent| event.data.len() + event.id.len() + FRAME_LEN;
    let mut bytes = Vec::with_capacity(events.iter().map(data_len).sum());
    for event in events {
        event.write(&mut bytes);
    }
    bytes
}

/// Replaces line breaks, which would begin another field or end the event, by spaces.
fn one_line(text: &str) -> Cow<'_, str> {
    if text.contains(['\n', '\r']) {
        text.replace(['\n', '\r'], " ").into()
    } else {
        text.into()
    }
}

fn field(out: &mut Vec<u8>, name: &str, value: &str) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value.as_bytes());
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_breaks_in_an_id_or_a_name_begin_no_field() {
        let event = SseEvent::new("{}")
            .with_id("1\n\ndata: x")
            .with_event("a\r\nid: 2");
        let mut bytes = Vec::new();
        event.write(&mut bytes);
        assert_eq!(bytes, b"id: 1  data: x\nevent: a  id: 2\ndata: {}\n\n");
    }
}
