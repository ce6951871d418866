//! Tools that a provider runs itself.

use std::sync::Arc;

use serde_json::Value;

/// A tool that a provider runs itself, such as a web search, in the provider's own format.
///
/// The provider calls it and uses the result in the same response: no tool runs in this process,
/// and no permission is asked.
///
/// ```
/// use agentcore::model::HostedTool;
/// use serde_json::json;
///
/// let search = HostedTool::new("anthropic", json!({
///     "type": "web_search_20260318",
///     "name": "web_search",
///     "max_uses": 3,
/// }));
/// assert_eq!(&*search.provider, "anthropic");
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct HostedTool {
    /// The provider that runs it, by the name of its format: `anthropic`, `openai-responses` or
    /// `gemini`.
    pub provider: Arc<str>,
    /// The entry in the provider's list of tools, as it is sent.
    pub raw: Arc<Value>,
}

impl HostedTool {
    /// Creates a tool that `provider` runs; `raw` is its entry in the list of tools.
    pub fn new(provider: impl Into<Arc<str>>, raw: impl Into<Arc<Value>>) -> Self {
        Self {
            provider: provider.into(),
            raw: raw.into(),
        }
    }
}
