//! The trait that each provider implements to decode its stream.

use std::borrow::Cow;

use crate::error::{Error, ErrorKind, Result};

use super::events::Events;
use super::http::Secrets;
use super::json::replace_refused;
use super::status;

/// Decodes the frames of one answer into events.
pub(crate) trait Decoder: Send + Unpin + 'static {
    /// Decodes one frame. `name` is the type of an SSE event, and empty for a line.
    fn frame(&mut self, name: &str, data: &str, out: &mut Events) -> Result<()>;

    /// Decodes an answer that is one JSON document instead of a stream.
    fn document(&mut self, body: &str, out: &mut Events) -> Result<()>;

    /// Ends an answer whose stream ended before [`is_done`](Self::is_done) was `true`. Providers
    /// whose last event may be missing complete the answer here.
    ///
    /// # Errors
    ///
    /// Returns [`truncated`] if the answer is incomplete.
    fn finish(&mut self, out: &mut Events) -> Result<()>;

    /// Returns `true` once the answer's last event, `Stop`, was emitted. Nothing after it is
    /// decoded.
    fn is_done(&self) -> bool;

    /// Returns `true` if the answer is complete even if nothing more arrives. A broken connection
    /// then ends it without an error, and so do two seconds without a frame. Defaults to `false`.
    fn is_complete(&self) -> bool {
        false
    }
}

/// Returns the error for a stream without its last event.
pub(crate) fn truncated() -> Error {
    Error::new(
        ErrorKind::StreamTruncated,
        "the stream ended before its last event; the answer is incomplete",
    )
}

/// Adds advice to the error of a stream that violates its protocol. Returns other errors unchanged.
pub(super) fn with_advice(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Protocol => {
            error.with_hint("check the base URL, or update the server or the proxy that sends this")
        }
        _ => error,
    }
}

/// Returns the error for a frame that cannot be read.
pub(crate) fn unreadable(what: &str, data: &str, secrets: &Secrets) -> Error {
    Error::new(
        ErrorKind::Protocol,
        format!("{what}: {}", status::excerpt(data, secrets)),
    )
}

/// Decodes a frame. A server that cuts a text inside a surrogate pair writes each half as an escape
/// that is not valid JSON, so a frame that cannot be read is decoded again without such escapes. A
/// decoder must parse the whole frame before it changes its state.
#[inline(always)] // It runs for each frame.
pub(super) fn decode_frame<D: Decoder>(
    decoder: &mut D,
    name: &str,
    data: &str,
    out: &mut Events,
) -> Result<()> {
    out.check_frame(data)?;
    match decoder.frame(name, data, out) {
        Err(error) if error.kind() == ErrorKind::Protocol => match replace_refused(data) {
            Cow::Owned(repaired) => decoder.frame(name, &repaired, out),
            Cow::Borrowed(_) => Err(error),
        },
        decoded => decoded,
    }
}

/// Decodes the last frame of a body, whose end may be missing: a frame that cannot be read was cut
/// off.
pub(super) fn decode_last_frame<D: Decoder>(
    decoder: &mut D,
    name: &str,
    data: &str,
    out: &mut Events,
) -> Result<()> {
    match decode_frame(decoder, name, data, out) {
        Err(error) if error.kind() != ErrorKind::Protocol => Err(error),
        Err(_) if decoder.is_complete() => Ok(()),
        decoded => decoded.map_err(|error| truncated().with_source(error)),
    }
}
