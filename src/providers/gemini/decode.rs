//! The decoder of the Gemini API: from the chunks of a stream to events.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use futures::Stream;
use serde::de::IgnoredAny;

use crate::error::{Error, ErrorKind, Result};
use crate::model::{ModelEvent, ModelStream, ResponseHead, StopReason};
use crate::usage::Usage;

use super::super::decode::{Framing, recorded};
use super::super::decoder::{Decoder, truncated, unreadable};
use super::super::encode::EncodedCalls;
use super::super::events::Events;
use super::super::http::Secrets;
use super::super::lenient::{List, is_empty_value};
use super::super::repeated::{Repeated, string};
use super::super::status;
use super::chunks::{PROVIDER, WireCandidate, WireChunk};
use super::parts::AnswerParts;
use super::raw_parts::RawParts;
use super::usage;

/// Decodes one answer.
///
/// It is complete when a chunk had a finish reason and the body has ended, or is silent; nothing
/// else marks the end. Only the first candidate is read.
pub(super) struct ChunkDecoder {
    request_id: Option<Arc<str>>,
    secrets: Secrets,
    parts: AnswerParts,
    has_started: bool,
    usage: Usage,
    /// The number of searches so far, which is not part of the usage on the wire.
    search_count: u64,
    /// The reason of the end, once it has arrived.
    stop_reason: Option<StopReason>,
    is_done: bool,
    /// The text around the answer's text and the usage in the last chunk that has both. A chunk
    /// that differs only in these values is not parsed again.
    repeated: Repeated<2>,
}

impl ChunkDecoder {
    /// Creates a decoder whose blocks are tagged `tag`. The ids of `encoded_calls` are not used
    /// again.
    pub(super) fn new(
        tag: Arc<str>,
        request_id: Option<Arc<str>>,
        encoded_calls: EncodedCalls,
        secrets: Secrets,
    ) -> Self {
        Self {
            request_id,
            secrets,
            parts: AnswerParts::new(tag, encoded_calls),
            has_started: false,
            usage: Usage::default(),
            search_count: 0,
            stop_reason: None,
            is_done: false,
            repeated: Repeated::default(),
        }
    }

    /// Stores the text of `data` around the text and the usage of its only chunk, for
    /// [`read_repeated`](Self::read_repeated).
    fn learn(&mut self, chunk: &WireChunk<'_>, data: &str) {
        // Only a frame that can be learned from is read again.
        if chunk.usage_metadata.0.is_some()
            && let Some(text) = plain_text(chunk)
            && let Some(usage) = usage::text_in(data)
        {
            self.repeated.learn_values(data, [text, usage]);
        }
    }

    fn read_chunk(
        &mut self,
        chunk: WireChunk<'_>,
        raw_parts: &mut RawParts<'_>,
        out: &mut Events,
    ) -> Result<()> {
        if let Some(usage) = chunk.usage_metadata.0 {
            self.set_usage(Some(usage.into()));
        }

        if chunk.error.is_some_and(|error| !is_empty_value(error)) {
            self.report_usage(out);
            return Err(status::from_event(raw_parts.frame(), &self.secrets));
        }

        let candidates = chunk.candidates.0;
        let feedback = chunk.prompt_feedback.0.unwrap_or_default();
        let is_blocked = candidates.is_empty() && !feedback.block_reason.is_empty();
        let has_content = is_blocked || !candidates.is_empty() || !chunk.response_id.is_empty();
        if !self.has_started && has_content {
            self.start(&chunk.response_id.0, &chunk.model_version.0, out);
        }

        if is_blocked && self.stop_reason.is_none() {
            self.stop_reason = Some(StopReason::Refusal);
            let reason = status::excerpt(&feedback.block_reason.0, &self.secrets);
            let warning = format!("the provider blocked the prompt: {reason}");
            out.push(ModelEvent::Warning(warning));
        }

        for candidate in candidates {
            if candidate.index.get() == 0 {
                self.read_candidate(candidate, raw_parts, out)?;
            }
        }

        Ok(())
    }

    fn set_usage(&mut self, usage: Option<Usage>) {
        if let Some(usage) = usage.filter(|usage| !usage.is_zero()) {
            self.usage = usage;
        }
    }

    /// Returns the text and the usage of a chunk that differs from the previous chunk only in
    /// these.
    fn read_repeated<'a>(&self, data: &'a str) -> Option<(Cow<'a, str>, Option<Usage>)> {
        let [text, usage] = self.repeated.values(data)?;
        Some((string(text)?, usage::read(usage).ok()?))
    }

    fn unreadable(&self, data: &str, error: serde_json::Error) -> Error {
        unreadable("a chunk cannot be read", data, &self.secrets).with_source(error)
    }

    fn start(&mut self, id: &str, model: &str, out: &mut Events) {
        self.has_started = true;
        self.parts.set_response(id);
        let mut head = ResponseHead::new(id, model);
        head.request_id = self.request_id.take();
        out.push(ModelEvent::Start(Box::new(head)));
    }

    fn read_candidate(
        &mut self,
        candidate: WireCandidate<'_>,
        raw_parts: &mut RawParts<'_>,
        out: &mut Events,
    ) -> Result<()> {
        // Before the parts: they may end the text that the citations belong to. Some chunks have
        // empty metadata.
        if let Some(grounding) = candidate.grounding_metadata.0 {
            self.search_count = self.search_count.max(grounding.query_count() as u64);
            let citations = grounding.citations();
            if !citations.is_empty() {
                self.parts.set_citations(citations);
            }
        }

        for part in candidate.content.0.unwrap_or_default().parts.0 {
            self.parts.push(part, raw_parts, out)?;
            raw_parts.pass();
        }

        let finish_reason = &*candidate.finish_reason.0;
        if is_failure(finish_reason) {
            self.report_usage(out);
            let reason = status::excerpt(finish_reason, &self.secrets);
            let message = status::excerpt(&candidate.finish_message.0, &self.secrets);
            let text = match &*message {
                "" => format!("the model ended the answer with {reason}"),
                message => format!("the model ended the answer with {reason}: {message}"),
            };
            return Err(Error::new(ErrorKind::Server, text));
        }

        if !finish_reason.is_empty() {
            self.stop_reason = Some(stop_reason(finish_reason));
        }

        Ok(())
    }

    fn report_usage(&self, out: &mut Events) {
        let mut usage = self.usage;
        usage.server_tool_requests = self.search_count;
        if !usage.is_zero() {
            out.push(ModelEvent::Usage(usage));
        }
    }
}

/// Returns the text of a chunk that has only a text and usage.
fn plain_text<'a>(chunk: &'a WireChunk<'_>) -> Option<&'a str> {
    let [candidate] = &chunk.candidates.0[..] else {
        return None;
    };
    let [part] = &candidate.content.0.as_ref()?.parts.0[..] else {
        return None;
    };
    let has_more = candidate.index.get() != 0
        || candidate.grounding_metadata.0.is_some()
        || !candidate.finish_reason.is_empty()
        || chunk.prompt_feedback.0.is_some()
        || chunk.error.is_some();
    part.plain_text().filter(|_| !has_more)
}

/// Returns `true` for the finish reasons of answers that the model failed to write. Nothing of such
/// an answer has run, and a further request may succeed.
fn is_failure(word: &str) -> bool {
    word.starts_with("MALFORMED_")
        || matches!(
            word,
            "UNEXPECTED_TOOL_CALL" | "TOO_MANY_TOOL_CALLS" | "MISSING_THOUGHT_SIGNATURE"
        )
}

/// Returns the finish reason of an answer, as if it had no calls.
fn stop_reason(word: &str) -> StopReason {
    match word {
        "STOP" | "FUNCTION_CALL" => StopReason::EndTurn,
        // A further request could continue the answer; it is not made.
        "MAX_TOKENS" | "CONTINUATION" => StopReason::MaxTokens,
        "SAFETY" | "RECITATION" | "LANGUAGE" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII"
        | "MODEL_ARMOR" => StopReason::Refusal,
        word if word.starts_with("IMAGE_") => StopReason::Refusal,
        word => StopReason::Other(word.into()),
    }
}

/// Parses the chunks of a frame. Errors may come in an array.
fn parse_chunks(data: &str) -> serde_json::Result<Vec<WireChunk<'_>>> {
    // A `List` reads a string or a number as empty; as a whole frame, these are an error.
    if !data.starts_with(['{', '[']) && data != "null" {
        serde_json::from_str::<Vec<IgnoredAny>>(data)?;
    }
    let chunks: List<WireChunk<'_>> = serde_json::from_str(data)?;
    Ok(chunks.0)
}

impl Decoder for ChunkDecoder {
    fn frame(&mut self, _: &str, data: &str, out: &mut Events) -> Result<()> {
        let data = data.trim();
        if data.is_empty() {
            return Ok(());
        }

        if let Some((text, usage)) = self.read_repeated(data) {
            self.set_usage(usage);
            return self.parts.push_text(text, "", out);
        }

        let chunks = parse_chunks(data).map_err(|error| self.unreadable(data, error))?;
        if let [chunk] = &chunks[..] {
            self.learn(chunk, data);
        }

        let mut raw_parts = RawParts::new(data);
        for chunk in chunks {
            self.read_chunk(chunk, &mut raw_parts, out)?;
        }

        Ok(())
    }

    fn document(&mut self, body: &str, out: &mut Events) -> Result<()> {
        self.frame("", body, out)?;
        if !self.has_started {
            return Err(unreadable(
                "the answer is not a response of the Gemini API",
                body,
                &self.secrets,
            ));
        }

        self.finish(out)
    }

    fn finish(&mut self, out: &mut Events) -> Result<()> {
        let Some(reason) = self.stop_reason.take() else {
            self.report_usage(out);
            return Err(truncated());
        };

        self.parts.finish(out)?;
        self.report_usage(out);
        out.push(ModelEvent::stop(match reason {
            StopReason::EndTurn if self.parts.has_calls() => StopReason::ToolUse,
            reason => reason,
        }));

        self.is_done = true;
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.is_done
    }

    fn is_complete(&self) -> bool {
        self.stop_reason.is_some()
    }
}

/// Returns the events of a recorded answer: the body of a `:streamGenerateContent` response with
/// `alt=sse`, or of a `:generateContent` response, in pieces cut anywhere.
///
/// If `body` may be pending, the stream must be polled inside a tokio runtime.
///
/// ```
/// use agentcore::model::ModelEvent;
/// use agentcore::providers::gemini;
/// use futures::{StreamExt, executor::block_on, stream};
///
/// let recording = concat!(
///     "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"Hello\"}]}}]}\n\n",
///     "data: {\"candidates\":[{\"finishReason\":\"STOP\"}]}\n\n",
/// );
/// let body = stream::iter([Ok(recording.into())]);
/// let events: Vec<_> = block_on(gemini::decode(body).collect());
/// assert!(matches!(events[1], Ok(ModelEvent::Text(ref text)) if text == "Hello"));
/// ```
pub fn decode(body: impl Stream<Item = Result<Bytes>> + Send + 'static) -> ModelStream {
    recorded(PROVIDER, Framing::Sse, body, |secrets| {
        ChunkDecoder::new(PROVIDER.into(), None, EncodedCalls::default(), secrets)
    })
}
