//! The profile of one model.

use serde::{Deserialize, Serialize};

use crate::usage::Usage;

/// The limits, abilities and prices of a model.
///
/// ```
/// use agentcore::model::{ModelProfile, Prices};
///
/// let local = ModelProfile::default().with_context_window(32_768);
/// assert_eq!(local.max_output_tokens, 8_192);
/// assert!(local.prices.is_none());
/// let paid = local.with_prices(Prices::new(3.0, 15.0));
/// assert!(paid.prices.is_some());
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ModelProfile {
    /// The maximum number of tokens of prompt and answer together.
    pub context_window: u64,
    /// The maximum number of tokens of an answer.
    pub max_output_tokens: u32,
    /// The prices of tokens; `None` when they are unknown.
    pub prices: Option<Prices>,
    /// True if the model accepts images.
    pub images: bool,
    /// True if tokens read from a prompt cache have a price of their own.
    pub prompt_cache: bool,
}

impl Default for ModelProfile {
    /// The assumptions about an unknown model: a window of 128,000 tokens, answers of 8,192, no
    /// prices, images accepted.
    fn default() -> Self {
        Self {
            context_window: 128_000,
            max_output_tokens: 8_192,
            prices: None,
            images: true,
            prompt_cache: false,
        }
    }
}

impl ModelProfile {
    /// Sets the context window, in tokens.
    #[must_use]
    pub fn with_context_window(mut self, tokens: u64) -> Self {
        self.context_window = tokens;
        self
    }

    /// Sets the context window that the server reports, which no answer exceeds.
    #[cfg(feature = "http")]
    pub(crate) fn within(mut self, tokens: u64) -> Self {
        self.context_window = tokens;
        let limit = u32::try_from(tokens).unwrap_or(u32::MAX);
        self.max_output_tokens = self.max_output_tokens.min(limit);
        self
    }

    /// Sets the maximum length of an answer, in tokens.
    #[must_use]
    pub fn with_max_output_tokens(mut self, tokens: u32) -> Self {
        self.max_output_tokens = tokens;
        self
    }

    /// Sets the prices.
    #[must_use]
    pub fn with_prices(mut self, prices: Prices) -> Self {
        self.prices = Some(prices);
        self
    }

    /// Sets whether the model accepts images.
    #[must_use]
    pub fn with_images(mut self, images: bool) -> Self {
        self.images = images;
        self
    }

    /// Sets whether the model has a prompt cache.
    #[must_use]
    pub fn with_prompt_cache(mut self, prompt_cache: bool) -> Self {
        self.prompt_cache = prompt_cache;
        self
    }

    /// The cost of one call of `usage` in US dollars; `None` when the prices are unknown.
    pub fn cost(&self, usage: &Usage) -> Option<f64> {
        Some(self.prices?.cost(usage))
    }
}

/// Prices in US dollars per million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "PricesData")]
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
    /// The prices of every token of a call with a long prompt, where they differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub long: Option<LongPrices>,
}

/// The prices of a call whose prompt is long, in US dollars per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LongPrices {
    /// The prompt is long when it has more tokens than this, cached ones included.
    pub over: u64,
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
    /// Creates prices in USD per million tokens. Tokens of the cache cost as much as other input.
    pub fn new(input: f64, output: f64) -> Self {
        Self {
            input,
            output,
            cache_read: input,
            cache_write: input,
            long: None,
        }
    }

    /// Sets the prices of reading from and writing to the cache.
    #[must_use]
    pub fn with_cache(mut self, read: f64, write: f64) -> Self {
        self.cache_read = read;
        self.cache_write = write;
        self
    }

    /// Sets the prices of calls with a prompt of more than `over` tokens.
    #[must_use]
    pub fn with_long(mut self, over: u64, prices: Prices) -> Self {
        self.long = Some(LongPrices {
            over,
            input: prices.input,
            output: prices.output,
            cache_read: prices.cache_read,
            cache_write: prices.cache_write,
        });
        self
    }

    /// The cost of one call of `usage`, in US dollars.
    ///
    /// Add up the costs of calls, not their usages: the price can depend on how long the prompt
    /// of a call was.
    ///
    /// ```
    /// use agentcore::{Usage, model::Prices};
    ///
    /// let prices = Prices::new(3.0, 15.0).with_cache(0.3, 3.75);
    /// let cost = prices.cost(&Usage::new(1000, 500).with_cache(200, 100));
    /// assert!((cost - 0.010935).abs() < 1e-9);
    /// ```
    pub fn cost(&self, usage: &Usage) -> f64 {
        let [input, output, cache_read, cache_write] = match self.long {
            Some(long) if usage.context_tokens() > long.over => {
                [long.input, long.output, long.cache_read, long.cache_write]
            }
            _ => [self.input, self.output, self.cache_read, self.cache_write],
        };
        (usage.input_tokens as f64 * input
            + usage.output_tokens as f64 * output
            + usage.cache_read_tokens as f64 * cache_read
            + usage.cache_write_tokens as f64 * cache_write)
            / 1e6
    }

    /// Returns `true` if every price is finite and not negative.
    pub(crate) fn are_sound(&self) -> bool {
        let base = [self.input, self.output, self.cache_read, self.cache_write];
        let long_prices = self.long.map_or([0.0; 4], |long| {
            [long.input, long.output, long.cache_read, long.cache_write]
        });
        let mut prices = base.into_iter().chain(long_prices);
        prices.all(|price| price.is_finite() && price >= 0.0)
    }
}

/// [`Prices`] as the data file has them.
#[derive(Deserialize)]
struct PricesData {
    input: f64,
    output: f64,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
    long: Option<LongData>,
}

#[derive(Deserialize)]
struct LongData {
    over: u64,
    input: f64,
    output: f64,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
}

impl From<PricesData> for Prices {
    fn from(data: PricesData) -> Self {
        let prices = |input, output, read: Option<f64>, write: Option<f64>| {
            Self::new(input, output).with_cache(read.unwrap_or(input), write.unwrap_or(input))
        };
        let base = prices(data.input, data.output, data.cache_read, data.cache_write);
        match data.long {
            Some(long) => base.with_long(
                long.over,
                prices(long.input, long.output, long.cache_read, long.cache_write),
            ),
            None => base,
        }
    }
}
