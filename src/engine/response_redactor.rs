//! The redaction of secrets in responses.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures::{Stream, StreamExt};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::error::{Error, ErrorKind, Result};
use crate::message::{Annotations, Media, MediaSource, Part, ProviderBlock, ToolCall};
use crate::model::{ModelEvent, ModelStream, OpenCalls, ResponseHead, StopReason};
use crate::util::secret::{ExactSearch, Pieces, redacted};

use super::argument_redactor::ArgumentRedactor;

/// The fields in which servers send unsigned reasoning.
const UNSIGNED: &[&str] = &["reasoning_content", "reasoning", "thinking"];

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
            search,
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
    search: ExactSearch,
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
                    let piece = this.text.push(&this.search, piece);
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
            ModelEvent::Text(piece) => ModelEvent::Text(self.text.push(&self.search, piece)),
            ModelEvent::Thinking(piece) => {
                let piece = self.thinking.push(&self.search, piece);
                if piece.is_empty() {
                    return Ok(());
                }

                ModelEvent::Thinking(piece)
            }
            ModelEvent::ToolCallStart { index, id, name } => {
                let (id, name) = (self.redact_text(id), self.redact_text(name));
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
                let call = self.redact_call(call)?;
                // First the arguments: a text ends their block, and later pieces would be dropped.
                self.finish_call(&call.id);
                self.end_text();
                ModelEvent::ToolCall(call)
            }
            ModelEvent::Part(part) => {
                let part = self.redact_part(part)?;
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
            ModelEvent::Start(head) => ModelEvent::Start(self.redact_head(head)),
            ModelEvent::Stop { reason, sequence } => {
                self.finish(reason.as_ref());
                ModelEvent::Stop {
                    reason: reason.map(|reason| match reason {
                        StopReason::Other(label) => StopReason::Other(self.redact_text(label)),
                        reason => reason,
                    }),
                    sequence: sequence.map(|sequence| self.redact_text(sequence)),
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
        let shown_json = call.map_or_else(String::new, |call| call.push(&self.search, json));
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
            let json = call.finish(&self.search);
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

    fn redact_text(&self, text: Arc<str>) -> Arc<str> {
        self.search.try_redact(&text).map_or(text, Arc::from)
    }

    /// Returns the head without secrets. Its ids are the server's own, which may spell a key
    /// differently, so they are not redacted by exact match.
    fn redact_head(&self, mut head: Box<ResponseHead>) -> Box<ResponseHead> {
        let ids = [Some(&mut head.id), Some(&mut head.model)];
        for id in ids.into_iter().chain([head.request_id.as_mut()]).flatten() {
            if let std::borrow::Cow::Owned(new_id) = redacted(id) {
                *id = new_id.into();
            }
        }
        head
    }

    /// Returns a call without secrets. If the values of its arguments contained one, the raw
    /// arguments are serialized again.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::SecretInAnswer`] if a secret is in the fields that its provider
    /// requires back.
    fn redact_call(&self, mut call: ToolCall) -> Result<ToolCall> {
        // The search for secrets is recursive.
        call.limit_depth();
        let ToolCall {
            id,
            name,
            mut args,
            raw_args,
            extra,
        } = call;
        if extra.as_ref().is_some_and(|fields| self.has_secret(fields)) {
            return Err(secret_in_signed_block());
        }

        let is_in_args = self.search.is_in_value(&args);
        if is_in_args {
            self.search.redact(Arc::make_mut(&mut args));
        }

        let raw_args = raw_args.map(|raw| {
            if is_in_args {
                args.to_string().into()
            } else if self.search.is_in_json(&raw) {
                self.search.redacted_json(&raw).into()
            } else {
                raw
            }
        });

        Ok(ToolCall {
            id: self.redact_text(id),
            name: self.redact_text(name),
            args,
            raw_args,
            extra,
        })
    }

    fn has_secret(&self, block: &ProviderBlock) -> bool {
        self.search.is_in_json(block.raw.get())
    }

    /// Returns a part without secrets.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::SecretInAnswer`] if a secret is in a block that must stay as it is.
    fn redact_part(&self, part: Part) -> Result<Part> {
        Ok(match part {
            Part::Text(text) => Part::Text(self.search.try_redact(&text).unwrap_or(text)),
            Part::ToolCall(call) => Part::ToolCall(self.redact_call(call)?),
            Part::Image(media) => Part::Image(self.redact_media(media)),
            Part::Document(media) => Part::Document(self.redact_media(media)),
            Part::Audio(media) => Part::Audio(self.redact_media(media)),
            Part::Annotations(annotations) => {
                Part::Annotations(self.redact_annotations(annotations)?)
            }
            Part::Thinking(block) if !self.has_secret(&block) => Part::Thinking(block),
            Part::Thinking(block) => Part::Thinking(self.redact_unsigned(block)?),
            Part::Opaque(block) if !self.has_secret(&block) => Part::Opaque(block),
            Part::Opaque(_) => return Err(secret_in_signed_block()),
        })
    }

    fn redact_media(&self, mut media: Media) -> Media {
        match &mut media.source {
            MediaSource::Url(place) | MediaSource::File { id: place, .. } => {
                *place = self.redact_text(place.clone());
            }
            MediaSource::Base64(_) => {}
        }

        media.name = media.name.map(|name| self.redact_text(name));
        media
    }

    /// Returns annotations without secrets.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::SecretInAnswer`] if a secret is in the fields that the provider
    /// requires back.
    fn redact_annotations(&self, mut annotations: Annotations) -> Result<Annotations> {
        if annotations
            .block
            .as_ref()
            .is_some_and(|block| self.has_secret(block))
        {
            return Err(secret_in_signed_block());
        }

        for citation in &mut annotations.citations {
            let texts = [
                &mut citation.url,
                &mut citation.title,
                &mut citation.cited_text,
            ];
            for text in texts {
                *text = self.redact_text(text.clone());
            }
        }

        Ok(annotations)
    }

    /// Returns reasoning without secrets.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::SecretInAnswer`] if the block has other fields than unsigned text.
    fn redact_unsigned(&self, mut block: ProviderBlock) -> Result<ProviderBlock> {
        let mut value: Value = serde_json::from_str(block.raw.get())?;
        let is_text = value.as_object().is_some_and(|fields| {
            let mut fields = fields.iter();
            fields.all(|(name, value)| UNSIGNED.contains(&&**name) && value.is_string())
        });
        if !is_text {
            return Err(secret_in_signed_block());
        }
        self.search.redact(&mut value);
        block.raw = RawValue::from_string(value.to_string())?.into();
        Ok(block)
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

fn secret_in_signed_block() -> Error {
    let text = "the model repeated a secret of this process in a block that its provider takes back \
                only unchanged, such as signed thinking; the answer is not kept: keep the secret \
                out of what the model reads";
    Error::new(ErrorKind::SecretInAnswer, text)
}
