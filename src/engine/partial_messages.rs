//! A model's events as stream events of the Messages API.

use std::sync::Arc;

use serde_json::json;

use crate::message::{AssistantMessage, Message, Part, ToolCall};
use crate::model::{ModelEvent, OpenCalls, ResponseHead};
use crate::sdk::block::PROVIDER;
use crate::sdk::citations::citation_values;
use crate::sdk::{ApiMessage, ApiStreamEvent, BlockDelta, BlockStart};
use crate::usage::Usage;

/// The kind of the open block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OpenBlockKind {
    None,
    Text,
    Thinking,
    /// A call, by the model's own number for it.
    Call(u32),
}

/// Turns the events of one attempt into stream events, and numbers the blocks in order of arrival.
#[derive(Debug)]
pub(super) struct Partials {
    open_block: OpenBlockKind,
    /// The index of the open block; if none is open, of the next one.
    block_index: u32,
    usage: Usage,
    /// The model's numbers of the incomplete calls, by id. Some models begin all calls before they
    /// complete one.
    incomplete_calls: OpenCalls<()>,
}

impl Partials {
    pub(super) fn new() -> Self {
        Self {
            open_block: OpenBlockKind::None,
            block_index: 0,
            usage: Usage::default(),
            incomplete_calls: OpenCalls::default(),
        }
    }

    /// Hands the stream events for `event` to `out`, in order.
    pub(super) fn push(&mut self, event: ModelEvent, out: &mut dyn FnMut(ApiStreamEvent)) {
        match event {
            ModelEvent::Start(head) => out(start(*head)),
            ModelEvent::Text(text) => {
                self.begin_block(OpenBlockKind::Text, || BlockStart::Text, out);
                self.emit_delta(BlockDelta::Text(text), out);
            }
            ModelEvent::Thinking(text) => {
                self.begin_block(OpenBlockKind::Thinking, || BlockStart::Thinking, out);
                self.emit_delta(BlockDelta::Thinking(text), out);
            }
            ModelEvent::ToolCallStart { index, id, name } => {
                self.incomplete_calls.insert(index, id.clone(), ());
                self.begin_block(
                    OpenBlockKind::Call(index),
                    || BlockStart::ToolUse { id, name },
                    out,
                );
            }
            ModelEvent::ToolCallDelta { index, json }
                if self.open_block == OpenBlockKind::Call(index) =>
            {
                self.emit_delta(BlockDelta::InputJson(json), out);
            }
            // A delta of a call whose block is closed is not emitted.
            ModelEvent::ToolCallDelta { .. } => {}
            ModelEvent::ToolCall(call) => {
                let index = self.incomplete_calls.find(&call.id);
                if let Some(index) = index {
                    self.incomplete_calls.remove(index);
                }
                match index {
                    Some(index) if self.open_block == OpenBlockKind::Call(index) => {
                        self.end_block(out);
                    }
                    // Its block was closed when the next one began.
                    Some(_) => {}
                    None => self.emit_whole_call(call, out),
                }
            }
            ModelEvent::Part(part) => self.emit_part(&part, out),
            ModelEvent::PartEnd => self.end_block(out),
            ModelEvent::Usage(usage) => self.usage = usage,
            ModelEvent::Stop { reason, sequence } => {
                self.end_block(out);
                out(ApiStreamEvent::MessageDelta {
                    stop_reason: reason.map(|reason| Arc::from(reason.as_str())),
                    stop_sequence: sequence,
                    usage: self.usage,
                });

                out(ApiStreamEvent::MessageStop);
            }
            ModelEvent::Restart => *self = Self::new(),
            ModelEvent::Warning(_) => {}
        }
    }

    /// Emits a complete call as a block with one delta.
    fn emit_whole_call(&mut self, call: ToolCall, out: &mut dyn FnMut(ApiStreamEvent)) {
        let json = call
            .raw_args
            .as_deref()
            .map(str::to_owned)
            .unwrap_or_else(|| call.args.to_string());
        let block = BlockStart::ToolUse {
            id: call.id,
            name: call.name,
        };
        self.end_block(out);
        self.begin_block(OpenBlockKind::Call(u32::MAX), || block, out);
        self.emit_delta(BlockDelta::InputJson(json), out);
        self.end_block(out);
    }

    /// Emits a complete part. Thinking whose deltas were emitted only closes its block, and
    /// citations close the block of their text. Any other block of the Messages API is a block of
    /// its own. All other parts, such as blocks of other providers, close the open block and are
    /// omitted.
    fn emit_part(&mut self, part: &Part, out: &mut dyn FnMut(ApiStreamEvent)) {
        match part {
            Part::Thinking(_) if self.open_block == OpenBlockKind::Thinking => self.end_block(out),
            Part::Thinking(block) | Part::Opaque(block) if block.is_for(PROVIDER) => {
                if let Ok(value) = serde_json::from_str(block.raw.get()) {
                    self.end_block(out);
                    out(ApiStreamEvent::ContentBlockStart {
                        index: self.block_index,
                        block: BlockStart::Other(value),
                    });

                    out(ApiStreamEvent::ContentBlockStop {
                        index: self.block_index,
                    });

                    self.block_index += 1;
                }
            }
            Part::Annotations(annotations) if self.open_block == OpenBlockKind::Text => {
                for citation in citation_values(annotations) {
                    let delta = json!({"type": "citations_delta", "citation": citation});
                    self.emit_delta(BlockDelta::Other(delta), out);
                }

                self.end_block(out);
            }
            _ => self.end_block(out),
        }
    }

    fn begin_block(
        &mut self,
        kind: OpenBlockKind,
        block: impl FnOnce() -> BlockStart,
        out: &mut dyn FnMut(ApiStreamEvent),
    ) {
        if self.open_block == kind {
            return;
        }
        self.end_block(out);
        self.open_block = kind;
        let index = self.block_index;
        let block = block();
        out(ApiStreamEvent::ContentBlockStart { index, block });
    }

    fn emit_delta(&self, delta: BlockDelta, out: &mut dyn FnMut(ApiStreamEvent)) {
        let index = self.block_index;
        out(ApiStreamEvent::ContentBlockDelta { index, delta });
    }

    fn end_block(&mut self, out: &mut dyn FnMut(ApiStreamEvent)) {
        if self.open_block == OpenBlockKind::None {
            return;
        }
        self.open_block = OpenBlockKind::None;
        let index = self.block_index;
        self.block_index += 1;
        out(ApiStreamEvent::ContentBlockStop { index });
    }
}

/// Merges `next` into `last` if both are deltas of the same kind for one block; returns `next`
/// otherwise.
pub(super) fn join(last: &mut ApiStreamEvent, next: ApiStreamEvent) -> Option<ApiStreamEvent> {
    use ApiStreamEvent::ContentBlockDelta;
    let ContentBlockDelta {
        index: last_index,
        delta,
    } = last
    else {
        return Some(next);
    };

    match next {
        ContentBlockDelta {
            index,
            delta: suffix,
        } if index == *last_index => {
            let suffix = append_delta(delta, suffix)?;
            Some(ContentBlockDelta {
                index,
                delta: suffix,
            })
        }
        next => Some(next),
    }
}

/// Appends `more` to `delta`. Returns `more` if it is of another kind.
fn append_delta(delta: &mut BlockDelta, more: BlockDelta) -> Option<BlockDelta> {
    use BlockDelta::{InputJson, Text, Thinking};
    match (delta, more) {
        (Text(text), Text(more)) | (Thinking(text), Thinking(more)) => text.push_str(&more),
        (InputJson(json), InputJson(more)) => json.push_str(&more),
        (_, more) => return Some(more),
    }
    None
}

fn start(head: ResponseHead) -> ApiStreamEvent {
    let empty = Arc::new(Message::Assistant(AssistantMessage::default()));
    ApiStreamEvent::MessageStart {
        message: Box::new(ApiMessage::new(head.id, head.model, empty)),
    }
}
