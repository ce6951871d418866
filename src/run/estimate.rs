//! The worst case of a model call, in tokens and money.

use crate::model::{ModelCard, Prices};

/// The worst case of one model call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Estimate {
    pub(crate) input_tokens: u64,
    pub(crate) max_output_tokens: u32,
    /// `None` if the call counts as free.
    pub(crate) price: Option<HighestPrice>,
}

/// The highest prices in USD of a million tokens of input, including input that is written to a
/// cache, and of output, for prompts of any length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HighestPrice {
    input: f64,
    pub(super) output: f64,
}

impl HighestPrice {
    /// Returns the highest prices of the models; `None` if no price is known. A price that is
    /// negative or not a number counts as unknown.
    pub(crate) fn of(cards: &[ModelCard]) -> Option<Self> {
        cards
            .iter()
            .filter_map(|card| card.profile.prices)
            .filter(Prices::are_sound)
            .map(Self::from)
            .reduce(|a, b| Self {
                input: a.input.max(b.input),
                output: a.output.max(b.output),
            })
    }
}

impl From<Prices> for HighestPrice {
    fn from(prices: Prices) -> Self {
        let writes = prices.cache_write.max(prices.cache_write_long);
        let input = prices.input.max(writes);
        let output = prices.output;
        match prices.long {
            Some(long) => {
                let writes = long.cache_write.max(long.cache_write_long);
                Self {
                    input: input.max(long.input).max(writes),
                    output: output.max(long.output),
                }
            }
            None => Self { input, output },
        }
    }
}

impl Estimate {
    pub(super) fn usd(&self, output: u64) -> f64 {
        self.price.map_or(0.0, |price| {
            (self.input_tokens as f64 * price.input + output as f64 * price.output) / 1e6
        })
    }

    pub(super) fn tokens(&self, output: u64) -> u64 {
        self.input_tokens.saturating_add(output)
    }
}
