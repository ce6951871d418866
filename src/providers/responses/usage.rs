//! The usage of a response.

use serde::Deserialize;

use crate::usage::Usage;

use super::super::lenient::{Count, Object};

/// The counts of a response. Cached and written tokens are parts of the input.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct WireUsage {
    input_tokens: Count,
    input_tokens_details: Object<InputDetails>,
    output_tokens: Count,
    output_tokens_details: Object<OutputDetails>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct InputDetails {
    cached_tokens: Count,
    cache_write_tokens: Count,
    cache_write_tokens_details: Object<WriteDetails>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WriteDetails {
    ttl_12h_tokens: Count,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct OutputDetails {
    reasoning_tokens: Count,
}

/// The requests of hosted tools.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct ToolUsage {
    web_search: Object<Requests>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Requests {
    num_requests: Count,
}

impl ToolUsage {
    pub(super) fn requests(self) -> u64 {
        let web_search = self.web_search.0.unwrap_or_default();
        web_search.num_requests.get()
    }
}

impl From<WireUsage> for Usage {
    fn from(wire: WireUsage) -> Self {
        let input = wire.input_tokens_details.0.unwrap_or_default();
        let output = wire.output_tokens_details.0.unwrap_or_default();
        let writes = input.cache_write_tokens_details.0.unwrap_or_default();
        let cached = input.cached_tokens.get();
        let write_tokens = input.cache_write_tokens.get();
        let plain_input = wire
            .input_tokens
            .get()
            .saturating_sub(cached)
            .saturating_sub(write_tokens);
        let mut usage =
            Self::new(plain_input, wire.output_tokens.get()).with_cache(cached, write_tokens);
        usage.cache_write_long_tokens = writes.ttl_12h_tokens.get();
        usage.reasoning_tokens = output.reasoning_tokens.get();
        usage
    }
}
