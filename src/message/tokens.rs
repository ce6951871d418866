//! The estimate of a history's tokens.

use crate::usage::total;
use crate::util::json::json_len;

use super::message::Message;
use super::messages::Messages;
use super::part::{Media, MediaSource, Part, ToolCall};

impl Messages {
    /// Returns a rough estimate: one token for four bytes of the text of each message, and of the
    /// arguments of each call as the model wrote them, each rounded down.
    ///
    /// A call without [`raw_args`](ToolCall::raw_args), such as one created by the program, counts
    /// nothing. A run uses a [`TokenCounter`], which counts everything.
    ///
    /// ```
    /// use agentcore::Messages;
    ///
    /// let messages = Messages::new().system("You are helpful.").human("What is 2+2?");
    /// assert_eq!(messages.estimate_tokens(), 7);
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

/// A counter of tokens, exact or estimated.
///
/// Only [`count_text`](TokenCounter::count_text) is required; the provided methods call it.
pub trait TokenCounter: Send + Sync {
    /// Returns the number of tokens of a text.
    fn count_text(&self, text: &str) -> u64;

    /// Returns the number of tokens of a message: its parts, and 4 for what frames them.
    fn count_message(&self, message: &Message) -> u64 {
        let parts = message
            .content()
            .parts()
            .iter()
            .map(|part| self.count_part(part));
        let name = message
            .as_tool_result()
            .map_or(0, |result| self.count_text(&result.name));
        total(parts.chain([name, PER_MESSAGE]))
    }

    /// Returns the number of tokens of one part. Text, calls and the blocks of providers are
    /// counted as text. The other parts are estimated:
    ///
    /// * an image: 1,600;
    /// * a document of text: the tokens of its text;
    /// * any other document, and a recording: 3,000 for each 100,000 bytes, at least 3,000 and at
    ///   most 300,000; 3,000 if it is at a URL or was uploaded, because its length is not known;
    /// * citations: 0.
    fn count_part(&self, part: &Part) -> u64 {
        match part {
            Part::Text(text) => self.count_text(text),
            Part::ToolCall(call) => total([self.count_text(&call.name), self.count_args(call)]),
            Part::Thinking(block) | Part::Opaque(block) => self.count_text(block.raw.get()),
            Part::Image(_) => PER_IMAGE,
            Part::Document(media) => match media.text() {
                Some(text) => self.count_text(&text),
                None => PER_PAGE * pages(media),
            },
            Part::Audio(media) => PER_PAGE * pages(media),
            Part::Annotations(_) => 0,
        }
    }

    /// Returns the number of tokens of a call's arguments, as the model wrote them or else as JSON.
    fn count_args(&self, call: &ToolCall) -> u64 {
        match &call.raw_args {
            Some(raw) => self.count_text(raw),
            None => self.count_text(&call.args.to_string()),
        }
    }

    /// Returns the number of tokens of a history.
    fn count_messages(&self, messages: &Messages) -> u64 {
        total(messages.iter().map(|m| self.count_message(m)))
    }
}

/// The tokens that frame a message: its role and the marks around it.
const PER_MESSAGE: u64 = 4;

/// The tokens of an image: the Messages API charges this number for the largest image that it
/// does not scale down.
const PER_IMAGE: u64 = 1_600;

/// The tokens of a page of a PDF. The Messages API charges 1,500 to 3,000 tokens for its text, and
/// an image.
const PER_PAGE: u64 = 3_000;

/// The assumed bytes of a page: between a page of text (some 20,000) and a scanned page (some
/// 500,000), so that the estimates of both are wrong by the same factor.
const PAGE_BYTES: u64 = 100_000;

/// The maximum number of pages that are counted. Providers accept few more in a request, and no
/// request that exceeds the window of the model.
const MAX_PAGES: u64 = 100;

/// Returns the estimated number of pages of a document, or of as many bytes of a recording. Uses
/// only the length of the data.
fn pages(media: &Media) -> u64 {
    match &media.source {
        MediaSource::Base64(data) => {
            let bytes = data.len() as u64 / 4 * 3;
            bytes.div_ceil(PAGE_BYTES).clamp(1, MAX_PAGES)
        }
        MediaSource::Url(_) | MediaSource::File { .. } => 1,
    }
}

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
        let mut bytes = 0_u64;
        let mut wide = 0_u64;
        for c in text.chars() {
            match c as u32 {
                // From the CJK radicals on (Hangul, kana, ideographs, emoji), vocabularies have few
                // tokens for groups of characters.
                0x2E80.. => wide += 1,
                _ => bytes += c.len_utf8() as u64,
            }
        }
        bytes.div_ceil(4) + wide
    }

    fn count_args(&self, call: &ToolCall) -> u64 {
        match &call.raw_args {
            Some(raw) => self.count_text(raw),
            None => (json_len(&call.args) as u64).div_ceil(4),
        }
    }
}
