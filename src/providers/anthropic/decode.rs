//! The decoder of the Messages API's stream.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::{Error, ErrorKind, Result};
use crate::message::{Part, ProviderBlock, ToolCall};
use crate::model::{ModelEvent, ResponseHead, StopReason};
use crate::usage::Usage;
use crate::util::unique_names::UniqueNames;

use super::super::decoder::{Decoder, truncated, unreadable};
use super::super::events::Events;
use super::super::http::Secrets;
use super::super::json::Str;
use super::super::repeated::Repeated;
use super::super::status;
use super::super::transformations;
use super::CONTAINER;
use super::blocks::{OpenBlock, OpenText, echoed_part, may_be_cut_off, written_args};
use super::events::{
    BLOCK_DELTA, BlockDelta, Ending, StopDetails, WireBlock, WireEvent, WireMessage, WireUsage,
    citation, is_unknown_event, raw_delta,
};

/// The memory of a delta that is collected as JSON, in addition to its text, in bytes.
const RAW_DELTA: usize = 48;

/// Decodes one answer.
///
/// It checks the order of the events: a message begins once and before its blocks and its deltas, a
/// block begins once and before its deltas, and no event is for a block that has ended. Unknown
/// events are ignored, and so are unknown deltas of texts and calls. Unknown blocks and unknown
/// deltas of thinking are part of the answer.
pub(super) struct MessagesDecoder {
    /// The tag of the blocks.
    tag: &'static str,
    secrets: Secrets,
    request_id: Option<Arc<str>>,
    message_id: Option<Arc<str>>,
    /// The blocks that have begun and not ended, by index.
    open: BTreeMap<u32, OpenBlock>,
    /// The lowest index that a new block may have.
    next_index: u32,
    /// The calls that the output limit may have cut off, and those after them. They are settled
    /// when the next block begins or the stop reason arrives.
    doubtful: Vec<ToolCall>,
    call_ids: BTreeSet<Arc<str>>,
    unique_names: UniqueNames,
    usage: Usage,
    stop_reason: Option<StopReason>,
    stop_sequence: Option<Arc<str>>,
    /// The container in which the server runs code.
    container: Option<Box<RawValue>>,
    /// True if a warning about thinking that the server left out of the request was emitted.
    has_reported_changes: bool,
    is_done: bool,
    /// The text around the piece in a delta.
    repeated: Repeated,
    /// The index of the block of the deltas that `repeated` recognizes.
    repeated_index: u32,
}

impl MessagesDecoder {
    pub(super) fn new(tag: &'static str, request_id: Option<Arc<str>>, secrets: Secrets) -> Self {
        Self {
            tag,
            secrets,
            request_id,
            message_id: None,
            open: BTreeMap::new(),
            next_index: 0,
            doubtful: Vec::new(),
            call_ids: BTreeSet::new(),
            unique_names: UniqueNames::default(),
            usage: Usage::default(),
            stop_reason: None,
            stop_sequence: None,
            container: None,
            has_reported_changes: false,
            is_done: false,
            repeated: Repeated::default(),
            repeated_index: 0,
        }
    }

    fn start(&mut self, message: &WireMessage<'_>, out: &mut Events) -> Result<()> {
        if self.message_id.is_some() {
            return Err(protocol_error("the message began twice"));
        }

        let text =
            |text: &Option<Str<'_>>| -> Arc<str> { text.as_deref().unwrap_or_default().into() };
        let mut head = ResponseHead::new(text(&message.id), text(&message.model));
        head.request_id = self.request_id.take();
        self.message_id = Some(head.id.clone());
        out.push(ModelEvent::Start(Box::new(head)));
        if let Some(usage) = message.usage {
            usage.update(&mut self.usage);
            out.push(ModelEvent::Usage(self.usage));
        }

        self.report_changes(message.input_transformations, out);
        Ok(())
    }

    /// Reports the thinking that the server left out of the request, once.
    fn report_changes(&mut self, changes: Option<&RawValue>, out: &mut Events) {
        let warning = transformations::warning(changes, &self.secrets);
        if let Some(text) = warning.filter(|_| !self.has_reported_changes) {
            self.has_reported_changes = true;
            out.push(ModelEvent::Warning(text));
        }
    }

    fn begin_block(&mut self, index: u32, raw: &RawValue, out: &mut Events) -> Result<()> {
        let Some(message_id) = self.message_id.clone() else {
            return Err(protocol_error("a block began before the message"));
        };

        if index < self.next_index {
            let text = format!("block {index} began twice, or after a later block");
            return Err(protocol_error(text));
        }

        let block: WireBlock<'_> = serde_json::from_str(raw.get())
            .map_err(|_| unreadable("a block without a type", raw.get(), &self.secrets))?;
        self.next_index = index.saturating_add(1);
        self.settle_calls(false, out);
        out.collect_block()?;
        let mut open_block = OpenBlock::new(raw, &block, || format!("call_{message_id}_{index}"));
        match &mut open_block {
            OpenBlock::Text(text) => begin_text(text, block, out)?,
            OpenBlock::Thinking(_) => {
                out.collect_json(raw)?;
                if let Some(text) = block.thinking.filter(|text| !text.is_empty()) {
                    out.push(ModelEvent::Thinking(text.0.into_owned()));
                }
            }
            OpenBlock::Tool {
                id,
                name,
                input,
                extra,
                ..
            } => {
                out.collect_call(id, name)?;
                out.collect_bytes(input.as_deref().map_or(0, str::len))?;
                if let Some(extra) = extra {
                    out.collect_json(extra)?;
                }

                if self.call_ids.contains(id) {
                    let base = format!("{id}_{index}");
                    let call_ids = &self.call_ids;
                    *id = self.unique_names.free(&base, |id| call_ids.contains(id));
                }

                self.call_ids.insert(id.clone());
                out.push(ModelEvent::ToolCallStart {
                    index,
                    id: id.clone(),
                    name: name.clone(),
                });
            }
            OpenBlock::Other(_) => out.collect_json(raw)?,
        }

        self.open.insert(index, open_block);
        Ok(())
    }

    /// Returns the open block that a delta is for.
    fn open_block(&mut self, index: u32) -> Result<&mut OpenBlock> {
        let block = self.open.get_mut(&index);
        block.ok_or_else(|| protocol_error(format!("a delta for block {index}, which is not open")))
    }

    fn delta(&mut self, event: BlockDelta<'_>, data: &str, out: &mut Events) -> Result<()> {
        let BlockDelta { index, mut delta } = event;
        let block = self.open_block(index)?;
        if let Some(piece) = block.piece(&mut delta) {
            if self.repeated.learn(data, piece.raw) {
                self.repeated_index = index;
            }
            return self.piece(index, piece.text, out);
        }

        match (block, delta.signature) {
            (OpenBlock::Thinking(block), Some(text)) => {
                out.collect_bytes(text.len())?;
                block.add_signature(&text);
            }
            (OpenBlock::Thinking(block) | OpenBlock::Other(block), _) => {
                let delta = raw_delta(data)?;
                out.collect_bytes(delta.get().len() + RAW_DELTA)?;
                out.collect_values(delta.get())?;
                block.add_raw(delta);
            }
            (OpenBlock::Text(text), _) => {
                if let Some(citation) = citation(data)? {
                    collect_citation(text, citation, out)?;
                }
            }
            (OpenBlock::Tool { .. }, _) => {}
        }

        Ok(())
    }

    /// Adds the piece that [`OpenBlock::piece`] found, or a piece that replaces it.
    fn piece(&mut self, index: u32, text: Cow<'_, str>, out: &mut Events) -> Result<()> {
        let block = self.open_block(index)?;
        if text.is_empty() {
            return Ok(());
        }

        match block {
            OpenBlock::Text(block) => {
                block.has_text = true;
                out.push_text(text);
            }
            OpenBlock::Tool { json, .. } => {
                out.collect_bytes(text.len())?;
                json.push_str(&text);
                let json = text.into_owned();
                out.push(ModelEvent::ToolCallDelta { index, json });
            }
            OpenBlock::Thinking(block) => {
                out.collect_bytes(text.len())?;
                block.add_thinking(&text);
                out.push(ModelEvent::Thinking(text.into_owned()));
            }
            OpenBlock::Other(_) => {}
        }

        Ok(())
    }

    fn end_block(&mut self, index: u32, out: &mut Events) -> Result<()> {
        let Some(block) = self.open.remove(&index) else {
            return Err(protocol_error(format!(
                "the end of block {index}, which is not open"
            )));
        };

        match block {
            OpenBlock::Text(text) => out.push(match text.finish(self.tag)? {
                Some(annotations) => ModelEvent::Part(Part::Annotations(annotations)),
                None => ModelEvent::PartEnd,
            }),
            OpenBlock::Tool {
                id,
                name,
                json,
                input,
                extra,
            } => {
                let args = written_args(json, input);
                out.collect_values(&args)?;
                let mut call = ToolCall::from_raw(id, name, args);
                if let Some(extra) = extra {
                    call = call.with_extra(ProviderBlock::new(self.tag, extra));
                }

                if self.doubtful.is_empty() && !may_be_cut_off(&call) {
                    out.push(ModelEvent::ToolCall(call));
                } else {
                    self.doubtful.push(call);
                }
            }
            block => {
                if let Some(part) = echoed_part(block, self.tag, out)? {
                    out.push(ModelEvent::Part(part));
                }
            }
        }

        Ok(())
    }

    /// Emits the doubtful calls. If the answer `is_cut_off`, those that may be incomplete are
    /// dropped.
    fn settle_calls(&mut self, is_cut_off: bool, out: &mut Events) {
        for call in self.doubtful.drain(..) {
            let is_dropped = is_cut_off && may_be_cut_off(&call);
            if !is_dropped {
                out.push(ModelEvent::ToolCall(call));
            }
        }
    }

    fn message_delta(
        &mut self,
        ending: Option<&Ending<'_>>,
        usage: Option<&WireUsage>,
        out: &mut Events,
    ) -> Result<()> {
        if self.message_id.is_none() {
            return Err(protocol_error("a delta of the message before it began"));
        }

        if let Some(ending) = ending {
            self.end(ending, out)?;
        }
        if let Some(usage) = usage {
            usage.update(&mut self.usage);
            out.push(ModelEvent::Usage(self.usage));
        }
        Ok(())
    }

    fn end(&mut self, ending: &Ending<'_>, out: &mut Events) -> Result<()> {
        if let Some(reason) = ending.stop_reason.as_deref() {
            self.stop_reason = Some(reason.into());
        }
        if let Some(sequence) = ending.stop_sequence.as_deref() {
            self.stop_sequence = Some(sequence.into());
        }
        if let Some(container) = ending.container {
            out.collect_json(container)?;
            self.container = Some(container.to_owned());
        }

        self.report_changes(ending.input_transformations, out);
        let details = ending.stop_details.0.as_ref();
        let refusal = details.and_then(StopDetails::refusal);
        if let Some(text) = refusal {
            out.push(ModelEvent::Warning(text));
        }
        Ok(())
    }

    /// Ends the message. Blocks that are still open were cut off by the output limit and are
    /// dropped, so that no incomplete call runs.
    fn stop(&mut self, out: &mut Events) -> Result<()> {
        if self.message_id.is_none() {
            return Err(protocol_error("the message ended before it began"));
        }

        self.open.clear();
        let is_cut_off = matches!(
            self.stop_reason,
            Some(StopReason::MaxTokens | StopReason::ContextWindow)
        );
        self.settle_calls(is_cut_off, out);
        self.is_done = true;
        if let Some(container) = self.container.take() {
            let block = ProviderBlock::new(CONTAINER, container);
            out.push(ModelEvent::Part(Part::Opaque(block)));
        }
        out.push(ModelEvent::Stop {
            reason: self.stop_reason.take(),
            sequence: self.stop_sequence.take(),
        });

        Ok(())
    }

    /// Reads an event. An event of an unknown kind may have any form.
    fn parse<'a>(&self, data: &'a str) -> Result<Option<WireEvent<'a>>> {
        match serde_json::from_str(data) {
            Ok(event) => Ok(Some(event)),
            Err(_) if is_unknown_event(data) || data.trim() == "[DONE]" => Ok(None),
            Err(error) => {
                Err(unreadable("an unreadable event", data, &self.secrets).with_source(error))
            }
        }
    }
}

impl Decoder for MessagesDecoder {
    fn frame(&mut self, name: &str, data: &str, out: &mut Events) -> Result<()> {
        if let Some(text) = self.repeated.text(data) {
            return self.piece(self.repeated_index, text, out);
        }

        if name == BLOCK_DELTA
            && let Ok(event) = serde_json::from_str::<BlockDelta<'_>>(data)
        {
            return self.delta(event, data, out);
        }

        let Some(event) = self.parse(data)? else {
            return Ok(());
        };

        let missing = |what: &str| unreadable(what, data, &self.secrets);
        match event.kind.as_str() {
            BLOCK_DELTA => {
                let event = serde_json::from_str(data);
                self.delta(
                    event.map_err(|_| missing("an unreadable delta"))?,
                    data,
                    out,
                )
            }
            "content_block_start" => {
                let index = event
                    .index
                    .ok_or_else(|| missing("a block without index"))?;
                let block = event
                    .content_block
                    .ok_or_else(|| missing("an empty block"))?;
                self.begin_block(index, block, out)
            }
            "content_block_stop" => {
                let index = event.index.ok_or_else(|| missing("an end without index"))?;
                self.end_block(index, out)
            }
            "message_start" => {
                let message = event.message.ok_or_else(|| missing("an empty message"))?;
                self.start(&message, out)
            }
            "message_delta" => self.message_delta(event.delta.as_ref(), event.usage.as_ref(), out),
            "message_stop" => self.stop(out),
            "error" => Err(status::from_event(data, &self.secrets)),
            _ => Ok(()),
        }
    }

    fn document(&mut self, body: &str, out: &mut Events) -> Result<()> {
        #[derive(Deserialize)]
        struct Kind<'a> {
            #[serde(borrow, rename = "type", default)]
            kind: Str<'a>,
        }

        let unreadable = || unreadable("an unreadable answer", body, &self.secrets);
        let kind: Kind<'_> = serde_json::from_str(body).map_err(|_| unreadable())?;
        if kind.kind.as_str() == "error" {
            return Err(status::from_event(body, &self.secrets));
        }

        if kind.kind.as_str() != "message" {
            return Err(unreadable());
        }

        let message: WireMessage<'_> = serde_json::from_str(body).map_err(|_| unreadable())?;
        let ending: Ending<'_> = serde_json::from_str(body).map_err(|_| unreadable())?;
        self.start(&message, out)?;
        for (index, block) in (0..).zip(message.content.iter().flatten()) {
            self.begin_block(index, block, out)?;
            self.end_block(index, out)?;
        }

        self.end(&ending, out)?;
        self.stop(out)
    }

    fn finish(&mut self, _out: &mut Events) -> Result<()> {
        Err(truncated())
    }

    fn is_done(&self) -> bool {
        self.is_done
    }
}

/// Reads the text and the citations with which a block begins.
fn begin_text(open_text: &mut OpenText, block: WireBlock<'_>, out: &mut Events) -> Result<()> {
    if let Some(text) = block.text.filter(|text| !text.is_empty()) {
        open_text.has_text = true;
        out.push_text(text.0);
    }

    let citations: Vec<&RawValue> = block
        .citations
        .map(|list| serde_json::from_str(list.get()))
        .and_then(Result::ok)
        .unwrap_or_default();
    for citation in citations {
        collect_citation(open_text, citation, out)?;
    }
    Ok(())
}

fn collect_citation(text: &mut OpenText, citation: &RawValue, out: &mut Events) -> Result<()> {
    out.collect_bytes(citation.get().len() + RAW_DELTA)?;
    out.collect_values(citation.get())?;
    text.add_citation(citation);
    Ok(())
}

fn protocol_error(what: impl std::fmt::Display) -> Error {
    Error::new(
        ErrorKind::Protocol,
        format!("the stream breaks the protocol: {what}"),
    )
}
