//! The prices of tokens.

use serde::{Deserialize, Serialize};

use crate::usage::Usage;

/// The price of a long cache write as a multiple of the price of input, if it is not known. It is
/// the highest multiple that a provider charges.
const LONG_WRITE: f64 = 2.5;

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
    /// Prompt tokens written to a cache that lives long: 1 hour at Anthropic, 12 hours at OpenAI.
    pub cache_write_long: f64,
    /// The prices of calls with a long prompt, if they differ. They apply to all tokens of the
    /// call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub long: Option<LongPrices>,
}

/// The prices of a call whose prompt is long, in US dollars per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LongPrices {
    /// The prompt is long if it has more tokens than this, including cached tokens.
    pub over: u64,
    /// Prompt tokens outside the cache.
    pub input: f64,
    /// Generated tokens.
    pub output: f64,
    /// Prompt tokens read from the cache.
    pub cache_read: f64,
    /// Prompt tokens written to the cache.
    pub cache_write: f64,
    /// Prompt tokens written to a cache that lives long: 1 hour at Anthropic, 12 hours at OpenAI.
    pub cache_write_long: f64,
}

impl Prices {
    /// Creates prices without a cache: cached tokens have the price of other input.
    pub fn new(input: f64, output: f64) -> Self {
        Self {
            input,
            output,
            cache_read: input,
            cache_write: input,
            cache_write_long: input,
            long: None,
        }
    }

    /// Sets the prices of the cache. If `write` is not the price of input, writes to a cache that
    /// lives long cost at least 2.5 times the input, the highest known multiple, until
    /// [`with_long_cache`](Self::with_long_cache) sets their price.
    #[must_use]
    pub fn with_cache(mut self, read: f64, write: f64) -> Self {
        self.cache_read = read;
        self.cache_write = write;
        let is_input = write == self.input;
        self.cache_write_long = if is_input {
            write
        } else {
            write.max(self.input * LONG_WRITE)
        };
        self
    }

    /// Sets the price of writes to a cache that lives long.
    #[must_use]
    pub fn with_long_cache(mut self, write: f64) -> Self {
        self.cache_write_long = write;
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
            cache_write_long: prices.cache_write_long,
        });
        self
    }

    /// Returns the cost of one call with this usage, in US dollars.
    ///
    /// Add up the costs of calls, not their usages: the price can depend on the length of the
    /// prompt of a call.
    ///
    /// ```
    /// use agentcore::{Usage, model::Prices};
    ///
    /// let prices = Prices::new(3.0, 15.0).with_cache(0.3, 3.75);
    /// let cost = prices.cost(&Usage::new(1000, 500).with_cache(200, 100));
    /// assert!((cost - 0.010935).abs() < 1e-9);
    /// ```
    pub fn cost(&self, usage: &Usage) -> f64 {
        let [input, output, cache_read, cache_write, cache_write_long] = match self.long {
            Some(long) if usage.context_tokens() > long.over => long.all(),
            _ => self.all(),
        };
        let long_writes = usage.cache_write_long_tokens.min(usage.cache_write_tokens);
        let short_writes = usage.cache_write_tokens - long_writes;
        (usage.input_tokens as f64 * input
            + usage.output_tokens as f64 * output
            + usage.cache_read_tokens as f64 * cache_read
            + short_writes as f64 * cache_write
            + long_writes as f64 * cache_write_long)
            / 1e6
    }

    /// Returns `true` if every price is finite and not negative.
    pub(crate) fn are_sound(&self) -> bool {
        let long_prices = self.long.map_or([0.0; 5], |long| long.all());
        let mut prices = self.all().into_iter().chain(long_prices);
        prices.all(|price| price.is_finite() && price >= 0.0)
    }

    /// Input, output, cache reads, writes and long writes.
    fn all(&self) -> [f64; 5] {
        [
            self.input,
            self.output,
            self.cache_read,
            self.cache_write,
            self.cache_write_long,
        ]
    }
}

impl LongPrices {
    /// Input, output, cache reads, writes and long writes.
    fn all(&self) -> [f64; 5] {
        [
            self.input,
            self.output,
            self.cache_read,
            self.cache_write,
            self.cache_write_long,
        ]
    }
}

/// The prices of one length of prompt in the data file.
#[derive(Deserialize)]
struct ListedPrices {
    input: f64,
    output: f64,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
    cache_write_long: Option<f64>,
}

/// [`Prices`] as the data file has them.
#[derive(Deserialize)]
struct PricesData {
    #[serde(flatten)]
    base: ListedPrices,
    long: Option<LongData>,
}

#[derive(Deserialize)]
struct LongData {
    over: u64,
    #[serde(flatten)]
    prices: ListedPrices,
}

impl From<ListedPrices> for Prices {
    fn from(listed: ListedPrices) -> Self {
        let ListedPrices { input, output, .. } = listed;
        let read = listed.cache_read.unwrap_or(input);
        let prices = Self::new(input, output).with_cache(read, listed.cache_write.unwrap_or(input));
        match listed.cache_write_long {
            Some(price) => prices.with_long_cache(price),
            None => prices,
        }
    }
}

impl From<PricesData> for Prices {
    fn from(data: PricesData) -> Self {
        let base = Self::from(data.base);
        match data.long {
            Some(long) => base.with_long(long.over, long.prices.into()),
            None => base,
        }
    }
}
