//! Token counts.

use std::ops::{Add, AddAssign};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Number;

/// Tokens of one or more model calls, in the wire names of the Messages API.
///
/// `input_tokens` counts what was neither read from nor written to a prompt cache, so the four
/// numbers never overlap; [`context_tokens`](Usage::context_tokens) is what the prompt held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Usage {
    /// Prompt tokens outside the cache.
    #[serde(default, deserialize_with = "count")]
    pub input_tokens: u64,
    /// Generated tokens, thinking included.
    #[serde(default, deserialize_with = "count")]
    pub output_tokens: u64,
    /// Prompt tokens read from the provider's cache.
    #[serde(
        default,
        rename = "cache_read_input_tokens",
        deserialize_with = "count"
    )]
    pub cache_read_tokens: u64,
    /// Prompt tokens written to the provider's cache.
    #[serde(
        default,
        rename = "cache_creation_input_tokens",
        deserialize_with = "count"
    )]
    pub cache_write_tokens: u64,
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

    /// The tokens of the prompt: input, cache reads and cache writes, without the output.
    pub fn context_tokens(&self) -> u64 {
        self.input_tokens
            .saturating_add(self.cache_read_tokens)
            .saturating_add(self.cache_write_tokens)
    }

    /// The sum of all tokens, output included.
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
        }
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// The sum of counts, which foreign code may have made up.
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
