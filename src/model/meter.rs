//! The size of a response while it streams.

use std::sync::Arc;

use crate::error::Result;
use crate::message::{CITATION_SIZE, Part, ToolCall, dismantle_shared, is_too_deep, text_part_len};
use crate::util::json_size::{JsonSize, escaped_len, escaped_prefix};

use super::event::{ModelEvent, ResponseHead};
use super::limits::{ResponseLimits, UsedLimits, check_call, check_name};
use super::open_calls::OpenCalls;
use super::stop_reason::StopReason;

/// Measures the events of one response against its limits.
///
/// Calls and thinking arrive twice: first in pieces, then whole. The pieces are counted as they
/// arrive. Of the whole, only the bytes that exceed those of its pieces are counted.
#[derive(Debug, Default)]
pub(crate) struct ResponseMeter {
    used: UsedLimits,
    has_started: bool,
    /// The block that the last event belongs to.
    open_block: OpenBlock,
    /// The bytes of the thinking whose complete part has not arrived.
    thinking_bytes: usize,
    open_calls: OpenCalls<IncompleteCall>,
}

/// A call whose end has not arrived.
#[derive(Debug)]
struct IncompleteCall {
    name: Arc<str>,
    /// The number of its bytes received so far.
    bytes: usize,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum OpenBlock {
    #[default]
    None,
    Text,
    Thinking,
}

impl ResponseMeter {
    pub(crate) fn new(limits: ResponseLimits) -> Self {
        Self {
            used: UsedLimits::new(limits),
            ..Self::default()
        }
    }

    /// Returns the size of the response so far, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.used.bytes()
    }

    /// Returns the approximate memory of the response so far, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.used.memory()
    }

    /// Returns the names of the tools whose calls have begun and not ended, in order.
    pub(crate) fn open_names(&self) -> Vec<Arc<str>> {
        let calls = self.open_calls.iter();
        calls.map(|(_, call)| call.name.clone()).collect()
    }

    /// Counts the next event.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::ResponseTooLarge`](crate::ErrorKind::ResponseTooLarge) if a limit is
    /// exceeded. A text is cut to the part that still fits, which belongs to the response; any
    /// other event does not belong to it.
    pub(crate) fn count(&mut self, event: &mut ModelEvent) -> Result<()> {
        let result = self.count_event(event);
        if result.is_err()
            && let ModelEvent::ToolCall(call) | ModelEvent::Part(Part::ToolCall(call)) = event
        {
            // Arguments that a program built may be nested too deeply for a recursive drop.
            dismantle_shared(std::mem::take(&mut call.args));
        }
        result
    }

    fn count_event(&mut self, event: &mut ModelEvent) -> Result<()> {
        match event {
            ModelEvent::Start(head) => self.count_head(head)?,
            ModelEvent::Text(text) => self.count_text(text)?,
            ModelEvent::Thinking(text) => {
                self.enter_block(OpenBlock::Thinking)?;
                let len = escaped_len(text);
                self.used.add_bytes(len)?;
                self.thinking_bytes = self.thinking_bytes.saturating_add(len);
            }
            ModelEvent::ToolCallStart { index, id, name } => {
                check_call(id, name)?;
                self.begin_call()?;
                let bytes = escaped_len(id) + escaped_len(name);
                self.used.add_bytes(bytes)?;
                let name = name.clone();
                self.open_calls
                    .insert(*index, id.clone(), IncompleteCall { name, bytes });
            }
            ModelEvent::ToolCallDelta { index, json } => {
                let len = escaped_len(json);
                self.used.add_bytes(len)?;
                if let Some(call) = self.open_calls.get_mut(*index) {
                    call.bytes = call.bytes.saturating_add(len);
                }
            }
            ModelEvent::ToolCall(call) => self.count_call(call)?,
            ModelEvent::Part(part) => self.count_part(part)?,
            ModelEvent::PartEnd => self.open_block = OpenBlock::None,
            ModelEvent::Restart => *self = Self::new(self.used.limits()),
            ModelEvent::Stop { reason, sequence } => {
                if let Some(StopReason::Other(label)) = reason {
                    check_name("the reason to stop", label)?;
                }

                self.used
                    .add_bytes(sequence.as_deref().map_or(0, str::len))?;
            }
            ModelEvent::Usage(_) | ModelEvent::Warning(_) => {}
        }

        Ok(())
    }

    fn count_head(&mut self, head: &ResponseHead) -> Result<()> {
        check_name("the response's id", &head.id)?;
        check_name("the name of the response's model", &head.model)?;

        // Every start event is emitted, so every one after the first counts.
        if std::mem::replace(&mut self.has_started, true) {
            self.used.add_block()?;
            self.used.add_bytes(head.id.len() + head.model.len())?;
        }
        Ok(())
    }

    /// Counts a piece of text, and cuts it to the part that still fits.
    fn count_text(&mut self, text: &mut String) -> Result<()> {
        if let Err(error) = self.enter_block(OpenBlock::Text) {
            text.clear();
            return Err(error);
        }

        let len = escaped_len(text);
        let room = self.used.room();
        if len > room {
            text.truncate(escaped_prefix(text, room).len());
        }

        self.used.add_bytes(len)
    }

    fn enter_block(&mut self, kind: OpenBlock) -> Result<()> {
        if self.open_block != kind {
            self.open_block = kind;
            self.used.add_block()?;
        }
        Ok(())
    }

    fn begin_call(&mut self) -> Result<()> {
        self.open_block = OpenBlock::None;
        self.used.add_call()?;
        self.used.add_block()
    }

    fn count_call(&mut self, call: &ToolCall) -> Result<()> {
        check_call(&call.id, &call.name)?;
        let counted_bytes = match self.end_call(&call.id) {
            Some(bytes) => bytes,
            None => {
                self.begin_call()?;
                0
            }
        };
        let size = self.count_call_values(call)?;
        self.used.add_bytes(size.saturating_sub(counted_bytes))
    }

    /// Removes the first open call with this id. Returns the number of its bytes received so far.
    fn end_call(&mut self, id: &Arc<str>) -> Option<usize> {
        let index = self.open_calls.find(id)?;
        self.open_calls.remove(index).map(|call| call.bytes)
    }

    /// Counts the JSON values and the memory of a whole call. Returns its size in bytes, which the
    /// caller counts.
    fn count_call_values(&mut self, call: &ToolCall) -> Result<usize> {
        let size = JsonSize::of(&call.args);
        let args = match &call.raw_args {
            Some(raw) => {
                self.used.add_json(raw)?;
                // The parsed values are held in addition to the text, which the caller counts.
                self.used.add_overhead(size.memory);
                escaped_len(raw)
            }
            None => {
                // Calls with arguments that are nested too deeply get an error result and are
                // not counted.
                if !is_too_deep(&call.args) {
                    self.used.add_values(size.values)?;
                }

                // The caller counts the text of the values.
                self.used.add_overhead(size.memory - size.text);
                size.text
            }
        };

        let mut extra = 0;
        if let Some(fields) = &call.extra {
            self.used.add_json(fields.raw.get())?;
            extra = fields.raw.get().len();
        }

        let names = escaped_len(&call.id) + escaped_len(&call.name);
        Ok(names.saturating_add(args).saturating_add(extra))
    }

    fn count_part(&mut self, part: &Part) -> Result<()> {
        let mut counted_bytes = 0;
        let is_streamed =
            self.open_block == OpenBlock::Thinking && matches!(part, Part::Thinking(_));
        if is_streamed {
            counted_bytes = std::mem::take(&mut self.thinking_bytes);
        } else {
            self.used.add_block()?;
        }

        self.open_block = OpenBlock::None;
        let size = match part {
            Part::Text(_) | Part::Image(_) | Part::Document(_) | Part::Audio(_) => {
                text_part_len(part)
            }
            Part::Thinking(block) | Part::Opaque(block) => {
                self.used.add_json(block.raw.get())?;
                block.raw.get().len()
            }
            Part::Annotations(annotations) => {
                if let Some(block) = &annotations.block {
                    self.used.add_json(block.raw.get())?;
                }

                let count = annotations.citations.len();
                self.used.add_overhead(count.saturating_mul(CITATION_SIZE));
                text_part_len(part)
            }
            Part::ToolCall(call) => {
                check_call(&call.id, &call.name)?;
                self.used.add_call()?;
                self.count_call_values(call)?
            }
        };

        self.used.add_bytes(size.saturating_sub(counted_bytes))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::error::ErrorKind;
    use crate::message::{Annotations, Citation, ProviderBlock};

    fn meter(bytes: usize) -> ResponseMeter {
        ResponseMeter::new(ResponseLimits::default().with_max_bytes(bytes))
    }

    fn block(raw: &Value) -> ProviderBlock {
        let raw = serde_json::value::to_raw_value(raw).unwrap();
        ProviderBlock::new("p", raw)
    }

    #[test]
    fn text_over_the_limit_is_cut_at_a_character() {
        let mut meter = meter(4);
        let mut first = ModelEvent::Text("abc".into());
        meter.count(&mut first).unwrap();
        let mut second_event = ModelEvent::Text("éé".into());
        let error = meter.count(&mut second_event).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ResponseTooLarge);
        assert_eq!(second_event, ModelEvent::Text(String::new()));
        assert!(error.text().contains("4 bytes"), "{error}");
        assert!(error.text().contains("max_bytes"), "{error}");
    }

    #[test]
    fn deltas_and_the_complete_block_count_once() {
        let call = ToolCall::from_raw("1", "f", r#"{"a":1}"#);
        let mut meter = meter(100);
        for mut event in [
            ModelEvent::Thinking("Hmm".into()),
            ModelEvent::Part(Part::Thinking(block(&json!({"thinking": "Hmm"})))),
            ModelEvent::ToolCallStart {
                index: 7,
                id: "1".into(),
                name: "f".into(),
            },
            ModelEvent::ToolCallDelta {
                index: 7,
                json: r#"{"a":1}"#.into(),
            },
            ModelEvent::ToolCall(call.clone()),
        ] {
            meter.count(&mut event).unwrap();
        }

        let thinking = r#"{"thinking":"Hmm"}"#.len();
        let whole_call = "1f".len() + r#"{\"a\":1}"#.len();
        assert_eq!(meter.bytes(), thinking + whole_call);
        assert_eq!((meter.used.room(), meter.open_names().len()), (71, 0));
    }

    #[test]
    fn extra_fields_of_a_call_are_counted() {
        let fields = block(&json!({"signature": "x".repeat(90)}));
        let call = ToolCall::from_raw("1", "f", "{}").with_extra(fields.clone());
        let mut small_meter = meter(90);
        let error = small_meter.count(&mut ModelEvent::ToolCall(call.clone()));
        assert_eq!(error.unwrap_err().kind(), ErrorKind::ResponseTooLarge);

        let mut meter = meter(200);
        meter.count(&mut ModelEvent::ToolCall(call)).unwrap();
        assert_eq!(meter.bytes(), "1f{}".len() + fields.raw.get().len());

        let values = ResponseLimits::default().with_max_values(10);
        let fields = block(&json!(vec![0; 20]));
        let call = ToolCall::from_raw("1", "f", "{}").with_extra(fields);
        let error = ResponseMeter::new(values).count(&mut ModelEvent::Part(Part::ToolCall(call)));
        assert!(error.unwrap_err().text().contains("max_values"));
    }

    #[test]
    fn annotations_are_counted() {
        let raw = block(&json!({"annotations": vec![0; 20]}));
        let citation = Citation::new("u").with_title("\"").with_cited_text("xyz");
        let annotations = Annotations::new(vec![citation; 10]).with_block(raw.clone());
        let event = ModelEvent::Part(Part::Annotations(annotations));
        let mut large_meter = meter(1_000);
        large_meter.count(&mut event.clone()).unwrap();
        let bytes = 10 * r#"u\"xyz"#.len() + raw.raw.get().len() + "p".len();
        assert_eq!(large_meter.bytes(), bytes);
        assert!(large_meter.memory() > bytes + 10 * size_of::<Citation>());

        let error = meter(bytes - 1).count(&mut event.clone()).unwrap_err();
        assert!(error.text().contains("max_bytes"), "{error}");
        let values = ResponseLimits::default().with_max_values(10);
        let error = ResponseMeter::new(values).count(&mut event.clone());
        assert!(error.unwrap_err().text().contains("max_values"));
    }

    #[test]
    fn restart_resets_the_count() {
        let mut meter = meter(3);
        for mut event in [
            ModelEvent::Text("abc".into()),
            ModelEvent::Restart,
            ModelEvent::Text("def".into()),
        ] {
            meter.count(&mut event).unwrap();
        }
        let extra_event = &mut ModelEvent::Text("g".into());
        meter.count(extra_event).unwrap_err();
    }

    #[test]
    fn empty_blocks_are_counted() {
        let mut meter = ResponseMeter::new(ResponseLimits::default().with_max_blocks(5));
        let mut count = 0;
        let error = loop {
            let empty = [ModelEvent::Text(String::new()), ModelEvent::PartEnd];
            let result = empty.into_iter().try_for_each(|mut e| meter.count(&mut e));
            match result {
                Ok(()) => count += 1,
                Err(error) => break error,
            }
        };

        assert_eq!(count, 5);
        assert!(error.text().contains("max_blocks"), "{error}");
    }
}
