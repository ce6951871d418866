//! The decoder of the Responses API: from the events of a stream, or a whole response, to model
//! events.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use futures::Stream;
use serde_json::value::RawValue;

use crate::error::{Error, Result};
use crate::model::{ModelEvent, ModelStream, ResponseHead, StopReason};
use crate::usage::Usage;

use super::super::calls::CallIds;
use super::super::decode::{Framing, recorded};
use super::super::decoder::{Decoder, truncated, unreadable};
use super::super::encode::EncodedCalls;
use super::super::events::Events;
use super::super::http::Secrets;
use super::super::repeated::{Repeated, string};
use super::super::status;
use super::super::transformations;
use super::PROVIDER;
use super::events::{
    DeltaEvent, DeltaKind, DeltaPlace, ItemEvent, Kind, ResponseEvent, WireItem, WireResponse,
};
use super::items::{
    ItemState, OpenItem, StreamedCall, StreamedReasoning, StreamedText, protocol_error,
};

/// Decodes one answer.
///
/// Output items are emitted in the order of their indexes: events of the first open item at once,
/// events of other items when all earlier items have ended. A text that differs from its deltas is
/// an error; for calls and reasoning the whole item is used.
pub(super) struct ResponsesDecoder {
    /// The provider's name in blocks.
    tag: Arc<str>,
    request_id: Option<Arc<str>>,
    secrets: Secrets,
    ids: CallIds,
    is_started: bool,
    open_items: BTreeMap<u64, OpenItem>,
    ended_items: BTreeSet<u64>,
    call_count: u32,
    is_refused: bool,
    is_done: bool,
    /// The text around the piece and the number of a delta.
    repeated: Repeated<2>,
    /// The place of the deltas that `repeated` recognizes.
    repeated_place: Option<DeltaPlace>,
}

impl ResponsesDecoder {
    /// Creates the decoder of the response to a request with `encoded_calls`, whose ids are not
    /// used again.
    pub(super) fn new(
        tag: Arc<str>,
        request_id: Option<Arc<str>>,
        encoded_calls: EncodedCalls,
        secrets: Secrets,
    ) -> Self {
        Self {
            tag,
            request_id,
            secrets,
            ids: CallIds::new(encoded_calls),
            is_started: false,
            open_items: BTreeMap::new(),
            ended_items: BTreeSet::new(),
            call_count: 0,
            is_refused: false,
            is_done: false,
            repeated: Repeated::default(),
            repeated_place: None,
        }
    }

    fn read<'a, T: serde::Deserialize<'a>>(&self, data: &'a str) -> Result<T> {
        serde_json::from_str(data).map_err(|error| {
            unreadable("an event cannot be read", data, &self.secrets).with_source(error)
        })
    }

    fn read_item<'a>(&self, raw: &'a RawValue) -> Result<WireItem<'a>> {
        if raw.get().starts_with('{') {
            self.read(raw.get())
        } else {
            Err(protocol_error("an item is no object"))
        }
    }

    fn start(&mut self, id: &str, model: &str, out: &mut Events) {
        if self.is_started {
            return;
        }

        self.is_started = true;
        self.ids.set_response(id);
        let mut head = ResponseHead::new(id, model);
        head.request_id = self.request_id.take();
        out.push(ModelEvent::Start(Box::new(head)));
    }

    fn begin_item(&mut self, index: u64, item: &WireItem<'_>, out: &mut Events) -> Result<()> {
        if self.open_items.contains_key(&index) || self.ended_items.contains(&index) {
            return Err(protocol_error(format!("item {index} began twice")));
        }

        self.start("", "", out);
        out.collect_block()?;
        let state = match &*item.kind.0 {
            "message" => ItemState::Message(StreamedText::default()),
            "function_call" => return self.begin_call(index, item, out),
            "reasoning" => ItemState::Reasoning(StreamedReasoning::default()),
            _ => ItemState::Other,
        };
        self.open_items.insert(index, OpenItem::new(state));
        Ok(())
    }

    fn begin_call(&mut self, index: u64, item: &WireItem<'_>, out: &mut Events) -> Result<()> {
        out.collect_call(&item.call_id.0, &item.name.0)?;
        let number = self.call_count;
        self.call_count += 1;
        let id = self.ids.assign(&item.call_id.0, number as usize);
        let name: Arc<str> = (&*item.name.0).into();
        let state = ItemState::Call(StreamedCall {
            number,
            id: id.clone(),
            name: name.clone(),
            has_deltas: false,
        });
        self.open_items.insert(index, OpenItem::new(state));
        let start = ModelEvent::ToolCallStart {
            index: number,
            id,
            name,
        };
        self.emit(index, start, out)
    }

    /// Emits an event of an item, at once if the item is the first that is open.
    fn emit(&mut self, index: u64, event: ModelEvent, out: &mut Events) -> Result<()> {
        let is_first = self
            .open_items
            .first_key_value()
            .is_none_or(|(first, _)| *first == index);
        match self.open_items.get_mut(&index) {
            Some(item) if !is_first => return item.wait(event, out),
            _ => push(event, out),
        }
        Ok(())
    }

    /// Returns the index of the item of an event; one without an index belongs to the item that
    /// began last.
    fn index_of(&self, index: Option<u64>) -> u64 {
        let last_index = self.open_items.last_key_value().map(|(index, _)| *index);
        index.or(last_index).unwrap_or_default()
    }

    /// Returns the index for an item that begins without one.
    fn next_index(&self) -> u64 {
        let open = self.open_items.last_key_value().map(|(index, _)| *index);
        let last_index = open.max(self.ended_items.last().copied());
        last_index.map_or(0, |index| index.saturating_add(1))
    }

    fn delta(&mut self, kind: DeltaKind, data: &str, out: &mut Events) -> Result<()> {
        if let Some((place, text)) = self.repeated(kind, data) {
            return self.piece(place, text, out);
        }

        let event: DeltaEvent<'_> = self.read(data)?;
        let place = event.place(kind);
        if let Some(number) = event.sequence_number {
            let values = [&*event.delta.0, number.get()];
            if self.repeated.learn_values(data, values) {
                self.repeated_place = Some(place);
            }
        }
        self.piece(place, event.delta.0, out)
    }

    /// Returns the text of a delta that differs from one before in its number and its text alone.
    fn repeated<'a>(&self, kind: DeltaKind, data: &'a str) -> Option<(DeltaPlace, Cow<'a, str>)> {
        let place = self.repeated_place.filter(|place| place.kind == kind)?;
        let [text, _] = self.repeated.values(data)?;
        Some((place, string(text)?))
    }

    /// Emits a piece of an item. Pieces of a kind that the item does not have are ignored.
    fn piece(&mut self, place: DeltaPlace, text: Cow<'_, str>, out: &mut Events) -> Result<()> {
        let index = self.index_of(place.output_index);
        let Some(item) = self.open_items.get_mut(&index).filter(|item| !item.is_done) else {
            return Err(protocol_error(format!(
                "a delta for item {index}, which is not open"
            )));
        };

        if text.is_empty() {
            return Ok(());
        }

        let event = match (&mut item.state, place.kind) {
            (ItemState::Message(streamed), DeltaKind::Text) => {
                // Further parts of a message are emitted at its end, after the first one's
                // citations.
                if place.content_index > 0 {
                    return Ok(());
                }
                streamed.push(&text);
                ModelEvent::Text(text.into_owned())
            }
            (ItemState::Call(call), DeltaKind::Arguments) => {
                call.has_deltas = true;
                ModelEvent::ToolCallDelta {
                    index: call.number,
                    json: text.into_owned(),
                }
            }
            (ItemState::Reasoning(reasoning), DeltaKind::Reasoning) => {
                let summary = place.summary_index;
                let is_next = reasoning.has_deltas && summary != reasoning.last_summary;
                reasoning.has_deltas = true;
                reasoning.last_summary = summary;
                let gap = if is_next { "\n\n" } else { "" };
                ModelEvent::Thinking(format!("{gap}{text}"))
            }
            _ => return Ok(()),
        };

        self.emit(index, event, out)
    }

    fn end_item(&mut self, index: u64, raw: &RawValue, out: &mut Events) -> Result<()> {
        out.collect_values(raw.get())?;
        let item = self.read_item(raw)?;
        if self.ended_items.contains(&index) {
            return Err(protocol_error(format!("item {index} ended twice")));
        }
        // Some servers announce no items.
        if !self.open_items.contains_key(&index) {
            self.begin_item(index, &item, out)?;
        }

        self.is_refused |= item.has_refusal();
        let Some(open_item) = self.open_items.get_mut(&index) else {
            return Ok(());
        };
        let events = open_item.finish(&item, raw, &self.tag, out)?;
        for event in events {
            self.emit(index, event, out)?;
        }

        if let Some(item) = self.open_items.get_mut(&index) {
            item.is_done = true;
        }
        self.ended_items.insert(index);
        self.release(out);
        Ok(())
    }

    /// Removes the items at the front that have ended, and emits the events that waited for them.
    fn release(&mut self, out: &mut Events) {
        while let Some(mut first) = self.open_items.first_entry() {
            for event in first.get_mut().take_waiting() {
                push(event, out);
            }
            if !first.get().is_done {
                return;
            }
            first.remove();
        }
    }

    /// Ends the answer with the response that the last event has.
    fn end(
        &mut self,
        mut response: WireResponse<'_>,
        is_complete: bool,
        out: &mut Events,
    ) -> Result<()> {
        self.start(&response.id.0, &response.model.0, out);
        self.end_items(&response, is_complete, out)?;
        let warning = transformations::warning(response.input_transformations, &self.secrets);
        if let Some(text) = warning {
            out.push(ModelEvent::Warning(text));
        }
        report_usage(&mut response, out);
        let details = response.incomplete_details.0.unwrap_or_default();
        let reason = match is_complete {
            _ if self.is_refused => StopReason::Refusal,
            false => details.stop_reason(),
            true if self.call_count > 0 => StopReason::ToolUse,
            true => StopReason::EndTurn,
        };
        out.push(ModelEvent::stop(reason));
        self.is_done = true;
        Ok(())
    }

    /// Ends the items that have no end of their own in the stream, with the items of the response
    /// or, if the stream was cut off, unchanged.
    fn end_items(
        &mut self,
        response: &WireResponse<'_>,
        is_complete: bool,
        out: &mut Events,
    ) -> Result<()> {
        let has_items = !self.ended_items.is_empty();
        for (index, raw) in (0..).zip(response.output.iter().flatten()) {
            let is_open = self
                .open_items
                .get(&index)
                .is_some_and(|item| !item.is_done);
            if is_open || !has_items {
                self.end_item(index, raw, out)?;
            }
        }

        for item in self.open_items.values_mut() {
            if is_complete && !item.is_done && matches!(item.state, ItemState::Call(_)) {
                return Err(protocol_error("a call has no end"));
            }
            item.is_done = true;
        }
        self.release(out);
        Ok(())
    }

    fn fail(&mut self, data: &str, out: &mut Events) -> Error {
        if let Ok(mut event) = serde_json::from_str::<ResponseEvent<'_>>(data) {
            report_usage(&mut event.response, out);
        }
        status::from_event(data, &self.secrets)
    }
}

fn push(event: ModelEvent, out: &mut Events) {
    match event {
        ModelEvent::Text(text) => out.push_text(text),
        event => out.push(event),
    }
}

fn report_usage(response: &mut WireResponse<'_>, out: &mut Events) {
    let Some(usage) = response.usage.0.take() else {
        return;
    };
    let mut usage = Usage::from(usage);
    let tools = response.tool_usage.0.take().unwrap_or_default();
    usage.server_tool_requests = tools.requests();
    if !usage.is_zero() {
        out.push(ModelEvent::Usage(usage));
    }
}

impl Decoder for ResponsesDecoder {
    fn frame(&mut self, name: &str, data: &str, out: &mut Events) -> Result<()> {
        let data = data.trim();
        if data.is_empty() || data == "[DONE]" {
            return Ok(());
        }

        let kind = match name {
            "" | "message" => self.read::<Kind<'_>>(data)?.kind.0,
            name => name.into(),
        };
        if let Some(kind) = DeltaKind::of(&kind) {
            return self.delta(kind, data, out);
        }

        match &*kind {
            "response.output_item.added" => {
                let event: ItemEvent<'_> = self.read(data)?;
                let index = event.output_index.0.unwrap_or(self.next_index());
                let item = self.read_item(event.item)?;
                self.begin_item(index, &item, out)
            }
            "response.output_item.done" => {
                let event: ItemEvent<'_> = self.read(data)?;
                let index = self.index_of(event.output_index.0);
                self.end_item(index, event.item, out)
            }
            "response.created" | "response.queued" | "response.in_progress" => {
                let event: ResponseEvent<'_> = self.read(data)?;
                self.start(&event.response.id.0, &event.response.model.0, out);
                Ok(())
            }
            "response.completed" | "response.incomplete" => {
                let event: ResponseEvent<'_> = self.read(data)?;
                self.end(event.response, kind == "response.completed", out)
            }
            "response.failed" | "error" => Err(self.fail(data, out)),
            _ => Ok(()),
        }
    }

    fn document(&mut self, body: &str, out: &mut Events) -> Result<()> {
        let mut response: WireResponse<'_> = self.read(body)?;
        match &*response.status.0 {
            "completed" => self.end(response, true, out),
            "incomplete" => self.end(response, false, out),
            _ if response.output.is_some() => {
                report_usage(&mut response, out);
                Err(status::from_event(body, &self.secrets))
            }
            _ => Err(unreadable(
                "the answer is not a response",
                body,
                &self.secrets,
            )),
        }
    }

    fn finish(&mut self, _out: &mut Events) -> Result<()> {
        Err(truncated())
    }

    fn is_done(&self) -> bool {
        self.is_done
    }
}

/// Returns the events of a recorded answer: the body of a `/responses` response, streamed or not,
/// in pieces cut anywhere.
///
/// If `body` may be pending, the stream must be polled inside a tokio runtime.
///
/// ```
/// use agentcore::model::ModelEvent;
/// use agentcore::providers::responses;
/// use futures::{StreamExt, executor::block_on, stream};
///
/// let recording = concat!(
///     "event: response.created\n",
///     "data: {\"response\":{\"id\":\"resp_1\",\"model\":\"gpt-6-luna\"}}\n\n",
///     "event: response.output_item.added\n",
///     "data: {\"output_index\":0,\"item\":{\"type\":\"message\"}}\n\n",
///     "event: response.output_text.delta\n",
///     "data: {\"output_index\":0,\"content_index\":0,\"delta\":\"Hello\"}\n\n",
///     "event: response.completed\n",
///     "data: {\"response\":{\"status\":\"completed\"}}\n\n",
/// );
/// let body = stream::iter([Ok(recording.into())]);
/// let events: Vec<_> = block_on(responses::decode(body).collect());
/// assert!(matches!(events[1], Ok(ModelEvent::Text(ref text)) if text == "Hello"));
/// ```
pub fn decode(body: impl Stream<Item = Result<Bytes>> + Send + 'static) -> ModelStream {
    recorded(PROVIDER, Framing::Sse, body, |secrets| {
        ResponsesDecoder::new(PROVIDER.into(), None, EncodedCalls::default(), secrets)
    })
}
