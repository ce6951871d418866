//! Limits on the size of one response.

use crate::error::{Error, ErrorKind};
use crate::util::json::count_values;
#[cfg(feature = "http")]
use crate::util::json::has_more_values;

/// The approximate memory of a block without its content, in bytes.
const BLOCK_OVERHEAD: usize = 128;

/// The maximum length, in bytes, of an id or a name from a model: every later request repeats it.
const MAX_NAME: usize = 1_024;

/// The limits on the size of one response.
///
/// A response that exceeds one of these limits ends with [`ErrorKind::ResponseTooLarge`], which is
/// not retried. Its text up to the limit stays in the history, marked as aborted like the
/// response of an interrupted run, unless
/// [`AgentBuilder::keep_interrupted`](crate::AgentBuilder::keep_interrupted) is off. Its calls are
/// dropped, and none of them runs. The next run of the session continues after this text.
///
/// The ids and names in a response, of its calls and of the response itself, have 1,024 bytes at
/// most; a longer id or name ends the response in the same way. That limit cannot be changed.
///
/// [`AgentBuilder::max_history_bytes`](crate::AgentBuilder::max_history_bytes) limits the inputs,
/// responses and tool results of a session together.
///
/// ```
/// use agentcore::model::ResponseLimits;
///
/// let limits = ResponseLimits::default();
/// assert_eq!(limits.max_bytes, 16 * 1024 * 1024);
/// assert_eq!((limits.max_calls, limits.max_blocks), (1_000, 10_000));
/// assert_eq!(limits.max_values, 50_000);
/// let small = ResponseLimits::default().with_max_bytes(1024 * 1024).with_max_calls(50);
/// assert_eq!(small.max_calls, 50);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ResponseLimits {
    /// The maximum number of bytes of text, of thinking, of calls (id, name and arguments) and of
    /// provider blocks, together, as counted in the JSON of a request: a quote is two bytes, a
    /// control character up to six. Defaults to 16 MiB.
    pub max_bytes: usize,
    /// The maximum number of tool calls. Defaults to 1,000.
    pub max_calls: usize,
    /// The maximum number of content blocks: stretches of text and of thinking, calls, provider
    /// blocks. Defaults to 10,000.
    pub max_blocks: usize,
    /// The maximum number of JSON values in the arguments of calls and in provider blocks,
    /// together, and in one event of the stream: objects, arrays, strings, numbers and literals.
    /// Defaults to 50,000.
    ///
    /// Values may take more than a hundred times as much memory as their text: 50,000 objects of
    /// one field each take 32 MB, and the tool and the reader of the run each have a copy.
    pub max_values: usize,
}

impl Default for ResponseLimits {
    /// Returns limits of 16 MiB, 1,000 calls, 10,000 blocks and 50,000 values.
    fn default() -> Self {
        Self {
            max_bytes: 16 * 1024 * 1024,
            max_calls: 1_000,
            max_blocks: 10_000,
            max_values: 50_000,
        }
    }
}

impl ResponseLimits {
    /// Sets the maximum number of bytes.
    #[must_use]
    pub fn with_max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Sets the maximum number of tool calls.
    #[must_use]
    pub fn with_max_calls(mut self, calls: usize) -> Self {
        self.max_calls = calls;
        self
    }

    /// Sets the maximum number of content blocks.
    #[must_use]
    pub fn with_max_blocks(mut self, blocks: usize) -> Self {
        self.max_blocks = blocks;
        self
    }

    /// Sets the maximum number of JSON values.
    #[must_use]
    pub fn with_max_values(mut self, values: usize) -> Self {
        self.max_values = values;
        self
    }
}

/// The part of its limits that a response has used.
#[derive(Debug, Default)]
pub(crate) struct UsedLimits {
    limits: ResponseLimits,
    /// The bytes that `max_bytes` limits.
    bytes: usize,
    /// The memory that no limit counts, in bytes.
    overhead: usize,
    calls: usize,
    blocks: usize,
    values: usize,
}

impl UsedLimits {
    pub(crate) fn new(limits: ResponseLimits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    pub(crate) fn limits(&self) -> ResponseLimits {
        self.limits
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the number of bytes that the response may still have.
    pub(crate) fn room(&self) -> usize {
        self.limits.max_bytes.saturating_sub(self.bytes)
    }

    /// Returns the approximate memory of the response, in bytes: the counted bytes and the
    /// overhead.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.saturating_add(self.overhead)
    }

    /// Adds memory that no limit of the response counts.
    pub(crate) fn add_overhead(&mut self, bytes: usize) {
        self.overhead = self.overhead.saturating_add(bytes);
    }

    pub(crate) fn add_bytes(&mut self, bytes: usize) -> Result<(), Error> {
        self.bytes = self.bytes.saturating_add(bytes);
        let limit = self.limits.max_bytes;
        check(self.bytes, limit, "bytes", "max_bytes")
    }

    pub(crate) fn add_call(&mut self) -> Result<(), Error> {
        self.calls += 1;
        let limit = self.limits.max_calls;
        check(self.calls, limit, "tool calls", "max_calls")
    }

    pub(crate) fn add_block(&mut self) -> Result<(), Error> {
        self.blocks += 1;
        self.add_overhead(BLOCK_OVERHEAD);
        let limit = self.limits.max_blocks;
        check(self.blocks, limit, "content blocks", "max_blocks")
    }

    pub(crate) fn add_values(&mut self, values: usize) -> Result<(), Error> {
        self.values = self.values.saturating_add(values);
        let limit = self.limits.max_values;
        check(self.values, limit, "JSON values", "max_values")
    }

    /// Adds the values in JSON text.
    pub(crate) fn add_json(&mut self, json: &str) -> Result<(), Error> {
        self.add_values(count_values(json, self.room_for_values()))
    }

    /// Returns the number of JSON values that the response may still have.
    pub(crate) fn room_for_values(&self) -> usize {
        self.limits.max_values.saturating_sub(self.values)
    }

    /// Checks that the JSON of one event alone does not have more values than the limit. They are
    /// not counted, because most values of events, such as ids, are not part of the response.
    #[cfg(feature = "http")]
    pub(crate) fn check_event(&self, json: &str) -> Result<(), Error> {
        let limit = self.limits.max_values;
        let value_count = if has_more_values(json, limit) {
            limit.saturating_add(1)
        } else {
            0
        };
        check(value_count, limit, "JSON values", "max_values")
    }
}

/// Checks the length of an id or a name that a model gave. `what` names it in the error.
pub(crate) fn check_name(what: &str, name: &str) -> Result<(), Error> {
    let len = name.len();
    if len <= MAX_NAME {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::ResponseTooLarge,
        format!(
            "{what} has {len} bytes, and at most {MAX_NAME} are allowed; ask again, or ask \
             another model"
        ),
    ))
}

/// Checks the lengths of a call's id and name.
pub(crate) fn check_call(id: &str, name: &str) -> Result<(), Error> {
    check_name("a tool call's id", id)?;
    check_name("a tool call's name", name)
}

fn check(used: usize, limit: usize, unit: &str, name: &str) -> Result<(), Error> {
    if used <= limit {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::ResponseTooLarge,
        format!(
            "the response has more than {limit} {unit}; raise ResponseLimits::{name} with \
             AgentBuilder::response_limits or ModelRequest::with_response_limits"
        ),
    ))
}
