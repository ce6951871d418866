//! The stream's events, as JSON.
//!
//! Deltas, of which there are many, have a small struct of their own; all other events share one.
//! What an event does not have stays `None`, and strings are borrowed unless they hold escapes.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::usage::Usage;

use super::super::json::{Piece, Str};
use super::super::lenient::Count;

/// The SSE event and the JSON type of deltas.
pub(super) const BLOCK_DELTA: &str = "content_block_delta";

#[derive(Deserialize)]
pub(super) struct BlockDelta<'a> {
    pub(super) index: u32,
    #[serde(borrow)]
    pub(super) delta: Delta<'a>,
}

#[derive(Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(borrow)]
    pub(super) text: Option<Piece<'a>>,
    #[serde(borrow)]
    pub(super) partial_json: Option<Piece<'a>>,
    #[serde(borrow)]
    pub(super) thinking: Option<Piece<'a>>,
    #[serde(borrow)]
    pub(super) signature: Option<Str<'a>>,
}

/// Any event but a delta.
#[derive(Deserialize)]
pub(super) struct Event<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Str<'a>,
    pub(super) index: Option<u32>,
    #[serde(borrow)]
    pub(super) delta: Option<Ending<'a>>,
    #[serde(borrow)]
    pub(super) content_block: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) message: Option<Message<'a>>,
    pub(super) usage: Option<WireUsage>,
}

/// What `message_delta` adds.
#[derive(Deserialize)]
pub(super) struct Ending<'a> {
    #[serde(borrow)]
    pub(super) stop_reason: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) stop_sequence: Option<Str<'a>>,
}

/// A whole message, or the empty one that `message_start` announces.
#[derive(Deserialize)]
pub(super) struct Message<'a> {
    #[serde(borrow)]
    pub(super) id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) model: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) content: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    pub(super) stop_reason: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) stop_sequence: Option<Str<'a>>,
    pub(super) usage: Option<WireUsage>,
}

/// The beginning of a block, or a whole one.
#[derive(Deserialize)]
pub(super) struct Block<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Str<'a>,
    #[serde(borrow)]
    pub(super) id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) name: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) text: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) thinking: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) input: Option<&'a RawValue>,
}

/// Counts so far; what an event leaves out has not changed.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct WireUsage {
    input_tokens: Count,
    output_tokens: Count,
    cache_read_input_tokens: Count,
    cache_creation_input_tokens: Count,
}

impl WireUsage {
    /// Replaces what is reported. Later counts include the earlier ones.
    pub(super) fn update(self, usage: &mut Usage) {
        let put = |slot: &mut u64, count: Count| {
            if let Some(count) = count.0 {
                *slot = count;
            }
        };

        put(&mut usage.input_tokens, self.input_tokens);
        put(&mut usage.output_tokens, self.output_tokens);
        put(&mut usage.cache_read_tokens, self.cache_read_input_tokens);
        put(
            &mut usage.cache_write_tokens,
            self.cache_creation_input_tokens,
        );
    }
}
