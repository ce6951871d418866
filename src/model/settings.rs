//! The settings of a request.

use std::sync::Arc;

use serde_json::Value;

/// Settings that not every model supports. `None` is the provider's default, unless a field states
/// otherwise. A provider omits settings that its API does not have.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ModelSettings {
    /// The amount of thinking before the response.
    pub thinking: Option<ThinkingMode>,
    /// The probability mass of nucleus sampling, from 0 to 1.
    pub top_p: Option<f64>,
    /// The number of the most likely tokens that sampling selects from.
    pub top_k: Option<u32>,
    /// A seed for repeatable sampling.
    pub seed: Option<u64>,
    /// True if one turn may have several tool calls.
    pub parallel_tool_calls: Option<bool>,
    /// True if prompt-cache breakpoints are set, where the provider has them. `None` is `true`.
    pub prompt_cache: Option<bool>,
    /// True for a prompt cache that lives long, at Anthropic for 1 hour. Writes to it cost more.
    /// `None` is `false`.
    pub long_prompt_cache: Option<bool>,
    /// True if thinking is returned as text, where the provider can do so. `None` is `true`.
    pub show_thinking: Option<bool>,
}

impl ModelSettings {
    /// Creates settings without values: the provider's defaults apply.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the amount of thinking before the response.
    #[must_use]
    pub fn with_thinking(mut self, mode: ThinkingMode) -> Self {
        self.thinking = Some(mode);
        self
    }

    /// Sets the probability mass of nucleus sampling, from 0 to 1.
    #[must_use]
    pub fn with_top_p(mut self, top_p: f64) -> Self {
        self.top_p = Some(top_p);
        self
    }

    /// Sets the number of the most likely tokens that sampling selects from.
    #[must_use]
    pub fn with_top_k(mut self, top_k: u32) -> Self {
        self.top_k = Some(top_k);
        self
    }

    /// Sets the sampling seed.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Sets whether one turn may have several tool calls.
    #[must_use]
    pub fn with_parallel_tool_calls(mut self, allowed: bool) -> Self {
        self.parallel_tool_calls = Some(allowed);
        self
    }

    /// Sets whether requests have prompt-cache breakpoints, where the provider has them. Defaults
    /// to `true`.
    #[must_use]
    pub fn with_prompt_cache(mut self, enabled: bool) -> Self {
        self.prompt_cache = Some(enabled);
        self
    }

    /// Sets whether the prompt cache lives long, where the provider has such a cache. Writes to it
    /// cost more. Defaults to `false`.
    #[must_use]
    pub fn with_long_prompt_cache(mut self, enabled: bool) -> Self {
        self.long_prompt_cache = Some(enabled);
        self
    }

    /// Sets whether thinking is returned as text, where the provider can do so. Defaults to `true`.
    #[must_use]
    pub fn with_show_thinking(mut self, shown: bool) -> Self {
        self.show_thinking = Some(shown);
        self
    }
}

/// The amount of thinking before a response.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ThinkingMode {
    /// No thinking.
    Disabled,
    /// A maximum number of tokens for thinking, which count toward the maximum of the response.
    Budget(u32),
    /// An amount chosen by the model.
    Adaptive,
    /// A named effort, such as `low` or `high`.
    Effort(Arc<str>),
}

/// The tools the model may or must call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// The model may call no tool, not even a hosted one.
    None,
    /// The model must call at least one tool.
    Required,
    /// The model must call the tool of this name.
    Tool(Arc<str>),
}

impl ToolChoice {
    /// Returns `true` if the model must call a tool.
    #[cfg_attr(not(feature = "http"), expect(dead_code))]
    pub(crate) fn is_forced(&self) -> bool {
        matches!(self, Self::Required | Self::Tool(_))
    }
}

/// The form of the response.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ResponseFormat {
    /// Any JSON object.
    JsonObject,
    /// JSON that matches a schema.
    JsonSchema {
        /// A name for the schema, `[A-Za-z0-9_-]{1,64}`.
        name: Arc<str>,
        /// The JSON Schema.
        schema: Arc<Value>,
    },
}
