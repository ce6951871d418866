//! The decoder of Chat Completions: from the chunks of a stream, or a whole completion, to events.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::error::{Error, ErrorKind, Result};
use crate::model::{ModelEvent, ResponseHead, StopReason};
use crate::usage::Usage;

use super::super::calls::{CallIds, CallPiece, Calls};
use super::super::decoder::{Decoder, truncated, unreadable};
use super::super::encode::EncodedCalls;
use super::super::events::Events;
use super::super::http::Secrets;
use super::super::json::{replace_refused, unquoted};
use super::super::lenient::{Text, is_empty_value};
use super::super::repeated::Repeated;
use super::super::status;
use super::extra_content::{self, ExtraContent};
use super::reasoning::{Extent, StreamedReasoning};
use super::rules::Rules;
use super::wire::{
    CallDelta, Choices, DeltaContent, Head, WireChunk, WireDelta, plain_args, plain_text,
};

/// Decodes one answer.
///
/// The answer is complete at `[DONE]`. Servers may omit it, so once a finish reason has arrived,
/// the answer is also complete at the chunk with usage and no choices, at the end of the body, at a
/// broken connection, and after two seconds without a frame. A body that ends before any finish
/// reason is truncated.
pub(super) struct ChatDecoder {
    rules: &'static Rules,
    /// The tag of the blocks.
    tag: Cow<'static, str>,
    request_id: Option<Arc<str>>,
    secrets: Secrets,
    ids: CallIds,
    calls: Calls,
    has_started: bool,
    reasoning: StreamedReasoning,
    /// The last piece of reasoning, which some servers repeat.
    last_thought: String,
    extra_content: ExtraContent,
    has_refused: bool,
    /// True if a delta had a part of the answer. A whole answer then repeats it.
    has_deltas: bool,
    /// The finish reason, once it has arrived.
    stop_reason: Option<StopReason>,
    usage: Usage,
    is_done: bool,
    repeated: RepeatedChunks,
}

/// The texts around the values that differ between the chunks of a stream.
#[derive(Default)]
struct RepeatedChunks {
    around_choices: Repeated,
    /// The text around a piece of text.
    around_text: Repeated,
    /// The text around a piece of a call's arguments.
    around_args: Repeated,
    /// The index of the call in `around_args`.
    args_index: Option<u64>,
}

impl RepeatedChunks {
    /// Learns from the chunk `data`, whose other fields have been read.
    fn learn(&mut self, data: &str, choices: &Choices<'_>) {
        if let Some(text) = plain_text(choices) {
            self.around_text.learn(data, text);
        } else if let Some((index, args)) = plain_args(choices)
            && self.around_args.learn(data, args)
        {
            self.args_index = index;
        }
    }
}

impl ChatDecoder {
    /// Creates the decoder of the response to a request with `encoded_calls`, whose ids are not
    /// used again.
    pub(super) fn new(
        rules: &'static Rules,
        tag: Cow<'static, str>,
        request_id: Option<Arc<str>>,
        encoded_calls: EncodedCalls,
        secrets: Secrets,
    ) -> Self {
        Self {
            rules,
            tag,
            request_id,
            secrets,
            ids: CallIds::new(encoded_calls),
            calls: Calls::default(),
            has_started: false,
            reasoning: StreamedReasoning::default(),
            last_thought: String::new(),
            extra_content: ExtraContent::default(),
            has_refused: false,
            has_deltas: false,
            stop_reason: None,
            usage: Usage::default(),
            is_done: false,
            repeated: RepeatedChunks::default(),
        }
    }

    /// Decodes a chunk, whose JSON is `data`.
    fn read_chunk(
        &mut self,
        chunk: WireChunk<'_>,
        choices: Choices<'_>,
        data: &str,
        out: &mut Events,
    ) -> Result<()> {
        let mut is_failed = chunk.error.is_some_and(|error| !is_empty_value(error));
        if !self.has_started || choices.is_empty() {
            let head: Head<'_> =
                serde_json::from_str(data).map_err(|error| self.unreadable(data, error))?;
            is_failed |= head.object.0 == "error";

            // The first chunk may contain only the verdict of a filter.
            let begins_answer = !head.id.is_empty() || !choices.is_empty();
            if !is_failed && !self.has_started && begins_answer {
                self.start(&head.id.0, &head.model.0, out);
            }
        }

        if is_failed {
            self.report_usage(out);
            return Err(status::from_event(data, &self.secrets));
        }

        let groq = chunk.x_groq.0.unwrap_or_default();
        let report = chunk.usage.0.or(groq.usage.0);
        if !groq.error.is_empty() {
            if let Some(report) = report {
                self.usage = report.count(self.rules.output);
            }
            self.report_usage(out);
            let event = json!({"error": groq.error.0}).to_string();
            return Err(status::from_event(&event, &self.secrets));
        }

        if let Some(report) = report {
            let usage = report.count(self.rules.output);
            // Some servers put an empty report into every chunk.
            if !usage.is_zero() {
                self.usage = usage;
                if choices.is_empty() && self.stop_reason.is_some() {
                    return self.complete(out);
                }
            }
        } else if let Some(raw) = chunk.choices
            && chunk.error.is_none()
        {
            self.repeated.around_choices.learn(data, raw.get());
        }

        self.read_choices(choices, data, out)
    }

    /// Decodes the choices of the chunk `data`, whose other fields have been read, or equal those
    /// of an earlier chunk.
    fn read_choices(&mut self, choices: Choices<'_>, data: &str, out: &mut Events) -> Result<()> {
        self.repeated.learn(data, &choices);
        for choice in choices {
            if choice.index.get() != 0 {
                continue;
            }

            if let Some(delta) = choice.delta {
                self.has_deltas |= delta.has_answer();
                self.read_delta(delta, Extent::Piece, out)?;
            }

            // Some servers send both: the new text, and all text so far.
            if let Some(message) = choice.message.filter(|_| !self.has_deltas) {
                self.read_delta(*message, Extent::Answer, out)?;
            }

            match &*choice.finish_reason.0 {
                "" => {}
                // vLLM and SGLang report `abort` when the server itself ends the answer, Z.ai
                // reports `network_error`.
                "error" | "abort" | "network_error" => {
                    self.report_usage(out);
                    return Err(Error::new(
                        ErrorKind::Server,
                        "the server ended the answer with an error it does not name",
                    ));
                }
                // DeepSeek.
                "insufficient_system_resource" => {
                    self.report_usage(out);
                    return Err(Error::new(
                        ErrorKind::Overloaded,
                        "the server broke the answer off, because its resources are exhausted",
                    ));
                }
                reason => self.stop_reason = Some(reason.into()),
            }
        }

        Ok(())
    }

    fn start(&mut self, id: &str, model: &str, out: &mut Events) {
        self.has_started = true;
        self.ids.set_response(id);
        let mut head = ResponseHead::new(id, model);
        head.request_id = self.request_id.take();
        out.push(ModelEvent::Start(Box::new(head)));
    }

    /// Reads a delta, or the whole answer.
    fn read_delta(&mut self, delta: WireDelta<'_>, extent: Extent, out: &mut Events) -> Result<()> {
        self.read_reasoning(&delta, extent, out)?;
        let is_thought = delta.extra_content.is_some_and(extra_content::is_thought);
        if let Some(raw) = delta.extra_content.filter(|_| !is_thought) {
            self.extra_content.set(raw, out)?;
        }

        self.has_refused |= !delta.refusal.is_empty();
        match delta.content {
            DeltaContent::Text(text) if is_thought => push_thinking(&text.0, out),
            DeltaContent::Text(text) => self.push_text(text.0, out)?,
            DeltaContent::Chunks(chunks) => {
                for chunk in chunks {
                    self.read_content_chunk(chunk, extent, out)?;
                }
            }
        }

        self.push_text(delta.refusal.0, out)?;
        for call in delta.tool_calls.0 {
            self.end_reasoning(out)?;
            self.read_call(&call, out)?;
        }

        Ok(())
    }

    /// Reads a chunk of a list of content. Chunks of thinking in a row become one, unless they are
    /// of a whole answer.
    fn read_content_chunk(
        &mut self,
        raw: &RawValue,
        extent: Extent,
        out: &mut Events,
    ) -> Result<()> {
        if let Some(text) = self.reasoning.push_chunk(raw, out)? {
            push_thinking(&text, out);
            return match extent {
                Extent::Piece => Ok(()),
                Extent::Answer => self.end_reasoning(out),
            };
        }

        let json = replace_refused(raw.get());
        let text = serde_json::from_str::<Text<'_>>(&json)
            .map_err(|error| self.unreadable(raw.get(), error))?;
        self.push_text(text.0, out)
    }

    fn push_text(&mut self, text: Cow<'_, str>, out: &mut Events) -> Result<()> {
        if !text.is_empty() {
            self.end_reasoning(out)?;
            out.push_text(text);
        }
        Ok(())
    }

    fn read_call(&mut self, call: &CallDelta<'_>, out: &mut Events) -> Result<()> {
        let function = call.function.as_ref();
        let raw = function.and_then(|function| function.arguments);
        let args: Cow<'_, str> = match raw.map(RawValue::get) {
            None | Some("null") => "".into(),
            Some(text) if text.starts_with('"') => {
                unquoted(text).map_err(|error| self.unreadable(text, error))?
            }
            // The arguments are a JSON value instead of its text.
            Some(value) => value.into(),
        };

        let piece = CallPiece {
            index: call.index.0,
            id: &call.id.0,
            name: function.map_or("", |function| &function.name.0),
            args: &args,
            fields: match call.extra_content {
                Some(raw) => Some(extra_content::block(&self.tag, raw)?),
                None => None,
            },
        };

        self.calls.push(piece, &mut self.ids, out)
    }

    /// Reads a piece of the arguments of the call that the piece before belongs to.
    fn read_args(&mut self, args: &str, out: &mut Events) -> Result<()> {
        self.end_reasoning(out)?;
        let piece = CallPiece {
            index: self.repeated.args_index,
            id: "",
            name: "",
            args,
            fields: None,
        };

        self.calls.push(piece, &mut self.ids, out)
    }

    /// Reads the reasoning of a delta. If several fields have a text, it is the same text.
    fn read_reasoning(
        &mut self,
        delta: &WireDelta<'_>,
        extent: Extent,
        out: &mut Events,
    ) -> Result<()> {
        let (field, text) = match &*delta.reasoning_content.0 {
            "" => ("reasoning", &*delta.reasoning.0),
            text => ("reasoning_content", text),
        };
        if let Some(list) = delta.reasoning_details {
            let detail_text = self.reasoning.push_details(list, extent, out)?;
            if !detail_text.is_empty() {
                push_thinking(if text.is_empty() { &detail_text } else { text }, out);
                return Ok(());
            }
        }

        let is_repeated = self.rules.repeats_reasoning && text == self.last_thought;
        if text.is_empty() || is_repeated {
            return Ok(());
        }

        if self.rules.repeats_reasoning {
            text.clone_into(&mut self.last_thought);
        }

        self.reasoning.push_text(field, text, out)?;
        push_thinking(text, out);
        Ok(())
    }

    /// Emits the collected reasoning as a part with its original fields, so that it can be sent
    /// back.
    fn end_reasoning(&mut self, out: &mut Events) -> Result<()> {
        let part = self.reasoning.take(&self.tag)?;
        if let Some(part) = part {
            out.push(ModelEvent::Part(part));
        }
        Ok(())
    }

    fn complete(&mut self, out: &mut Events) -> Result<()> {
        if !self.has_started {
            self.start("", "", out);
        }

        self.end_reasoning(out)?;
        if let Some(part) = self.extra_content.take(&self.tag)? {
            out.push(ModelEvent::Part(part));
        }

        let is_cut_off = matches!(
            self.stop_reason,
            Some(StopReason::MaxTokens | StopReason::ContextWindow)
        );
        self.calls.finish(is_cut_off, &mut self.ids, out)?;
        self.report_usage(out);
        let reason = match self.stop_reason.take() {
            _ if self.has_refused => Some(StopReason::Refusal),
            reason => reason,
        };

        out.push(ModelEvent::Stop {
            reason,
            sequence: None,
        });

        self.is_done = true;
        Ok(())
    }

    fn report_usage(&self, out: &mut Events) {
        if !self.usage.is_zero() {
            out.push(ModelEvent::Usage(self.usage));
        }
    }

    fn unreadable(&self, data: &str, error: serde_json::Error) -> Error {
        unreadable("a chunk cannot be read", data, &self.secrets).with_source(error)
    }
}

/// Emits a piece of reasoning to show, unless it is empty.
fn push_thinking(text: &str, out: &mut Events) {
    if !text.is_empty() {
        out.push(ModelEvent::Thinking(text.to_owned()));
    }
}

/// Parses a chunk and its choices.
fn parse_chunk(data: &str) -> serde_json::Result<(WireChunk<'_>, Choices<'_>)> {
    // A struct is also read from an array, whose items would be the fields.
    if data.starts_with('[') {
        serde_json::from_str::<Map<String, Value>>(data)?;
    }
    let chunk: WireChunk<'_> = serde_json::from_str(data)?;
    let choices = match chunk.choices {
        Some(raw) => serde_json::from_str(raw.get())?,
        None => Choices::default(),
    };
    Ok((chunk, choices))
}

impl Decoder for ChatDecoder {
    fn frame(&mut self, name: &str, data: &str, out: &mut Events) -> Result<()> {
        let data = data.trim_ascii();
        if data.is_empty() {
            return Ok(());
        }

        if data == "[DONE]" {
            return self.complete(out);
        }

        if name == "error" {
            self.report_usage(out);
            return Err(status::from_event(data, &self.secrets));
        }

        if self.has_started {
            if let Some(text) = self.repeated.around_text.text(data) {
                self.has_deltas |= !text.is_empty();
                return self.push_text(text, out);
            }

            if let Some(args) = self.repeated.around_args.text(data) {
                self.has_deltas = true;
                return self.read_args(&args, out);
            }

            if let Some(choices) = self.repeated.around_choices.value(data) {
                return self.read_choices(choices, data, out);
            }
        }

        match parse_chunk(data) {
            Ok((chunk, choices)) => self.read_chunk(chunk, choices, data, out),
            // After the finish reason only usage is missing, and its chunk may be cut off.
            Err(_) if self.stop_reason.is_some() => self.complete(out),
            Err(error) => Err(self.unreadable(data, error)),
        }
    }

    fn document(&mut self, body: &str, out: &mut Events) -> Result<()> {
        self.frame("", body, out)?;
        if !self.has_started {
            return Err(unreadable(
                "the answer is not a completion",
                body,
                &self.secrets,
            ));
        }

        if self.is_done {
            Ok(())
        } else {
            self.complete(out)
        }
    }

    fn finish(&mut self, out: &mut Events) -> Result<()> {
        if self.stop_reason.is_some() {
            return self.complete(out);
        }
        self.report_usage(out);
        Err(truncated())
    }

    fn is_done(&self) -> bool {
        self.is_done
    }

    fn is_complete(&self) -> bool {
        self.stop_reason.is_some()
    }
}
