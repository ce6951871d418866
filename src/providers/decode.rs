//! Decoding a stream of bytes into a stream of events.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt};
use serde_json::value::RawValue;
use tokio::time::Sleep;

use crate::error::{Error, ErrorKind, Result};
use crate::model::{ModelEvent, ModelRequest, ModelStream, ResponseLimits};
use crate::util::byte_pool::{BytePool, PoolShare};

use super::decoder::{
    Decoder, decode_frame, decode_last_frame, truncated, unreadable, with_advice,
};
use super::drain::Drain;
use super::events::Events;
use super::frames::{Frames, IgnoredBytes, OPENING, check_document, is_event_stream, max_document};
use super::http::{ByteStream, Secrets};
use super::lines::LineDecoder;
use super::sse::SseDecoder;
use super::yields::Yields;

/// The time without a frame after which a [complete](Decoder::is_complete) answer ends. Comments
/// do not prolong it.
const SILENCE: Duration = Duration::from_secs(2);

/// The number of times that the task yields for the next chunk of a complete answer before it sets
/// a timer for [`SILENCE`].
const SILENCE_YIELDS: u32 = 2;

/// The maximum number of chunks that one poll reads without emitting an event.
const QUIET_CHUNKS: usize = 4096;

/// The maximum number of bytes of these chunks.
const QUIET_BYTES: usize = 1024 * 1024;

/// The framing of a byte stream.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Framing {
    /// Server-sent events. A body that begins with `{` is one JSON document instead.
    Sse,
    /// One JSON value on each line.
    Lines,
}

/// The form of the events of an answer, and their limits.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventOptions {
    /// True if adjacent pieces of text that arrived together may become one event, and a call
    /// that arrives whole needs no pieces.
    pub(crate) join: bool,
    pub(crate) limits: ResponseLimits,
    /// The memory for unfinished frames, which the answers of a run and its children share.
    buffers: Option<BytePool>,
}

impl EventOptions {
    #[cfg(test)]
    pub(super) fn new(join: bool, limits: ResponseLimits, buffers: Option<BytePool>) -> Self {
        Self {
            join,
            limits,
            buffers,
        }
    }

    pub(crate) fn of(request: &ModelRequest) -> Self {
        Self {
            join: !request.has_event_observers(),
            limits: request.response_limits(),
            buffers: request.event_buffers().cloned(),
        }
    }
}

/// The options of decoding an answer, except those of its decoder.
pub(crate) struct DecodeOptions {
    /// The provider's name, which begins error texts.
    pub(crate) provider: Arc<str>,
    pub(crate) framing: Framing,
    pub(crate) event_options: EventOptions,
    /// The texts that must not appear in errors.
    pub(crate) secrets: Secrets,
}

/// Decodes a recorded answer, which has no secrets.
pub(crate) fn recorded<D: Decoder>(
    provider: &str,
    framing: Framing,
    body: impl Stream<Item = Result<Bytes>> + Send + 'static,
    decoder: impl FnOnce(Secrets) -> D,
) -> ModelStream {
    let options = DecodeOptions {
        provider: provider.into(),
        framing,
        event_options: EventOptions::default(),
        secrets: Secrets::default(),
    };
    let decoder = decoder(options.secrets.clone());
    decode(body.boxed(), decoder, options)
}

/// Decodes `body` into events.
pub(crate) fn decode<D: Decoder>(
    body: ByteStream,
    decoder: D,
    options: DecodeOptions,
) -> ModelStream {
    Box::pin(Decoding::new(body, decoder, options))
}

/// The events of one answer.
pub(crate) struct Decoding<D> {
    provider: Arc<str>,
    /// Absent once everything has been read.
    body: Option<ByteStream>,
    frames: Frames,
    /// True if the current chunk may have another whole frame.
    has_unread_frames: bool,
    /// The maximum size of an answer that is one document, in bytes.
    max_document: usize,
    ignored_bytes: IgnoredBytes,
    decoder: D,
    events: Events,
    /// The beginning of an event stream, until its first frame has arrived.
    opening: Vec<u8>,
    /// The error that ended the stream, reported after the events before it.
    failure: Option<Error>,
    drain: Drain,
    yields: Yields,
    /// The number of yields since the last frame of a complete answer.
    silence_yields: u32,
    /// The timer of [`SILENCE`], which begins after [`SILENCE_YIELDS`] yields.
    silence: Option<Pin<Box<Sleep>>>,
    secrets: Secrets,
    /// The part of [`EventOptions::buffers`] that the unfinished frame takes.
    share: Option<PoolShare>,
}

impl<D: Decoder> Stream for Decoding<D> {
    type Item = Result<ModelEvent>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        let mut quiet = Quiet::default();
        loop {
            let is_done = this.decoder.is_done();

            // `Stop`, the last event, waits for the end of the body: a reader that has received it
            // may drop the stream, and with it the connection.
            let waits_for_end = is_done && this.events.len() == 1 && this.body.is_some();
            if !waits_for_end {
                if let Some(event) = this.events.pop() {
                    return Poll::Ready(Some(Ok(event)));
                }

                if let Some(error) = this.failure.take() {
                    return Poll::Ready(Some(Err(with_advice(error).context(&this.provider))));
                }
            }

            if this.body.is_none() {
                return Poll::Ready(None);
            }

            if is_done {
                ready!(this.poll_drain(cx));
                continue;
            }

            ready!(this.poll_step(cx, &mut quiet));
        }
    }
}

/// The chunks, and their bytes, that one poll has read without emitting an event.
#[derive(Default)]
struct Quiet {
    chunks: usize,
    bytes: usize,
}

impl<D: Decoder> Decoding<D> {
    pub(crate) fn new(body: ByteStream, decoder: D, options: DecodeOptions) -> Self {
        let DecodeOptions {
            provider,
            framing,
            event_options,
            secrets,
        } = options;
        Self {
            provider,
            body: Some(body),
            frames: match framing {
                Framing::Sse => Frames::Unknown(Vec::new()),
                Framing::Lines => Frames::Lines(LineDecoder::default()),
            },
            has_unread_frames: false,
            max_document: max_document(event_options.limits),
            ignored_bytes: IgnoredBytes::new(event_options.limits),
            decoder,
            events: Events::new(event_options.join, event_options.limits),
            opening: Vec::new(),
            failure: None,
            drain: Drain::default(),
            yields: Yields::default(),
            silence_yields: 0,
            silence: None,
            secrets,
            share: event_options.buffers.map(|buffers| buffers.share()),
        }
    }

    /// Reads until there is an event or an error. Takes the error if it comes before any event and
    /// the server refuses the request with it; any other error stays in the stream.
    pub(crate) async fn early_refusal(&mut self) -> Option<Error> {
        poll_fn(|cx| self.poll_first_event(cx)).await;
        let has_no_event = self.events.len() == 0;
        let is_refusal = |error: &mut Error| error.kind() == ErrorKind::InvalidRequest;
        self.failure
            .take_if(|error| has_no_event && is_refusal(error))
    }

    /// Ends the answer with this error.
    pub(crate) fn fail(&mut self, error: Error) {
        self.body = None;
        self.failure = Some(error);
    }

    fn poll_first_event(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut quiet = Quiet::default();
        let is_quiet = |this: &Self| this.events.len() == 0 && this.failure.is_none();
        while is_quiet(self) && self.body.is_some() && !self.decoder.is_done() {
            ready!(self.poll_step(cx, &mut quiet));
        }
        Poll::Ready(())
    }

    /// Decodes what has been read, or reads and decodes the next chunk.
    fn poll_step(&mut self, cx: &mut Context<'_>, quiet: &mut Quiet) -> Poll<()> {
        if self.body.is_none() {
            return Poll::Ready(());
        }

        if quiet.chunks >= QUIET_CHUNKS || quiet.bytes >= QUIET_BYTES {
            // Only comments and the like so far, all of them ready.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }

        let step = if self.has_unread_frames {
            self.decode_frames()
        } else {
            ready!(self.poll_chunk(cx, quiet))
        };

        if let Err(error) = step.and_then(|()| self.check_bytes()) {
            self.fail(error);
            // The events that were held back precede the error.
            self.events.release(None);
        }
        Poll::Ready(())
    }

    /// Reads and decodes the next chunk, or the end of the body.
    fn poll_chunk(&mut self, cx: &mut Context<'_>, quiet: &mut Quiet) -> Poll<Result<()>> {
        let Some(body) = self.body.as_mut() else {
            return Poll::Ready(Ok(()));
        };
        self.yields.end();
        let next = match body.as_mut().poll_next(cx) {
            Poll::Ready(next) => next,
            Poll::Pending => {
                ready!(self.poll_silence(cx));
                None
            }
        };
        Poll::Ready(match next {
            Some(Ok(chunk)) => {
                quiet.chunks += 1;
                quiet.bytes += chunk.len();
                self.ignored_bytes.add(chunk.len());
                self.feed(chunk)
            }
            Some(Err(error)) if !self.decoder.is_complete() => Err(error),
            Some(Err(_)) | None => {
                self.body = None;
                self.decode_end()
            }
        })
    }

    /// Waits for the end of the body, then drops it.
    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(body) = &mut self.body {
            ready!(self.drain.poll(body, &mut self.yields, cx));
            self.body = None;
        }

        Poll::Ready(())
    }

    /// Waits for the end of a complete answer whose connection stays open.
    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.decoder.is_complete() {
            return Poll::Pending;
        }

        // The end of the stream has usually arrived with the last event.
        if self.silence.is_none() && self.silence_yields < SILENCE_YIELDS {
            self.silence_yields += 1;
            return self.yields.poll(cx);
        }

        let timer = self
            .silence
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(SILENCE)));
        timer.as_mut().poll(cx)
    }

    /// Returns `true` if the timer of [`SILENCE`] is set.
    #[cfg(test)]
    pub(super) fn has_timer(&self) -> bool {
        self.silence.is_some()
    }

    /// Checks the number of ignored bytes, and the memory of an unfinished frame. Both are known
    /// once all frames of a chunk are decoded.
    fn check_bytes(&mut self) -> Result<()> {
        if self.has_unread_frames {
            return Ok(());
        }
        self.ignored_bytes.check()?;
        self.count_unfinished()
    }

    /// Counts the memory of an unfinished frame.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::ResponseTooLarge`] if the bytes of all answers that share the memory do
    /// not fit.
    fn count_unfinished(&mut self) -> Result<()> {
        let Some(share) = &mut self.share else {
            return Ok(());
        };

        share.set(self.frames.unfinished_len());
        let pool = share.pool();
        if pool.room() > 0 {
            return Ok(());
        }

        Err(Error::new(
            ErrorKind::ResponseTooLarge,
            format!(
                "this answer and those that other runs within the same run receive have more than \
                 {} bytes together in events that have not arrived whole; run fewer at once",
                pool.max_bytes()
            ),
        ))
    }

    /// Adds a chunk to the frames. The first byte that is no whitespace determines their format.
    fn feed(&mut self, chunk: Bytes) -> Result<()> {
        match &mut self.frames {
            Frames::Unknown(held) => {
                // Only whitespace is held.
                let Some(first) = chunk.iter().find(|b| !b.is_ascii_whitespace()) else {
                    check_document(held.len() + chunk.len(), self.max_document)?;
                    held.extend_from_slice(&chunk);
                    return Ok(());
                };

                if *first == b'{' {
                    self.frames = Frames::Document(Vec::new());
                    return self.feed(chunk);
                }

                self.opening
                    .extend_from_slice(&chunk[..chunk.len().min(OPENING)]);
                let mut sse = SseDecoder::new();
                sse.feed(std::mem::take(held));
                self.frames = Frames::Sse(sse);

                // The decoder consumes the whitespace, which has no events, before the next chunk.
                self.decode_frames()?;
                self.feed(chunk)
            }
            Frames::Sse(sse) => {
                sse.feed(chunk);
                self.has_unread_frames = true;
                Ok(())
            }
            Frames::Lines(lines) => {
                lines.feed(chunk);
                self.has_unread_frames = true;
                Ok(())
            }
            Frames::Document(document) => {
                check_document(document.len() + chunk.len(), self.max_document)?;
                document.extend_from_slice(&chunk);
                Ok(())
            }
        }
    }

    /// Decodes whole frames of the current chunk: all of them if events may be joined, and
    /// otherwise until there is an event, so that events do not accumulate.
    fn decode_frames(&mut self) -> Result<()> {
        let (decoder, events) = (&mut self.decoder, &mut self.events);
        while !decoder.is_done() && (events.joins() || events.len() == 0) {
            let next_frame = match &mut self.frames {
                Frames::Sse(sse) => {
                    let event = sse.next_event()?;
                    if event.is_some() {
                        self.opening = Vec::new();
                    }
                    event.map(|event| (event.name, event.data))
                }
                Frames::Lines(lines) => lines.next_line()?.map(|line| ("", line)),
                Frames::Unknown(_) | Frames::Document(_) => None,
            };
            let Some((name, data)) = next_frame else {
                self.has_unread_frames = false;
                break;
            };

            self.silence = None;
            self.silence_yields = 0;
            let len = name.len() + data.len();
            decode_frame(decoder, name, data, events)?;
            if events.take_new_content() {
                self.ignored_bytes.remove_frame(len);
            }

            if self.frames.is_drained() {
                self.has_unread_frames = false;
                break;
            }
        }

        Ok(())
    }

    /// Decodes the end of the body.
    fn decode_end(&mut self) -> Result<()> {
        let (decoder, events) = (&mut self.decoder, &mut self.events);
        // A last frame with an error, such as one that was cut inside a character, is omitted.
        match &mut self.frames {
            Frames::Sse(sse) => {
                if let Ok(Some(event)) = sse.finish() {
                    decode_last_frame(decoder, event.name, event.data, events)?;
                }
            }
            Frames::Lines(lines) => {
                if let Ok(Some(line)) = lines.finish() {
                    decode_last_frame(decoder, "", line, events)?;
                }
            }
            Frames::Unknown(_) => {}
            Frames::Document(document) => {
                let text = std::str::from_utf8(document).map_err(|_| truncated())?;
                events.check_frame(text)?;
                serde_json::from_str::<&RawValue>(text).map_err(|_| truncated())?;
                return decoder.document(text, events);
            }
        }

        if decoder.is_done() {
            return Ok(());
        }

        if !is_event_stream(&self.opening) {
            let opening = String::from_utf8_lossy(&self.opening);
            return Err(unreadable(
                "the answer is not an event stream",
                &opening,
                &self.secrets,
            ));
        }

        decoder.finish(events)
    }
}
