//! Streams of one JSON value per line, as Ollama sends them.

use bytes::Bytes;

use crate::error::Result;

use super::buffer::{Buffer, check_len, first_line_end, utf8};

/// Splits a byte stream into lines, which end with LF or CRLF. Empty lines are skipped.
///
/// Feed a chunk, then take lines until there is none, then feed the next chunk.
#[derive(Debug, Default)]
pub(crate) struct LineDecoder {
    buffer: Buffer,
}

impl LineDecoder {
    /// Returns the size of the incomplete line.
    pub(crate) fn unfinished_len(&self) -> usize {
        self.buffer.unfinished().len()
    }

    pub(crate) fn feed(&mut self, chunk: Bytes) {
        self.buffer.feed(chunk);
    }

    /// Returns the next line. An error ends the stream.
    pub(crate) fn next_line(&mut self) -> Result<Option<&str>> {
        loop {
            self.buffer.remove_returned();
            let Some((end, next)) = first_line_end(self.buffer.ahead()) else {
                let len = self.buffer.ahead().len();
                self.buffer.stash(len)?;
                return Ok(None);
            };

            if self.buffer.unfinished().is_empty() {
                check_len(end)?;
                if !self.buffer.ahead()[..end].trim_ascii().is_empty() {
                    return Ok(Some(utf8(&self.buffer.take(next)[..end])?.trim()));
                }

                self.buffer.skip(next);
            } else {
                self.buffer.stash(next)?;
                if !self.buffer.unfinished().trim_ascii().is_empty() {
                    return Ok(Some(utf8(self.buffer.take_unfinished())?.trim()));
                }

                self.buffer.take_unfinished();
            }
        }
    }

    /// Returns the last line, if it is unterminated.
    pub(crate) fn finish(&mut self) -> Result<Option<&str>> {
        self.buffer.remove_returned();
        let line = utf8(self.buffer.take_unfinished())?.trim();
        Ok(Some(line).filter(|line| !line.is_empty()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(chunks: &[&[u8]]) -> Result<Vec<String>> {
        let mut decoder = LineDecoder::default();
        let mut lines = Vec::new();
        for chunk in chunks {
            decoder.feed(chunk.to_vec().into());
            while let Some(line) = decoder.next_line()? {
                lines.push(line.to_owned());
            }
        }
        lines.extend(decoder.finish()?.map(str::to_owned));
        Ok(lines)
    }

    #[test]
    fn split_at_any_byte_gives_equal_lines() -> Result<()> {
        let stream = "{\"a\":\"\u{E9}\"}\n\r\n \n{\"b\":1}\r\n\n{\"last\":1}".as_bytes();
        let expected = lines(&[stream])?;
        assert_eq!(
            expected,
            ["{\"a\":\"\u{E9}\"}", "{\"b\":1}", "{\"last\":1}"]
        );
        for at in 0..=stream.len() {
            let (a, b) = stream.split_at(at);
            assert_eq!(lines(&[a, b])?, expected, "cut at {at}");
        }
        assert_eq!(lines(&stream.chunks(1).collect::<Vec<_>>())?, expected);
        Ok(())
    }

    #[test]
    fn endless_lines_and_invalid_utf8_are_errors() {
        assert!(lines(&[b"\xFF\n"]).is_err());
        let chunk = vec![b'x'; 1024 * 1024];
        assert!(lines(&[&*chunk; 20]).is_err());
    }
}
