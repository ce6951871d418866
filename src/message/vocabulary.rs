//! Exact token counts.

use std::fmt;

use bpe_openai::Tokenizer;

use super::tokens::TokenCounter;

/// Counts text with one of OpenAI's vocabularies, which are inside the binary.
///
/// Text and arguments are exact for the models that use the vocabulary; pictures, documents and
/// the frame of a message stay estimates. For other providers it is an estimate that beats
/// counting bytes.
///
/// ```
/// use agentcore::message::{BpeCounter, TokenCounter};
///
/// assert_eq!(BpeCounter::o200k().count_text("hello world"), 2);
/// ```
#[derive(Clone, Copy)]
pub struct BpeCounter {
    name: &'static str,
    tokenizer: &'static Tokenizer,
}

impl BpeCounter {
    /// `o200k_base`: GPT-4o and later.
    pub fn o200k() -> Self {
        Self {
            name: "o200k_base",
            tokenizer: bpe_openai::o200k_base(),
        }
    }

    /// `cl100k_base`: GPT-4 and GPT-3.5.
    pub fn cl100k() -> Self {
        Self {
            name: "cl100k_base",
            tokenizer: bpe_openai::cl100k_base(),
        }
    }
}

impl fmt::Debug for BpeCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BpeCounter").field(&self.name).finish()
    }
}

impl TokenCounter for BpeCounter {
    fn count_text(&self, text: &str) -> u64 {
        self.tokenizer.count(text) as u64
    }
}
