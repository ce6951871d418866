//! The events that a decoder emits.

use std::collections::VecDeque;

use serde_json::value::RawValue;

use crate::error::Result;
use crate::model::{ModelEvent, ResponseLimits, UsedLimits, check_call};

/// Decoded events in the order of the answer.
#[derive(Debug, Default)]
pub(crate) struct Events {
    queue: VecDeque<ModelEvent>,
    /// The events that are held back, if events are.
    held: Option<Vec<ModelEvent>>,
    join: bool,
    /// The size of the parts and calls that the decoder collects, since incomplete ones are in no
    /// event yet.
    collected: UsedLimits,
    /// True if content was added since [`take_new_content`](Self::take_new_content).
    has_new_content: bool,
}

impl Events {
    /// Creates an empty queue for an answer with these limits. With `join`, adjacent pieces of text
    /// become one event, and calls that arrive whole emit no pieces.
    pub(super) fn new(join: bool, limits: ResponseLimits) -> Self {
        Self {
            queue: VecDeque::new(),
            held: None,
            join,
            collected: UsedLimits::new(limits),
            has_new_content: false,
        }
    }

    /// Returns `true` if content of the answer, which its limits count, was added since the last
    /// call. Usage, warnings and the like may be repeated without end.
    pub(super) fn take_new_content(&mut self) -> bool {
        std::mem::take(&mut self.has_new_content)
    }

    /// Returns the number of events in the queue.
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Removes and returns the oldest event.
    pub(super) fn pop(&mut self) -> Option<ModelEvent> {
        self.queue.pop_front()
    }

    /// Returns `true` if adjacent pieces of text become one event, and whole calls emit no pieces.
    pub(super) fn joins(&self) -> bool {
        self.join
    }

    /// Checks the size of a frame before it is read.
    pub(super) fn check_frame(&self, data: &str) -> Result<()> {
        self.collected.check_event(data)
    }

    /// Counts bytes that the decoder is about to collect.
    pub(crate) fn collect_bytes(&mut self, bytes: usize) -> Result<()> {
        self.has_new_content |= bytes > 0;
        self.collected.add_bytes(bytes)
    }

    /// Counts a call that begins with this id and name.
    pub(crate) fn collect_call(&mut self, id: &str, name: &str) -> Result<()> {
        check_call(id, name)?;
        self.has_new_content = true;
        self.collected.add_call()?;
        self.collected.add_bytes(id.len() + name.len())
    }

    /// Counts the values in JSON that is about to be read, or collected.
    pub(crate) fn collect_values(&mut self, json: &str) -> Result<()> {
        self.collected.add_json(json)
    }

    /// Counts JSON that the decoder is about to collect.
    pub(crate) fn collect_json(&mut self, json: &RawValue) -> Result<()> {
        self.collect_bytes(json.get().len())?;
        self.collect_values(json.get())
    }

    /// Returns the maximum number of JSON values in the answer.
    pub(crate) fn max_values(&self) -> usize {
        self.collected.limits().max_values
    }

    /// Counts a block that begins.
    pub(crate) fn collect_block(&mut self) -> Result<()> {
        self.has_new_content = true;
        self.collected.add_block()
    }

    /// Adds an event.
    pub(crate) fn push(&mut self, event: ModelEvent) {
        self.has_new_content |= match &event {
            ModelEvent::Text(text) | ModelEvent::Thinking(text) => !text.is_empty(),
            ModelEvent::ToolCallDelta { json, .. } => !json.is_empty(),
            ModelEvent::ToolCallStart { .. } | ModelEvent::ToolCall(_) | ModelEvent::Part(_) => {
                true
            }
            _ => false,
        };
        self.add(event);
    }

    fn add(&mut self, event: ModelEvent) {
        match &mut self.held {
            Some(held) => held.push(event),
            None => self.queue.push_back(event),
        }
    }

    /// Holds back the events that are added until [`release`](Self::release).
    pub(crate) fn hold(&mut self) {
        self.held.get_or_insert_default();
    }

    /// Emits `first`, then the events that were held back, and holds no further ones.
    pub(crate) fn release(&mut self, first: Option<ModelEvent>) {
        self.queue.extend(first);
        self.queue.extend(self.held.take().into_iter().flatten());
    }

    /// Adds a piece of text. If events are joined, it is appended to the previous piece.
    pub(crate) fn push_text(&mut self, text: impl AsRef<str> + Into<String>) {
        if text.as_ref().is_empty() {
            return;
        }
        self.has_new_content = true;
        match self.queue.back_mut() {
            Some(ModelEvent::Text(last)) if self.join && self.held.is_none() => {
                last.push_str(text.as_ref());
            }
            _ => self.add(ModelEvent::Text(text.into())),
        }
    }
}
