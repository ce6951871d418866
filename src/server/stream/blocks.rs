//! The blocks of one response.

use std::sync::Arc;

use crate::message::{Message, Part, ProviderBlock, ToolCall};
use crate::sdk::{BlockDelta, BlockStart};

use super::json_end::JsonEnd;
use super::step::{Author, CallText, StepKind, ThinkingText};

/// The blocks of one response while it streams.
#[derive(Clone, Debug)]
pub(super) struct ResponseBlocks {
    /// The id of its message.
    id: Arc<str>,
    /// The open block, with its index.
    open: Option<(u32, StreamedBlock)>,
    /// The number of text blocks so far.
    texts: u32,
    /// The number of thinking blocks so far.
    thoughts: u32,
    /// The hash of the texts so far.
    text_hash: Fnv,
    /// The calls whose beginnings have been shown, with their ids for readers.
    calls: Vec<StreamedCall>,
    /// True if the pieces are hidden, because the reader has not been shown the first ones.
    is_muted: bool,
}

/// A block that has begun and not ended.
#[derive(Clone, Debug)]
enum StreamedBlock {
    /// A text, by its id.
    Text(Arc<str>),
    /// A text of reasoning, by its id.
    Thinking(Arc<str>),
    /// A call, by its index among the calls.
    Call(usize),
}

/// A call whose beginning has been shown.
#[derive(Clone, Debug)]
struct StreamedCall {
    id: Arc<str>,
    /// Its id for readers.
    shown_id: Arc<str>,
    /// Detects the end of the arguments.
    args: JsonEnd,
}

/// FNV-1a over texts that arrive in pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fnv(u64);

impl Fnv {
    const NEW: Self = Self(0xcbf2_9ce4_8422_2325);

    fn push(&mut self, text: &str) {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// Receives the steps of one agent.
pub(super) type Sink<'s, 'a> = &'s mut dyn FnMut(StepKind<'a>);

impl ResponseBlocks {
    pub(super) fn new(id: Arc<str>) -> Self {
        Self {
            id,
            open: None,
            texts: 0,
            thoughts: 0,
            text_hash: Fnv::NEW,
            calls: Vec::new(),
            is_muted: false,
        }
    }

    pub(super) fn id(&self) -> &Arc<str> {
        &self.id
    }

    /// Hides the pieces until the response is complete.
    pub(super) fn mute(&mut self) {
        *self = Self::new(self.id.clone());
        self.is_muted = true;
    }

    /// Starts a block. `register` registers a call and returns its id for readers.
    pub(super) fn start(
        &mut self,
        index: u32,
        block: &BlockStart,
        register: impl FnOnce(&Arc<str>, &Arc<str>) -> Arc<str>,
        out: Sink<'_, '_>,
    ) {
        if self.is_muted {
            return;
        }
        self.close(out);
        let open = match block {
            BlockStart::Text => StreamedBlock::Text(self.start_text(out)),
            BlockStart::Thinking => StreamedBlock::Thinking(self.start_thinking(out)),
            BlockStart::ToolUse { id, name } => {
                let shown_id = register(id, name);
                self.start_call(id.clone(), shown_id, name.clone(), out);
                StreamedBlock::Call(self.calls.len() - 1)
            }
            BlockStart::Other(_) => return,
        };
        self.open = Some((index, open));
    }

    /// Extends the open block. A piece of any other block is ignored.
    pub(super) fn grow<'a>(&mut self, index: u32, delta: &'a BlockDelta, out: Sink<'_, 'a>) {
        let Some((_, open)) = self.open.as_ref().filter(|(open, _)| *open == index) else {
            return;
        };
        match (open, delta) {
            (StreamedBlock::Text(id), BlockDelta::Text(text)) if !text.is_empty() => {
                self.text_hash.push(text);
                out(StepKind::TextDelta(id.clone(), text));
            }
            (StreamedBlock::Thinking(id), BlockDelta::Thinking(text)) if !text.is_empty() => {
                out(StepKind::ThinkingDelta(
                    id.clone(),
                    ThinkingText::Piece(text),
                ));
            }
            (StreamedBlock::Call(call_index), BlockDelta::InputJson(json)) if !json.is_empty() => {
                let call = &mut self.calls[*call_index];
                call.args.push(json);
                out(StepKind::CallDelta(
                    call.shown_id.clone(),
                    CallText::Piece(json),
                ));
            }
            _ => {}
        }
    }

    /// Completes a block.
    pub(super) fn stop(&mut self, index: u32, out: Sink<'_, '_>) {
        if self.open.as_ref().is_some_and(|(open, _)| *open == index) {
            self.close(out);
        }
    }

    /// Ends the open block.
    pub(super) fn close(&mut self, out: Sink<'_, '_>) {
        match self.open.take() {
            Some((_, StreamedBlock::Text(id))) => out(StepKind::TextEnd(id)),
            Some((_, StreamedBlock::Thinking(id))) => out(StepKind::ThinkingEnd(id)),
            Some((_, StreamedBlock::Call(call_index))) => {
                out(StepKind::CallEnd(self.calls[call_index].shown_id.clone()));
            }
            None => {}
        }
    }

    /// Completes the response: shows the parts that were not streamed. Returns `false` if it is not
    /// the response that was streamed.
    pub(super) fn finish<'a>(
        &mut self,
        message: &'a Message,
        mut register: impl FnMut(&Arc<str>, &Arc<str>) -> Arc<str>,
        out: Sink<'_, 'a>,
    ) -> bool {
        self.close(out);
        let (has_texts, has_thoughts) = (self.texts > 0, self.thoughts > 0);
        let mut text_hash = Fnv::NEW;
        let mut is_as_streamed = true;
        for part in message.content().parts() {
            match part {
                Part::Text(text) if !text.is_empty() => {
                    text_hash.push(text);
                    if !has_texts {
                        let id = self.start_text(out);
                        out(StepKind::TextDelta(id.clone(), text));
                        out(StepKind::TextEnd(id));
                    }
                }
                Part::Thinking(block) if !has_thoughts => {
                    if let Some(text) = thinking_text(block) {
                        let id = self.start_thinking(out);
                        out(StepKind::ThinkingDelta(
                            id.clone(),
                            ThinkingText::Whole(text),
                        ));
                        out(StepKind::ThinkingEnd(id));
                    }
                }
                Part::ToolCall(call) => {
                    is_as_streamed &= self.finish_call(call, &mut register, out);
                }
                _ => {}
            }
        }
        is_as_streamed && (!has_texts || text_hash == self.text_hash)
    }

    /// Shows the part of a call that was not streamed. Returns `false` if its arguments differ from
    /// the streamed arguments.
    fn finish_call<'a>(
        &mut self,
        call: &'a ToolCall,
        register: &mut impl FnMut(&Arc<str>, &Arc<str>) -> Arc<str>,
        out: Sink<'_, 'a>,
    ) -> bool {
        let streamed_call = self.calls.iter().find(|streamed| streamed.id == call.id);
        let (shown_id, is_as_streamed) = match streamed_call {
            Some(streamed) => {
                let has_no_args = call.args.as_object().is_some_and(serde_json::Map::is_empty);
                let is_empty = streamed.args.is_empty() && has_no_args;
                (
                    streamed.shown_id.clone(),
                    is_empty || streamed.args.is_complete(),
                )
            }
            None => {
                let shown_id = register(&call.id, &call.name);
                self.start_call(call.id.clone(), shown_id.clone(), call.name.clone(), out);
                out(StepKind::CallDelta(shown_id.clone(), CallText::Whole(call)));
                out(StepKind::CallEnd(shown_id.clone()));
                (shown_id, true)
            }
        };
        out(StepKind::CallReady(shown_id, call));
        is_as_streamed
    }

    /// Returns the ids of the calls whose beginnings have been shown.
    pub(super) fn call_ids(&self) -> impl Iterator<Item = &Arc<str>> {
        self.calls.iter().map(|call| &call.id)
    }

    fn start_text(&mut self, out: Sink<'_, '_>) -> Arc<str> {
        let id = text_id(&self.id, self.texts);
        self.texts += 1;
        out(StepKind::TextStart(id.clone(), Author::Assistant));
        id
    }

    fn start_thinking(&mut self, out: Sink<'_, '_>) -> Arc<str> {
        let id = thinking_id(&self.id, self.thoughts);
        self.thoughts += 1;
        out(StepKind::ThinkingStart(id.clone()));
        id
    }

    fn start_call(&mut self, id: Arc<str>, shown_id: Arc<str>, name: Arc<str>, out: Sink<'_, '_>) {
        let message_id = self.id.clone();
        out(StepKind::CallStart(shown_id.clone(), name, message_id));
        self.calls.push(StreamedCall {
            id,
            shown_id,
            args: JsonEnd::new(),
        });
    }
}

/// Returns the id of a message's text block with this number, from 0.
pub(super) fn text_id(message_id: &Arc<str>, number: u32) -> Arc<str> {
    match number {
        0 => message_id.clone(),
        _ => format!("{message_id}.{number}").into(),
    }
}

/// Returns the id of a message's thinking block with this number, from 0.
pub(super) fn thinking_id(message_id: &str, number: u32) -> Arc<str> {
    format!("{message_id}.r{number}").into()
}

/// Returns the text of a block of reasoning; `None` if it is encrypted or has another form.
pub(super) fn thinking_text(block: &ProviderBlock) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Wire {
        thinking: Option<String>,
        text: Option<String>,
    }

    let wire: Wire = serde_json::from_str(block.raw.get()).ok()?;
    let text = wire.thinking.or(wire.text)?;
    Some(text).filter(|text| !text.is_empty())
}
