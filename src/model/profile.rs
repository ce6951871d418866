//! The profile of one model.

use super::lifecycle::Lifecycle;
use super::prices::Prices;
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
    /// The maximum number of tokens of prompt and response together.
    pub context_window: u64,
    /// The maximum number of tokens of a response.
    pub max_output_tokens: u32,
    /// The prices of tokens; `None` when they are unknown.
    pub prices: Option<Prices>,
    /// True if the model accepts images. Otherwise, an image in a new input is an error before the
    /// request, and a text replaces images in older messages and in results.
    pub images: bool,
    /// True if the model has a prompt cache, whose tokens have their own prices.
    pub prompt_cache: bool,
    /// The dates on which the model was deprecated and ends; `None` if none is known.
    pub lifecycle: Option<Lifecycle>,
}

impl Default for ModelProfile {
    /// Returns the profile of an unknown model: a window of 128,000 tokens, responses of 8,192
    /// tokens, no prices, images, no prompt cache, no dates.
    fn default() -> Self {
        Self {
            context_window: 128_000,
            max_output_tokens: 8_192,
            prices: None,
            images: true,
            prompt_cache: false,
            lifecycle: None,
        }
    }
}

impl ModelProfile {
    /// Creates the profile of a model that no table has: the default, without images for OpenAI's
    /// open models, which many servers offer under their own names.
    pub(crate) fn assumed(id: &str) -> Self {
        Self::default().with_images(!id.contains("gpt-oss"))
    }

    /// Sets the context window, in tokens.
    #[must_use]
    pub fn with_context_window(mut self, tokens: u64) -> Self {
        self.context_window = tokens;
        self
    }

    /// Sets the context window that the server reports, and limits responses to it.
    #[cfg(feature = "http")]
    pub(crate) fn within(mut self, tokens: u64) -> Self {
        self.context_window = tokens;
        let limit = u32::try_from(tokens).unwrap_or(u32::MAX);
        self.max_output_tokens = self.max_output_tokens.min(limit);
        self
    }

    /// Sets the maximum length of a response, in tokens.
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

    /// Sets the dates on which the model was deprecated and ends.
    #[must_use]
    pub fn with_lifecycle(mut self, lifecycle: Lifecycle) -> Self {
        self.lifecycle = Some(lifecycle);
        self
    }

    /// Returns the cost of one call with this usage, in US dollars, or `None` if the prices are
    /// unknown.
    pub fn cost(&self, usage: &Usage) -> Option<f64> {
        Some(self.prices?.cost(usage))
    }
}
