//! Settings of a request.

use std::sync::Arc;

use serde_json::Value;

/// Settings that not every model supports. A provider omits settings that its API does not have.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ModelSettings {
    /// The amount of thinking before the answer.
    pub thinking: Option<ThinkingMode>,
    /// Nucleus sampling, 0 to 1.
    pub top_p: Option<f64>,
    /// Sample among the k likeliest tokens.
    pub top_k: Option<u32>,
    /// A seed for repeatable sampling.
    pub seed: Option<u64>,
    /// True if one turn may have several tool calls.
    pub parallel_tool_calls: Option<bool>,
    /// True if prompt-cache breakpoints are set where the provider has them. `None` means yes.
    pub prompt_cache: Option<bool>,
    /// True if the prompt cache is to live long: 1 hour at Anthropic. `None` means no. Writes to it
    /// cost more.
    pub long_prompt_cache: Option<bool>,
    /// True if thoughts are returned as text where the provider can. `None` means yes.
    pub show_thinking: Option<bool>,
}

impl ModelSettings {
    /// Creates settings without values: the provider's defaults apply.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how much the model may think.
    #[must_use]
    pub fn with_thinking(mut self, mode: ThinkingMode) -> Self {
        self.thinking = Some(mode);
        self
    }

    /// Sets nucleus sampling.
    #[must_use]
    pub fn with_top_p(mut self, top_p: f64) -> Self {
        self.top_p = Some(top_p);
        self
    }

    /// Sets top-k sampling.
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

    /// Allows or forbids several calls in one turn.
    #[must_use]
    pub fn with_parallel_tool_calls(mut self, allowed: bool) -> Self {
        self.parallel_tool_calls = Some(allowed);
        self
    }

    /// Sets prompt-cache breakpoints or leaves them out.
    #[must_use]
    pub fn with_prompt_cache(mut self, enabled: bool) -> Self {
        self.prompt_cache = Some(enabled);
        self
    }

    /// Makes the prompt cache live long, where the provider can. Writes to it cost more.
    #[must_use]
    pub fn with_long_prompt_cache(mut self, enabled: bool) -> Self {
        self.long_prompt_cache = Some(enabled);
        self
    }

    /// Sets whether thoughts are returned as text or omitted, where the provider can do so.
    #[must_use]
    pub fn with_show_thinking(mut self, shown: bool) -> Self {
        self.show_thinking = Some(shown);
        self
    }
}

/// The amount of thinking a model may do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ThinkingMode {
    /// No thinking.
    Disabled,
    /// A budget of tokens for thinking, within the maximum of the whole answer.
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
    /// None, nor one that the provider runs itself.
    None,
    /// At least one call.
    Required,
    /// This one.
    Tool(Arc<str>),
}

impl ToolChoice {
    /// Returns `true` if the model must call a tool.
    #[cfg_attr(not(feature = "http"), expect(dead_code))]
    pub(crate) fn is_forced(&self) -> bool {
        matches!(self, Self::Required | Self::Tool(_))
    }
}

/// The form of the answer.
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
