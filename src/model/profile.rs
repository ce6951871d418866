//! What is known about a model.

use serde::{Deserialize, Serialize};

use crate::usage::Usage;

/// USD per million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Prices {
    /// Prompt tokens outside the cache.
    pub input: f64,
    /// Generated tokens.
    pub output: f64,
    /// Prompt tokens read from the cache.
    pub cache_read: f64,
    /// Prompt tokens written to the cache.
    pub cache_write: f64,
}

impl Prices {
    /// Prices without a discount for cached tokens.
    pub fn new(input: f64, output: f64) -> Self {
        Self {
            input,
            output,
            cache_read: input,
            cache_write: input,
        }
    }

    /// The same prices with these for the cache.
    #[must_use]
    pub fn with_cache(mut self, read: f64, write: f64) -> Self {
        self.cache_read = read;
        self.cache_write = write;
        self
    }

    /// What `usage` costs, in USD.
    pub fn cost(&self, usage: &Usage) -> f64 {
        (usage.input_tokens as f64 * self.input
            + usage.output_tokens as f64 * self.output
            + usage.cache_read_tokens as f64 * self.cache_read
            + usage.cache_write_tokens as f64 * self.cache_write)
            / 1e6
    }
}

/// What is known about a model: limits, prices, abilities.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ModelProfile {
    /// The most tokens prompt and answer may have together.
    pub context_window: u64,
    /// The most tokens one answer may have.
    pub max_output_tokens: u32,
    /// What it costs; `None` when unknown.
    pub prices: Option<Prices>,
    /// Whether it takes images.
    pub images: bool,
}

impl Default for ModelProfile {
    /// A window of 128,000 tokens, answers of 8,192, no known price.
    fn default() -> Self {
        Self {
            context_window: 128_000,
            max_output_tokens: 8_192,
            prices: None,
            images: true,
        }
    }
}

impl ModelProfile {
    /// The same profile with another context window.
    #[must_use]
    pub fn with_context_window(mut self, tokens: u64) -> Self {
        self.context_window = tokens;
        self
    }

    /// The same profile with another output limit.
    #[must_use]
    pub fn with_max_output_tokens(mut self, tokens: u32) -> Self {
        self.max_output_tokens = tokens;
        self
    }

    /// The same profile with prices.
    #[must_use]
    pub fn with_prices(mut self, prices: Prices) -> Self {
        self.prices = Some(prices);
        self
    }
}
