//! The decoder of a chat stream.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::value::RawValue;

use crate::error::{Error, Result};
use crate::model::{ModelEvent, ResponseHead, StopReason};
use crate::usage::Usage;

use super::super::chat::reasoning_part;
use super::super::decoder::{Decoder, truncated, unreadable};
use super::super::encode::EncodedCalls;
use super::super::events::Events;
use super::super::http::Secrets;
use super::super::json::unquoted;
use super::super::lenient::is_empty_value;
use super::super::status;
use super::super::whole_calls::WholeCalls;
use super::PROVIDER;
use super::wire::{WireCall, WireLine};

/// Decodes one answer, which is complete at the line with `done`.
pub(super) struct ChatDecoder {
    request_id: Option<Arc<str>>,
    secrets: Secrets,
    calls: WholeCalls,
    has_started: bool,
    thinking: String,
    is_done: bool,
}

impl ChatDecoder {
    /// Creates the decoder of the response to a request with `encoded_calls`, whose ids are not
    /// used again.
    pub(super) fn new(
        request_id: Option<Arc<str>>,
        encoded_calls: EncodedCalls,
        secrets: Secrets,
    ) -> Self {
        Self {
            request_id,
            secrets,
            calls: WholeCalls::new(encoded_calls),
            has_started: false,
            thinking: String::new(),
            is_done: false,
        }
    }

    fn line(&mut self, line: WireLine<'_>, data: &str, out: &mut Events) -> Result<()> {
        if line.error.is_some_and(|error| !is_empty_value(error)) {
            return Err(status::from_event(data, &self.secrets));
        }

        if !self.has_started {
            self.has_started = true;
            self.calls.set_response(&line.created_at.0);
            let mut head = ResponseHead::new("", &*line.model.0);
            head.request_id = self.request_id.take();
            out.push(ModelEvent::Start(Box::new(head)));
        }

        if let Some(answer) = line.message {
            if !answer.thinking.is_empty() {
                out.collect_bytes(answer.thinking.0.len())?;
                self.thinking.push_str(&answer.thinking.0);
                out.push(ModelEvent::Thinking(answer.thinking.0.into_owned()));
            }

            if !answer.content.is_empty() {
                self.end_thinking(out)?;
                out.push_text(answer.content.0);
            }

            for call in answer.tool_calls.0 {
                self.end_thinking(out)?;
                self.call(call, out)?;
            }
        }

        if line.done {
            self.end_thinking(out)?;
            let usage = Usage::new(line.prompt_eval_count.get(), line.eval_count.get());
            if !usage.is_zero() {
                out.push(ModelEvent::Usage(usage));
            }

            out.push(ModelEvent::Stop {
                reason: match &*line.done_reason.0 {
                    "" => None,
                    reason => Some(StopReason::from(reason)),
                },
                sequence: None,
            });

            self.is_done = true;
        }

        Ok(())
    }

    fn call(&mut self, call: WireCall<'_>, out: &mut Events) -> Result<()> {
        let function = call.function.unwrap_or_default();
        let args: Cow<'_, str> = match function.arguments.map(RawValue::get) {
            None | Some("null") => "{}".into(),
            // The arguments are the text of an object instead of the object.
            Some(text) if text.starts_with('"') => {
                unquoted(text).map_err(|error| self.unreadable(text, error))?
            }
            Some(object) => object.into(),
        };

        self.calls
            .push(&call.id.0, &function.name.0, args, None, out)
    }

    fn end_thinking(&mut self, out: &mut Events) -> Result<()> {
        if self.thinking.is_empty() {
            return Ok(());
        }
        let text = std::mem::take(&mut self.thinking);
        let part = reasoning_part(PROVIDER, "thinking", &text)?;
        out.push(ModelEvent::Part(part));
        Ok(())
    }

    fn unreadable(&self, data: &str, error: serde_json::Error) -> Error {
        unreadable("a line cannot be read", data, &self.secrets).with_source(error)
    }
}

impl Decoder for ChatDecoder {
    fn frame(&mut self, _: &str, data: &str, out: &mut Events) -> Result<()> {
        let line = serde_json::from_str(data).map_err(|error| self.unreadable(data, error))?;
        self.line(line, data, out)
    }

    fn document(&mut self, body: &str, out: &mut Events) -> Result<()> {
        self.frame("", body, out)
    }

    fn finish(&mut self, _: &mut Events) -> Result<()> {
        Err(truncated())
    }

    fn is_done(&self) -> bool {
        self.is_done
    }
}
