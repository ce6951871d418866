//! The bodies of HTTP responses, read up to a limit.

use bytes::Bytes;
use reqwest::Response;

use super::large;

/// A body up to this size grows as it arrives; a larger body moves to a buffer of its own.
const GROWING: usize = 1024 * 1024;

/// The first capacity of the buffer of a larger body, in bytes. It doubles as the body grows.
const AT_ONCE: usize = 8 * 1024 * 1024;

/// The start of a body.
pub(crate) struct Body {
    pub(crate) bytes: Vec<u8>,
    /// True if there was more.
    pub(crate) is_cut: bool,
}

/// Reads a body up to `max_len` bytes. The rest is not read.
pub(crate) async fn read_body(response: Response, max_len: usize) -> reqwest::Result<Body> {
    let mut reader = BodyReader::new(response);
    let is_cut = reader.read_to(max_len).await?;
    let bytes = reader.into_bytes();
    Ok(Body { bytes, is_cut })
}

/// A body that is read in steps.
pub(crate) struct BodyReader {
    response: Response,
    bytes: Vec<u8>,
    /// The bytes that arrived beyond the last limit.
    pending: Bytes,
}

impl BodyReader {
    pub(crate) fn new(response: Response) -> Self {
        Self {
            response,
            bytes: Vec::new(),
            pending: Bytes::new(),
        }
    }

    /// Reads until the body has `max_len` bytes, and returns `true` if there are more.
    pub(crate) async fn read_to(&mut self, max_len: usize) -> reqwest::Result<bool> {
        loop {
            let free = max_len.saturating_sub(self.bytes.len());
            let part = self.pending.split_to(free.min(self.pending.len()));
            self.append(&part, max_len);
            if !self.pending.is_empty() {
                return Ok(true);
            }

            match self.response.chunk().await? {
                Some(chunk) => self.pending = chunk,
                None => return Ok(false),
            }
        }
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    fn append(&mut self, part: &[u8], max_len: usize) {
        let len = self.bytes.len() + part.len();
        if len > GROWING && self.bytes.capacity() < len {
            // Not `max_len`, which may be any number.
            let capacity = self.bytes.capacity().saturating_mul(2).max(AT_ONCE);
            let mut copy = large::buffer(capacity.min(max_len));
            copy.append(&mut self.bytes);
            self.bytes = copy;
        }

        self.bytes.extend_from_slice(part);
    }
}
