//! How many tokens a history takes.

use std::io;

use serde_json::Value;

use super::chain::Messages;
use super::message::Message;
use super::part::{Part, ToolCall};

impl Messages {
    /// A rough count: for every message, and every call's arguments as the model wrote them, one
    /// token for four bytes, rounded down.
    ///
    /// Calls built in code have no such text and count nothing. A run uses a [`TokenCounter`],
    /// which looks at everything.
    ///
    /// ```
    /// use agentcore::Messages;
    ///
    /// assert_eq!(Messages::new().system("You are helpful.").human("What is 2+2?").estimate_tokens(), 7);
    /// ```
    pub fn estimate_tokens(&self) -> u64 {
        let of_message = |message: &Message| {
            let raw = |call: &ToolCall| call.raw_args.as_deref().map_or(0, str::len) / 4;
            let calls: usize = message.tool_calls().map(raw).sum();
            (message.content().text_len() / 4 + calls) as u64
        };
        self.iter().map(of_message).sum()
    }
}

/// Counts tokens, exactly or not.
///
/// Only [`count_text`](TokenCounter::count_text) must be written; the rest builds on it.
pub trait TokenCounter: Send + Sync {
    /// The tokens of a text.
    fn count_text(&self, text: &str) -> u64;

    /// The tokens of a message: its parts, and 4 for what frames them.
    fn count_message(&self, message: &Message) -> u64 {
        let parts = message.content().parts().iter();
        let parts: u64 = parts.map(|part| self.count_part(part)).sum();
        let name = message
            .as_tool_result()
            .map_or(0, |result| self.count_text(&result.name));
        PER_MESSAGE + parts + name
    }

    /// The tokens of one part. A picture counts 1,600, a document 3,000.
    fn count_part(&self, part: &Part) -> u64 {
        match part {
            Part::Text(text) => self.count_text(text),
            Part::ToolCall(call) => self.count_text(&call.name) + self.count_args(call),
            Part::Thinking(block) | Part::Opaque(block) => self.count_text(block.raw.get()),
            Part::Image(_) => PER_IMAGE,
            Part::Document(_) => PER_DOCUMENT,
        }
    }

    /// The tokens of a call's arguments, as the model wrote them or else as JSON.
    fn count_args(&self, call: &ToolCall) -> u64 {
        match &call.raw_args {
            Some(raw) => self.count_text(raw),
            None => self.count_text(&call.args.to_string()),
        }
    }

    /// The tokens of a history.
    fn count_messages(&self, messages: &Messages) -> u64 {
        messages.iter().map(|m| self.count_message(m)).sum()
    }
}

/// Tokens that frame a message: its role and the marks around it.
const PER_MESSAGE: u64 = 4;

/// Tokens a picture counts as: what the Messages API charges for the largest it does not scale
/// down.
const PER_IMAGE: u64 = 1_600;

/// Tokens a document counts as: about what one page of a PDF takes, text and picture. How many
/// pages there are cannot be told without reading it.
const PER_DOCUMENT: u64 = 3_000;

/// Estimates without a vocabulary: a token for four bytes of text, rounded up, and one for each
/// Chinese, Japanese or Korean character.
///
/// ```
/// use agentcore::{Message, message::{EstimateCounter, TokenCounter}};
///
/// assert_eq!(EstimateCounter.count_text("eight ch"), 2);
/// assert_eq!(EstimateCounter.count_text("東京"), 2);
/// assert_eq!(EstimateCounter.count_message(&Message::human("x".repeat(100))), 25 + 4);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct EstimateCounter;

impl TokenCounter for EstimateCounter {
    fn count_text(&self, text: &str) -> u64 {
        if text.is_ascii() {
            return (text.len() as u64).div_ceil(4);
        }
        let (mut bytes, mut wide) = (0_u64, 0_u64);
        for c in text.chars() {
            match c as u32 {
                // From the CJK radicals on (Hangul, kana, ideographs; then emoji): vocabularies
                // hold few of them in groups.
                0x2E80.. => wide += 1,
                _ => bytes += c.len_utf8() as u64,
            }
        }
        bytes.div_ceil(4) + wide
    }

    fn count_args(&self, call: &ToolCall) -> u64 {
        match &call.raw_args {
            Some(raw) => self.count_text(raw),
            None => json_len(&call.args).div_ceil(4),
        }
    }
}

/// How long the value is as JSON, without writing it down.
fn json_len(value: &Value) -> u64 {
    struct Length(u64);

    impl io::Write for Length {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len() as u64;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    let mut length = Length(0);
    match serde_json::to_writer(&mut length, value) {
        Ok(()) => length.0,
        Err(_) => unreachable!("a value has string keys, and a counter takes everything"),
    }
}
