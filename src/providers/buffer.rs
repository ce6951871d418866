//! Cutting chunks of bytes into frames.

use bytes::Bytes;
use memchr::memchr;

use crate::error::{Error, ErrorKind, Result};

/// The maximum size of an event or a line: 16 MiB. Without it, a server that never ends one would
/// fill the memory.
pub(super) const FRAME_LIMIT: usize = 16 * 1024 * 1024;

/// The current chunk, and the beginning of a frame that earlier chunks left unfinished.
///
/// A frame inside one chunk is read in place. Only a frame that spans chunks is copied.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    chunk: Bytes,
    pos: usize,
    /// The unfinished frame, or a frame that was completed here.
    unfinished: Vec<u8>,
    /// True if the frame in `unfinished` is complete and has been returned.
    is_returned: bool,
}

impl Buffer {
    /// Adds the next chunk. The previous one must have been consumed.
    pub(super) fn feed(&mut self, chunk: Bytes) {
        debug_assert!(self.pos == self.chunk.len());
        self.chunk = chunk;
        self.pos = 0;
    }

    /// Returns the bytes of the chunk that were not consumed yet.
    pub(super) fn ahead(&self) -> &[u8] {
        &self.chunk[self.pos..]
    }

    /// Returns the unfinished frame.
    pub(super) fn unfinished(&self) -> &[u8] {
        &self.unfinished
    }

    /// Removes the frame that was returned last, if it was copied.
    pub(super) fn remove_returned(&mut self) {
        if self.is_returned {
            self.unfinished.clear();
            self.is_returned = false;
        }
    }

    /// Skips `len` bytes of the chunk.
    pub(super) fn skip(&mut self, len: usize) {
        self.pos += len;
    }

    /// Consumes `len` bytes of the chunk and returns them.
    pub(super) fn take(&mut self, len: usize) -> &[u8] {
        let start = self.pos;
        self.pos += len;
        &self.chunk[start..self.pos]
    }

    /// Moves `len` bytes to the unfinished frame.
    pub(super) fn stash(&mut self, len: usize) -> Result<()> {
        let end = self.pos + len;
        check_len(self.unfinished.len() + len)?;
        let bytes = &self.chunk[self.pos..end];
        self.unfinished.extend_from_slice(bytes);
        self.pos = end;
        Ok(())
    }

    /// Returns the unfinished frame, which is complete now.
    pub(super) fn take_unfinished(&mut self) -> &[u8] {
        self.is_returned = true;
        &self.unfinished
    }

    /// Drops the first `len` bytes of the unfinished frame.
    pub(super) fn drop_unfinished(&mut self, len: usize) {
        self.unfinished.drain(..len);
    }
}

pub(super) fn check_len(len: usize) -> Result<()> {
    if len <= FRAME_LIMIT {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Protocol,
        format!("line too long: the stream has an event of more than {FRAME_LIMIT} bytes"),
    ))
}

pub(super) fn utf8(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|error| {
        Error::new(ErrorKind::Protocol, "the stream is not valid UTF-8").with_source(error)
    })
}

/// Returns the end of the first line, and the start of the next one. `None` until the end has
/// arrived.
pub(super) fn first_line_end(bytes: &[u8]) -> Option<(usize, usize)> {
    let end = memchr(b'\n', bytes)?;
    Some((end, end + 1))
}
