//! Exact token counts.

use std::fmt;

use bpe_openai::Tokenizer;

use super::tokens::TokenCounter;
use crate::util::text::floor_char_boundary;

/// The maximum size of a text that is counted as a whole, in bytes. Counting takes time in
/// proportion to the text, and the loop waits for it.
const MAX_COUNTED: usize = 256 * 1024;
/// The samples of a longer text, and the bytes of each.
const SAMPLES: usize = 16;
const SAMPLE_LEN: usize = MAX_COUNTED / SAMPLES;

/// Counts text with one of OpenAI's vocabularies, which are compiled into the binary.
///
/// Text and arguments are exact for the models that use the vocabulary; images, documents and the
/// frame of a message stay estimates. In a text longer than 256 KiB, samples of 256 KiB in all are
/// counted, and the remaining text is estimated from the samples. For other providers the count is
/// an estimate that is better than counting bytes.
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
    /// Creates a counter with the vocabulary `o200k_base`, of GPT-4o and later models.
    pub fn o200k() -> Self {
        Self {
            name: "o200k_base",
            tokenizer: bpe_openai::o200k_base(),
        }
    }

    /// Creates a counter with the vocabulary `cl100k_base`, of GPT-4 and GPT-3.5.
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
        if text.len() <= MAX_COUNTED {
            return self.tokenizer.count(text) as u64;
        }

        let mut tokens = 0;
        let mut counted_bytes = 0;
        for number in 0..SAMPLES {
            let offset = (text.len() - SAMPLE_LEN) / (SAMPLES - 1) * number;
            let start = floor_char_boundary(text, offset);
            let end = floor_char_boundary(text, offset + SAMPLE_LEN);
            tokens += self.tokenizer.count(&text[start..end]) as u128;
            counted_bytes += (end - start) as u128;
        }

        let text_tokens = (tokens * text.len() as u128).div_ceil(counted_bytes);
        u64::try_from(text_tokens).unwrap_or(u64::MAX)
    }
}
