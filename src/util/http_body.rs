//! The bodies of HTTP responses, read up to a limit.

use reqwest::Response;

use super::large;

/// A body up to this size grows as it arrives; a larger body moves to a buffer of its own.
const GROWING: usize = 1024 * 1024;

/// The most memory that a body gets before as much has arrived.
const AT_ONCE: usize = 8 * 1024 * 1024;

/// The start of a body.
pub(crate) struct Body {
    pub(crate) bytes: Vec<u8>,
    /// True if there was more.
    pub(crate) is_cut: bool,
}

/// Reads a body up to `max_len` bytes. The rest is not read.
pub(crate) async fn read_body(mut response: Response, max_len: usize) -> reqwest::Result<Body> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        let len = chunk.len().min(max_len - bytes.len());
        let is_large = bytes.len() + len > GROWING;
        if is_large && bytes.capacity() < bytes.len() + len {
            // Not `max_len`, which may be any number.
            let capacity = bytes.capacity().saturating_mul(2).max(AT_ONCE);
            let mut copy = large::buffer(capacity.min(max_len));
            copy.append(&mut bytes);
            bytes = copy;
        }

        bytes.extend_from_slice(&chunk[..len]);
        if len < chunk.len() {
            let is_cut = true;
            return Ok(Body { bytes, is_cut });
        }
    }

    let is_cut = false;
    Ok(Body { bytes, is_cut })
}
