//! The response that the events of a stream amount to.

use crate::error::{Error, ErrorKind, Result};
use crate::message::Part;

use super::event::ModelEvent;
use super::response::ModelResponse;

/// The initial capacity of a text that more pieces will join, in bytes.
const TEXT_ROOM: usize = 256;

/// Folds the events of one stream into a [`ModelResponse`].
///
/// ```
/// use agentcore::model::{ModelEvent, ResponseFold, StopReason};
///
/// let mut fold = ResponseFold::new();
/// fold.push(ModelEvent::Text("Hel".into()));
/// fold.push(ModelEvent::Text("lo".into()));
/// fold.push(ModelEvent::stop(StopReason::EndTurn));
/// assert_eq!(fold.finish()?.text(), "Hello");
/// # Ok::<(), agentcore::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct ResponseFold {
    response: ModelResponse,
    /// True if the last part is a text that the next piece joins.
    is_text_open: bool,
    is_stopped: bool,
}

impl ResponseFold {
    /// Creates a fold of no events.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the next event.
    pub fn push(&mut self, event: ModelEvent) {
        match event {
            ModelEvent::Text(text) => self.push_text(text),
            ModelEvent::ToolCall(call) => self.push_part(Part::ToolCall(call)),
            ModelEvent::Part(part) => self.push_part(part),
            ModelEvent::PartEnd => self.is_text_open = false,
            ModelEvent::Start(head) => {
                self.response.id = head.id;
                self.response.model = head.model;
                self.response.request_id = head.request_id;
                self.response.answered_by = head.answered_by;
            }
            ModelEvent::Usage(usage) => self.response.usage = usage,
            ModelEvent::Stop { reason, sequence } => {
                self.response.stop_reason = reason;
                self.response.stop_sequence = sequence;
                self.is_stopped = true;
            }
            ModelEvent::Restart => *self = Self::new(),
            ModelEvent::Thinking(_)
            | ModelEvent::ToolCallStart { .. }
            | ModelEvent::ToolCallDelta { .. }
            | ModelEvent::Warning(_) => {}
        }
    }

    /// Adds the next event like [`push`](Self::push), for a caller that still needs the event. A
    /// piece of text is copied once, into the response.
    pub(crate) fn push_ref(&mut self, event: &ModelEvent) {
        match event {
            ModelEvent::Text(text) if self.is_text_open => {
                if let Some(Part::Text(last)) = self.response.content.parts_mut().last_mut() {
                    last.push_str(text);
                }
            }
            ModelEvent::Thinking(_)
            | ModelEvent::ToolCallStart { .. }
            | ModelEvent::ToolCallDelta { .. }
            | ModelEvent::Warning(_) => {}
            ModelEvent::Text(text) => {
                let mut joined = String::with_capacity(TEXT_ROOM.max(text.len()));
                joined.push_str(text);
                self.push_text(joined);
            }
            event => self.push(event.clone()),
        }
    }

    /// Returns the response folded so far: the partial response of an interrupted stream.
    pub fn partial(&self) -> &ModelResponse {
        &self.response
    }

    pub(crate) fn partial_mut(&mut self) -> &mut ModelResponse {
        &mut self.response
    }

    pub(crate) fn into_partial(self) -> ModelResponse {
        self.response
    }

    /// Returns `true` once `Stop` was received.
    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Returns the whole response.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::StreamTruncated`] if `Stop` was not received.
    pub fn finish(self) -> Result<ModelResponse> {
        if self.is_stopped {
            return Ok(self.response);
        }
        Err(truncated_stream())
    }

    fn push_text(&mut self, text: String) {
        let parts = self.response.content.parts_mut();
        match parts.last_mut() {
            Some(Part::Text(last)) if self.is_text_open => last.push_str(&text),
            _ if text.is_empty() => {}
            _ => {
                parts.push(Part::Text(text));
                self.is_text_open = true;
            }
        }
    }

    fn push_part(&mut self, part: Part) {
        let parts = self.response.content.parts_mut();
        match part {
            // A whole text takes the place of its pieces.
            Part::Text(text) if self.is_text_open => {
                parts.pop();
                parts.extend((!text.is_empty()).then_some(Part::Text(text)));
            }
            part => parts.push(part),
        }
        self.is_text_open = false;
    }
}

/// Returns the error of a stream without its last event.
pub(crate) fn truncated_stream() -> Error {
    Error::new(
        ErrorKind::StreamTruncated,
        "the model's stream ended before its last event; the answer is incomplete",
    )
}
