//! The frames of a byte stream, and the limits on ignored bytes and on answers in one document.

use crate::error::{Error, ErrorKind, Result};
use crate::model::ResponseLimits;

use super::lines::LineDecoder;
use super::sse::SseDecoder;

/// The number of bytes kept of a stream's beginning to recognize its framing.
pub(super) const OPENING: usize = 800;

/// The maximum ratio of the size of a JSON document to the size of the answer in it.
const DOCUMENT_FACTOR: usize = 2;

/// The size that a document may always have, regardless of the limit of the answer; the answer in
/// it is still limited.
const SMALL_DOCUMENT: usize = 1024 * 1024;

/// The maximum ratio of the ignored bytes of a stream to the bytes of the largest answer.
const IGNORED_FACTOR: usize = 64;
/// The number of ignored bytes that a stream may always have: a day of pings takes a few MiB.
const FEW_IGNORED: usize = 64 * 1024 * 1024;

/// The maximum number of bytes of a frame with a part of the answer that do not count as ignored.
const USEFUL_FRAME: usize = 64 * 1024;

/// The size of a frame without its name and its data, in bytes.
const FRAME_FIELDS: usize = 32;

/// The number of bytes that are not part of the answer: pings, comments, unknown events.
#[derive(Debug)]
pub(super) struct IgnoredBytes {
    count: usize,
    limit: usize,
}

impl IgnoredBytes {
    pub(super) fn new(limits: ResponseLimits) -> Self {
        Self {
            count: 0,
            limit: limits
                .max_bytes
                .saturating_mul(IGNORED_FACTOR)
                .max(FEW_IGNORED),
        }
    }

    /// Adds bytes that have arrived. They count as ignored until a frame is removed.
    pub(super) fn add(&mut self, len: usize) {
        self.count = self.count.saturating_add(len);
    }

    /// Removes a frame with a part of the answer. `len` is the size of its name and its data.
    pub(super) fn remove_frame(&mut self, len: usize) {
        let len = len.saturating_add(FRAME_FIELDS).min(USEFUL_FRAME);
        self.count = self.count.saturating_sub(len);
    }

    /// Checks the number of ignored bytes.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::ResponseTooLarge`] if there are too many.
    pub(super) fn check(&self) -> Result<()> {
        if self.count <= self.limit {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::ResponseTooLarge,
            format!(
                "the stream has more than {} bytes that are no part of the answer, such as pings \
                 and unknown events; ask again, or raise max_bytes of the response limits, of \
                 which this is a multiple",
                self.limit
            ),
        ))
    }
}

/// The reader of the frames of one stream.
pub(super) enum Frames {
    /// No byte that determines the framing has arrived; the bytes so far are kept.
    Unknown(Vec<u8>),
    Sse(SseDecoder),
    Lines(LineDecoder),
    Document(Vec<u8>),
}

impl Frames {
    /// Returns `true` if the current chunk certainly has no other frame. Most chunks of an event
    /// stream are one event.
    pub(super) fn is_drained(&self) -> bool {
        matches!(self, Self::Sse(sse) if sse.is_drained())
    }

    /// Returns the size of the frame that is unfinished, or is being read.
    pub(super) fn unfinished_len(&self) -> usize {
        match self {
            Self::Unknown(bytes) | Self::Document(bytes) => bytes.len(),
            Self::Sse(sse) => sse.unfinished_len(),
            Self::Lines(lines) => lines.unfinished_len(),
        }
    }
}

/// Returns `true` if an event stream may begin with `opening`: a field or a comment.
pub(super) fn is_event_stream(opening: &[u8]) -> bool {
    let opening = opening.trim_ascii_start();
    let opening = opening.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(opening);
    let fields: [&[u8]; 5] = [b"event", b"data", b"id", b"retry", b":"];
    fields.iter().any(|field| {
        let len = field.len().min(opening.len());
        field[..len] == opening[..len]
    })
}

/// Returns the maximum size of an answer that is one JSON document, in bytes.
pub(super) fn max_document(limits: ResponseLimits) -> usize {
    let largest = limits.max_bytes.saturating_mul(DOCUMENT_FACTOR);
    largest.max(SMALL_DOCUMENT)
}

pub(super) fn check_document(len: usize, most: usize) -> Result<()> {
    if len <= most {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Protocol,
        format!(
            "the answer is a document of more than {most} bytes; raise max_bytes of the response limits to read it"
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_bytes_are_limited_by_the_largest_answer() {
        let ignored = |bytes| IgnoredBytes::new(ResponseLimits::default().with_max_bytes(bytes));
        let limits = [10, 16 << 20, usize::MAX].map(|bytes| ignored(bytes).limit);
        assert_eq!(limits, [64 << 20, 1 << 30, usize::MAX]);

        let mut bytes = ignored(10);
        for _ in 0..3 {
            bytes.add(64 << 20);
            assert!(bytes.check().is_ok());
            (0..1024).for_each(|_| bytes.remove_frame(64 << 10));
        }
        bytes.add((64 << 20) + 1);
        assert_eq!(
            bytes.check().unwrap_err().kind(),
            ErrorKind::ResponseTooLarge
        );
        bytes.remove_frame(1);
        assert!(bytes.check().is_ok());
    }

    #[test]
    fn largest_document_follows_the_limit_of_an_answer() {
        let most = |bytes| max_document(ResponseLimits::default().with_max_bytes(bytes));
        assert_eq!(max_document(ResponseLimits::default()), 32 << 20);
        assert_eq!(most(100 << 20), 200 << 20);
        assert_eq!((most(10), most(usize::MAX)), (1 << 20, usize::MAX));
        assert!(check_document(10, 10).is_ok());
        let error = check_document(11, 10).expect_err("too large");
        assert!(error.to_string().contains("more than 10 bytes"), "{error}");
    }
}
