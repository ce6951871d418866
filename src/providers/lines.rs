//! One JSON value a line: what Ollama streams.

use bytes::Bytes;

use crate::error::Result;

use super::buffer::{Buffer, check_len, line_feed, utf8};

/// Cuts a byte stream into lines. Ends with LF or CRLF; empty lines are left out.
///
/// Feed a chunk, then take lines until there is none, then feed the next.
#[derive(Debug, Default)]
pub(crate) struct LineDecoder {
    buffer: Buffer,
}

impl LineDecoder {
    pub(crate) fn feed(&mut self, chunk: Bytes) {
        self.buffer.feed(chunk);
    }

    /// The next line. An error ends the stream.
    pub(crate) fn next_line(&mut self) -> Result<Option<&str>> {
        loop {
            self.buffer.settle();
            let Some((end, next)) = line_feed(self.buffer.ahead(), 0) else {
                let len = self.buffer.ahead().len();
                self.buffer.stash(len)?;
                return Ok(None);
            };
            if self.buffer.rest().is_empty() {
                check_len(end)?;
                if !self.buffer.ahead()[..end].trim_ascii().is_empty() {
                    return Ok(Some(utf8(&self.buffer.take(next)[..end])?.trim()));
                }
                self.buffer.skip(next);
            } else {
                self.buffer.stash(next)?;
                if !self.buffer.rest().trim_ascii().is_empty() {
                    return Ok(Some(utf8(self.buffer.take_rest())?.trim()));
                }
                self.buffer.take_rest();
            }
        }
    }

    /// The last line, if it has no end.
    pub(crate) fn finish(&mut self) -> Result<Option<&str>> {
        self.buffer.settle();
        let line = utf8(self.buffer.take_rest())?.trim();
        Ok(Some(line).filter(|line| !line.is_empty()))
    }
}
