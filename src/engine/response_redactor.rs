//! The redaction of secrets in responses.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures::{Stream, StreamExt};

use crate::error::{Error, ErrorKind, Result};
use crate::model::{ModelEvent, ModelStream, OpenCalls, StopReason};
use crate::util::secret::{ExactSearch, Pieces};

use super::argument_redactor::ArgumentRedactor;
use super::part_redactor::PartRedactor;

/// The maximum number of pieces in a row of which nothing is shown before other tasks run. A model
/// that is always ready must not keep the run from ending.
const MAX_HELD_PIECES: usize = 64;

/// The maximum number of bytes of arguments that are held back at the same time, for a response
/// without a smaller limit. They count toward that limit only when they are passed on.
const MAX_HELD_BYTES: usize = 64 * 1024 * 1024;

/// Returns the events of one response without the secrets of this process, by exact match. Returns
/// the stream itself if there are none. `max_bytes` is the limit on the bytes of the response.
pub(crate) fn redact_stream(events: ModelStream, max_bytes: usize) -> ModelStream {
    match ExactSearch::of_now() {
        Some(search) => Box::pin(ResponseRedactor {
            events,
            parts: PartRedactor { search },
            text: Pieces::default(),
            thinking: Pieces::default(),
            calls: OpenCalls::default(),
            held_bytes: 0,
            max_held_bytes: max_bytes.min(MAX_HELD_BYTES),
            ready: VecDeque::new(),
            is_over: false,
        }),
        None => events,
    }
}

/// The stream of one response. A text that may be the beginning of a secret is held back until its
/// next piece, or the end of its part, has arrived.
struct ResponseRedactor {
    events: ModelStream,
    parts: PartRedactor,
    text: Pieces,
    thinking: Pieces,
    /// The arguments that are streaming, by the model's number of their call.
    calls: OpenCalls<ArgumentRedactor>,
    /// The approximate number of bytes of arguments that `calls` hold back.
    held_bytes: usize,
    max_held_bytes: usize,
    ready: VecDeque<Result<ModelEvent>>,
    is_over: bool,
}

impl Stream for ResponseRedactor {
    type Item = Result<ModelEvent>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        for _ in 0..MAX_HELD_PIECES {
            if let Some(event) = this.ready.pop_front() {
                return Poll::Ready(Some(event));
            }

            if this.is_over {
                return Poll::Ready(None);
            }

            match ready!(this.events.poll_next_unpin(cx)) {
                // The most common event; it usually passes unchanged.
                Some(Ok(ModelEvent::Text(piece))) => {
                    // An empty text counts as a block, so it is passed on.
                    let was_empty = piece.is_empty();
                    let piece = this.text.push(&this.parts.search, piece);
                    if was_empty || !piece.is_empty() {
                        return Poll::Ready(Some(Ok(ModelEvent::Text(piece))));
                    }
                }
                Some(Ok(event)) => {
                    if let Err(error) = this.handle(event) {
                        this.is_over = true;
                        return Poll::Ready(Some(Err(error)));
                    }
                }
                Some(Err(error)) => {
                    this.cut_off();
                    this.ready.push_back(Err(error));
                }
                None => {
                    this.is_over = true;
                    this.cut_off();
                }
            }
        }

        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl ResponseRedactor {
    /// Queues an event without secrets. A call or a part is queued after the texts that it ends.
    ///
    /// The text stays open at the start of a call, and the thinking at a text: the pieces before
    /// and after are joined in the response, or by readers, so a secret may continue there. At the
    /// end of a text, its beginning of a secret is passed on, and only the continuation is
    /// replaced.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::SecretInAnswer`] if a secret is in a block that must stay as it is.
    fn handle(&mut self, event: ModelEvent) -> Result<()> {
        let event = match event {
            // Does not occur: `poll_next` handles texts.
            ModelEvent::Text(piece) => ModelEvent::Text(self.text.push(&self.parts.search, piece)),
            ModelEvent::Thinking(piece) => {
                let piece = self.thinking.push(&self.parts.search, piece);
                if piece.is_empty() {
                    return Ok(());
                }

                ModelEvent::Thinking(piece)
            }
            ModelEvent::ToolCallStart { index, id, name } => {
                let (id, name) = (self.parts.redact_text(id), self.parts.redact_text(name));
                self.calls.insert(index, id.clone(), Default::default());
                ModelEvent::ToolCallStart { index, id, name }
            }
            ModelEvent::ToolCallDelta { index, json } => {
                let json = self.redact_delta(index, json)?;
                if json.is_empty() {
                    return Ok(());
                }

                ModelEvent::ToolCallDelta { index, json }
            }
            ModelEvent::ToolCall(call) => {
                let call = self.parts.redact_call(call)?;
                // First the arguments: a text ends their block, and later pieces would be dropped.
                self.finish_call(&call.id);
                self.end_text();
                ModelEvent::ToolCall(call)
            }
            ModelEvent::Part(part) => {
                let part = self.parts.redact_part(part)?;
                self.end_text();
                self.end_thinking();
                ModelEvent::Part(part)
            }
            ModelEvent::PartEnd => {
                self.end_text();
                ModelEvent::PartEnd
            }
            ModelEvent::Restart => {
                self.text = Pieces::default();
                self.thinking = Pieces::default();
                self.drop_calls();
                ModelEvent::Restart
            }
            ModelEvent::Start(head) => ModelEvent::Start(self.parts.redact_head(head)),
            ModelEvent::Stop { reason, sequence } => {
                self.finish(reason.as_ref());
                ModelEvent::Stop {
                    reason: reason.map(|reason| self.parts.redact_reason(reason)),
                    sequence: sequence.map(|sequence| self.parts.redact_text(sequence)),
                }
            }
            // A warning is redacted when it is emitted.
            event @ (ModelEvent::Usage(_) | ModelEvent::Warning(_)) => event,
        };

        self.ready.push_back(Ok(event));
        Ok(())
    }

    /// Flushes the open text, thinking and calls. A truncated response may end within a secret.
    fn finish(&mut self, reason: Option<&StopReason>) {
        if matches!(
            reason,
            Some(StopReason::MaxTokens | StopReason::ContextWindow)
        ) {
            return self.cut_off();
        }
        self.end_text();
        self.end_thinking();
        for index in Vec::from_iter(self.calls.iter().map(|(index, _)| index)) {
            self.end_call(index);
        }
    }

    /// Returns what may be shown of a piece of a call's arguments. A piece of a call that has not
    /// begun is dropped, but counts as held back.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::ResponseTooLarge`] if too much is held back.
    fn redact_delta(&mut self, index: u32, json: String) -> Result<String> {
        self.held_bytes = self.held_bytes.saturating_add(json.len());
        let call = self.calls.get_mut(index);
        let shown_json = call.map_or_else(String::new, |call| call.push(&self.parts.search, json));
        self.held_bytes = self.held_bytes.saturating_sub(shown_json.len());
        if self.held_bytes > self.max_held_bytes {
            return Err(held_arguments_limit_error(self.max_held_bytes));
        }
        Ok(shown_json)
    }

    fn end_text(&mut self) {
        let piece = self.text.end_part();
        self.queue(piece, ModelEvent::Text);
    }

    fn end_thinking(&mut self) {
        let piece = self.thinking.end_part();
        self.queue(piece, ModelEvent::Thinking);
    }

    fn finish_call(&mut self, id: &Arc<str>) {
        if let Some(index) = self.calls.find(id) {
            self.end_call(index);
        }
    }

    fn end_call(&mut self, index: u32) {
        if let Some(call) = self.calls.remove(index) {
            let json = call.finish(&self.parts.search);
            self.held_bytes = self.held_bytes.saturating_sub(json.len());
            self.queue(json, |json| ModelEvent::ToolCallDelta { index, json });
        }
    }

    /// Queues what may be shown of the open text and thinking of an interrupted stream, and drops
    /// its open calls.
    fn cut_off(&mut self) {
        let text = self.text.cut_off().to_owned();
        self.queue(text, ModelEvent::Text);
        let thinking = self.thinking.cut_off().to_owned();
        self.queue(thinking, ModelEvent::Thinking);
        self.drop_calls();
    }

    fn drop_calls(&mut self) {
        self.calls.clear();
        self.held_bytes = 0;
    }

    /// Queues the event of a piece, unless the piece is empty.
    fn queue(&mut self, piece: String, event: impl FnOnce(String) -> ModelEvent) {
        if !piece.is_empty() {
            self.ready.push_back(Ok(event(piece)));
        }
    }
}

/// The error of arguments that grow without an end while they are held back.
fn held_arguments_limit_error(max_bytes: usize) -> Error {
    Error::new(
        ErrorKind::ResponseTooLarge,
        format!(
            "the arguments of calls that are held back until they are complete have more than \
             {max_bytes} bytes; ask again, ask another model, or raise `max_bytes` of the response \
             limits, up to {MAX_HELD_BYTES}"
        ),
    )
}
