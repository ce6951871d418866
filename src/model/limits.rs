//! Limits on the size of one answer.

use crate::error::{Error, ErrorKind};

/// The largest answer a model may give.
///
/// An answer that exceeds one of them ends with [`ErrorKind::ResponseTooLarge`], which is not
/// retried. Its text up to the limit stays in the history, marked as aborted like that of an
/// interrupted one; its calls are dropped, and none of them runs. The next run on the session
/// continues from there.
///
/// ```
/// use agentcore::model::ResponseLimits;
///
/// let limits = ResponseLimits::default();
/// assert_eq!(limits.max_bytes, 32 * 1024 * 1024);
/// assert_eq!((limits.max_calls, limits.max_blocks), (1_000, 10_000));
/// let small = ResponseLimits::default().max_bytes(1024 * 1024).max_calls(50);
/// assert_eq!(small.max_calls, 50);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ResponseLimits {
    /// The most bytes of text, of thinking, of calls (id, name and arguments as JSON) and of
    /// provider blocks, together. 32 MiB by default.
    pub max_bytes: usize,
    /// The most tool calls. 1,000 by default.
    pub max_calls: usize,
    /// The most content blocks: stretches of text and of thinking, calls, provider blocks. 10,000
    /// by default.
    pub max_blocks: usize,
}

impl Default for ResponseLimits {
    /// 32 MiB, 1,000 calls and 10,000 blocks.
    fn default() -> Self {
        Self {
            max_bytes: 32 * 1024 * 1024,
            max_calls: 1_000,
            max_blocks: 10_000,
        }
    }
}

impl ResponseLimits {
    /// The same limits with another number of bytes.
    #[must_use]
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// The same limits with another number of tool calls.
    #[must_use]
    pub fn max_calls(mut self, calls: usize) -> Self {
        self.max_calls = calls;
        self
    }

    /// The same limits with another number of content blocks.
    #[must_use]
    pub fn max_blocks(mut self, blocks: usize) -> Self {
        self.max_blocks = blocks;
        self
    }
}

/// The part of its limits that an answer has used.
#[derive(Debug, Default)]
pub(crate) struct Used {
    limits: ResponseLimits,
    bytes: usize,
    calls: usize,
    blocks: usize,
}

impl Used {
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

    /// The bytes that are left.
    pub(crate) fn room(&self) -> usize {
        self.limits.max_bytes.saturating_sub(self.bytes)
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
        let limit = self.limits.max_blocks;
        check(self.blocks, limit, "content blocks", "max_blocks")
    }
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
