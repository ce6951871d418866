//! Token counts.

use std::ops::{Add, AddAssign};

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Number, Value};

/// Tokens of one or more model calls, in the wire names of the Messages API.
///
/// `input_tokens` counts what was neither read from nor written to a prompt cache, so the first
/// four numbers never overlap; [`context_tokens`](Usage::context_tokens) is the size of the prompt.
/// The remaining fields are parts of these four, or count no tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "WireUsage", into = "WireUsage")]
#[non_exhaustive]
pub struct Usage {
    /// Prompt tokens outside the cache.
    pub input_tokens: u64,
    /// Generated tokens, thinking included.
    pub output_tokens: u64,
    /// Prompt tokens read from the provider's cache.
    pub cache_read_tokens: u64,
    /// Prompt tokens written to the provider's cache.
    pub cache_write_tokens: u64,
    /// The part of `cache_write_tokens` that was written to a cache that lives long: 1 hour at
    /// Anthropic, 12 hours at OpenAI.
    pub cache_write_long_tokens: u64,
    /// The part of `output_tokens` that was used for thinking.
    pub reasoning_tokens: u64,
    /// The requests that tools of the provider made, such as web searches. They have no price here.
    pub server_tool_requests: u64,
}

impl Usage {
    /// Creates a usage of `input` and `output` tokens without a cache.
    pub fn new(input: u64, output: u64) -> Self {
        Self {
            input_tokens: input,
            output_tokens: output,
            ..Self::default()
        }
    }

    /// Sets the numbers of tokens read from and written to the cache.
    #[must_use]
    pub fn with_cache(mut self, read: u64, write: u64) -> Self {
        self.cache_read_tokens = read;
        self.cache_write_tokens = write;
        self
    }

    /// Returns the number of tokens of the prompt: input, cache reads and cache writes, without the
    /// output.
    pub fn context_tokens(&self) -> u64 {
        self.input_tokens
            .saturating_add(self.cache_read_tokens)
            .saturating_add(self.cache_write_tokens)
    }

    /// Returns the sum of all tokens, output included.
    pub fn total_tokens(&self) -> u64 {
        self.context_tokens().saturating_add(self.output_tokens)
    }

    /// Returns `true` if the provider reported nothing.
    pub(crate) fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

impl Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cache_read_tokens: self
                .cache_read_tokens
                .saturating_add(other.cache_read_tokens),
            cache_write_tokens: self
                .cache_write_tokens
                .saturating_add(other.cache_write_tokens),
            cache_write_long_tokens: self
                .cache_write_long_tokens
                .saturating_add(other.cache_write_long_tokens),
            reasoning_tokens: self.reasoning_tokens.saturating_add(other.reasoning_tokens),
            server_tool_requests: self
                .server_tool_requests
                .saturating_add(other.server_tool_requests),
        }
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// A usage as JSON, in the names of the Messages API.
#[derive(Serialize, Deserialize)]
struct WireUsage {
    #[serde(default, deserialize_with = "count")]
    input_tokens: u64,
    #[serde(default, deserialize_with = "count")]
    output_tokens: u64,
    #[serde(default, deserialize_with = "count")]
    cache_read_input_tokens: u64,
    #[serde(default, deserialize_with = "count")]
    cache_creation_input_tokens: u64,
    #[serde(flatten)]
    details: UsageDetails,
}

/// The parts of a usage that are objects of their own as JSON. An empty one is absent.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct UsageDetails {
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "detail")]
    cache_creation: Option<CacheCreation>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "detail")]
    output_tokens_details: Option<OutputDetails>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "detail")]
    server_tool_use: Option<ServerToolUse>,
}

#[derive(Clone, Copy, Default, Serialize, Deserialize)]
#[serde(default)]
struct CacheCreation {
    #[serde(deserialize_with = "count")]
    ephemeral_5m_input_tokens: u64,
    #[serde(deserialize_with = "count")]
    ephemeral_1h_input_tokens: u64,
}

#[derive(Clone, Copy, Default, Serialize, Deserialize)]
#[serde(default)]
struct OutputDetails {
    #[serde(deserialize_with = "count")]
    thinking_tokens: u64,
}

#[derive(Clone, Copy, Default, Serialize, Deserialize)]
#[serde(default)]
struct ServerToolUse {
    #[serde(deserialize_with = "count")]
    web_search_requests: u64,
    #[serde(deserialize_with = "count", skip_serializing)]
    web_fetch_requests: u64,
}

impl UsageDetails {
    pub(crate) fn of(usage: &Usage) -> Self {
        let long_writes = usage.cache_write_long_tokens;
        let cache = CacheCreation {
            ephemeral_5m_input_tokens: usage.cache_write_tokens.saturating_sub(long_writes),
            ephemeral_1h_input_tokens: long_writes,
        };
        let output = OutputDetails {
            thinking_tokens: usage.reasoning_tokens,
        };
        let server_tools = ServerToolUse {
            web_search_requests: usage.server_tool_requests,
            web_fetch_requests: 0,
        };
        Self {
            cache_creation: (long_writes > 0).then_some(cache),
            output_tokens_details: (usage.reasoning_tokens > 0).then_some(output),
            server_tool_use: (usage.server_tool_requests > 0).then_some(server_tools),
        }
    }

    /// Sets the counts that are reported; the others stay.
    pub(crate) fn apply(&self, usage: &mut Usage) {
        if let Some(cache) = self.cache_creation {
            usage.cache_write_long_tokens = cache.ephemeral_1h_input_tokens;
        }
        if let Some(output) = self.output_tokens_details {
            usage.reasoning_tokens = output.thinking_tokens;
        }
        if let Some(tools) = self.server_tool_use {
            let requests = [tools.web_search_requests, tools.web_fetch_requests];
            usage.server_tool_requests = total(requests);
        }
    }
}

impl From<Usage> for WireUsage {
    fn from(usage: Usage) -> Self {
        Self {
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            cache_read_input_tokens: usage.cache_read_tokens,
            cache_creation_input_tokens: usage.cache_write_tokens,
            details: UsageDetails::of(&usage),
        }
    }
}

impl From<WireUsage> for Usage {
    fn from(wire: WireUsage) -> Self {
        let mut usage = Self::new(wire.input_tokens, wire.output_tokens).with_cache(
            wire.cache_read_input_tokens,
            wire.cache_creation_input_tokens,
        );
        wire.details.apply(&mut usage);
        usage
    }
}

/// Reads an object of counts. A value of another shape counts as no object.
fn detail<'de, D: Deserializer<'de>, T: DeserializeOwned>(from: D) -> Result<Option<T>, D::Error> {
    let object = Some(Value::deserialize(from)?).filter(Value::is_object);
    Ok(object.and_then(|object| serde_json::from_value(object).ok()))
}

/// Returns the sum of counts, which foreign code may have made up.
pub(crate) fn total(counts: impl IntoIterator<Item = u64>) -> u64 {
    counts.into_iter().fold(0, u64::saturating_add)
}

/// Reads a count. A fraction is rounded; `null` counts nothing.
pub(crate) fn count<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    Ok(maybe_count(from)?.unwrap_or_default())
}

/// Reads a count. A fraction is rounded; `null` is none.
pub(crate) fn maybe_count<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    let Some(number) = Option::<Number>::deserialize(from)? else {
        return Ok(None);
    };
    match (number.as_u64(), number.as_f64()) {
        (Some(whole), _) => Ok(Some(whole)),
        (None, Some(fraction)) if fraction >= 0.0 => Ok(Some(fraction.round() as u64)),
        _ => Err(D::Error::custom(format_args!(
            "expected a count, got {number}"
        ))),
    }
}
