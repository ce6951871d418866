//! Server-sent events, parsed as in the WHATWG HTML standard ("9.2.6 Interpreting an event
//! stream"), with two differences: the last event counts even without its blank line, because some
//! servers omit it, and `id` and `retry` are ignored, because streams are not resumed.
//!
//! This decoder exists because the available libraries allocate every event, do not limit its size
//! and drop an unterminated last event. It borrows events from the chunk that they arrived in and
//! copies only events that span two chunks or have several `data` lines.

use std::ops::Range;

use bytes::Bytes;
use memchr::memchr2;

use crate::error::Result;

use super::buffer::{Buffer, check_len, utf8};

const BOM: &[u8] = b"\xEF\xBB\xBF";

/// The maximum length of a remembered name, in bytes.
const KNOWN_NAME_LEN: usize = 64;

/// One event, borrowed from its decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SseEvent<'a> {
    /// The event's type; `message` if the stream names none.
    pub name: &'a str,
    /// The `data` lines, joined by line feeds.
    pub data: &'a str,
}

/// Splits a byte stream into server-sent events.
///
/// Feed a chunk, then take events until there is none, then feed the next chunk. Chunks may be
/// split anywhere. Events longer than 16 MiB and data that is not UTF-8 are
/// [`Protocol`](crate::ErrorKind::Protocol) errors, after which the decoder must not be used.
///
/// ```
/// use agentcore::providers::sse::SseDecoder;
///
/// let mut decoder = SseDecoder::new();
/// decoder.feed("event: greeting\ndata: hel");
/// assert!(decoder.next_event()?.is_none());
/// decoder.feed("lo\n\n");
/// let event = decoder.next_event()?.unwrap();
/// assert_eq!((event.name, event.data), ("greeting", "hello"));
/// # Ok::<(), agentcore::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct SseDecoder {
    buffer: Buffer,
    /// True once the position of a byte order mark has passed.
    has_passed_bom: bool,
    /// True if a CR ended the last line, so that an LF directly after it belongs to it.
    is_after_cr: bool,
    /// The start of the unfinished line in the unfinished event.
    line_start: usize,
    /// The data of an event with several `data` lines.
    joined: Vec<u8>,
    /// The name of an earlier event. Many events have the same one, and comparing costs less than
    /// checking that it is UTF-8.
    known_name: String,
}

impl SseDecoder {
    /// Returns `true` if the last event was in the chunk and at its end, so that no other event
    /// follows before the next chunk.
    pub(crate) fn is_drained(&self) -> bool {
        self.buffer.ahead().is_empty() && self.buffer.unfinished().is_empty()
    }

    /// Returns the size of the unfinished event.
    pub(crate) fn unfinished_len(&self) -> usize {
        self.buffer.unfinished().len()
    }

    /// Creates a decoder at the beginning of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the next chunk. All events of the previous chunk must have been taken; the remaining
    /// bytes are discarded.
    pub fn feed(&mut self, chunk: impl Into<Bytes>) {
        self.buffer.feed(chunk.into());
    }

    /// Returns the next complete event.
    ///
    /// # Errors
    ///
    /// Returns [`Protocol`](crate::ErrorKind::Protocol) if the event is too long or not UTF-8.
    pub fn next_event(&mut self) -> Result<Option<SseEvent<'_>>> {
        if !self.has_passed_bom && !self.pass_bom()? {
            return Ok(None);
        }

        loop {
            self.buffer.remove_returned();
            self.pass_lf()?;
            if self.buffer.unfinished().is_empty() {
                let fields = match EventFields::scan(self.buffer.ahead(), &mut self.joined) {
                    ScanResult::Complete(fields) => fields,
                    ScanResult::Incomplete { line_start } => {
                        self.line_start = line_start;
                        self.is_after_cr |= self.buffer.ahead().ends_with(b"\r");
                        let len = self.buffer.ahead().len();
                        self.buffer.stash(len)?;
                        return Ok(None);
                    }
                };

                check_len(fields.len)?;
                self.is_after_cr = fields.ends_chunk_with_cr(self.buffer.ahead().len());
                if fields.data.is_some() {
                    let bytes = self.buffer.take(fields.len);
                    return fields
                        .event(bytes, &self.joined, &mut self.known_name)
                        .map(Some);
                }

                self.buffer.skip(fields.len);
            } else if !self.extend_unfinished()? {
                return Ok(None);
            } else if let ScanResult::Complete(fields) =
                EventFields::scan(self.buffer.unfinished(), &mut self.joined)
                && fields.data.is_some()
            {
                let bytes = self.buffer.take_unfinished();
                return fields
                    .event(bytes, &self.joined, &mut self.known_name)
                    .map(Some);
            } else {
                self.buffer.take_unfinished();
            }
        }
    }

    /// Returns the last event, if the stream ended without the blank line after it.
    ///
    /// # Errors
    ///
    /// Returns [`Protocol`](crate::ErrorKind::Protocol) if the event is too long or not UTF-8.
    pub fn finish(&mut self) -> Result<Option<SseEvent<'_>>> {
        self.buffer.remove_returned();
        if self.buffer.unfinished().is_empty() {
            return Ok(None);
        }
        self.feed(&b"\n\n"[..]);
        self.has_passed_bom = true;
        self.next_event()
    }

    /// Skips the LF of a CRLF that was split. In an unfinished event it is kept, because otherwise
    /// a following LF would be mistaken for it.
    fn pass_lf(&mut self) -> Result<()> {
        let Some(first) = self.buffer.ahead().first().filter(|_| self.is_after_cr) else {
            return Ok(());
        };

        self.is_after_cr = false;
        if *first != b'\n' {
            return Ok(());
        }

        if self.buffer.unfinished().is_empty() {
            self.buffer.skip(1);
            return Ok(());
        }

        self.buffer.stash(1)?;
        self.line_start = self.buffer.unfinished().len();
        Ok(())
    }

    /// Moves lines from the chunk to the unfinished event until the blank line that ends the event.
    /// Returns `false` if the event is still unfinished.
    fn extend_unfinished(&mut self) -> Result<bool> {
        while let Some(end) = memchr2(b'\n', b'\r', self.buffer.ahead()) {
            let ahead = self.buffer.ahead();
            let next = line_end(ahead, end);
            self.is_after_cr = ahead[next - 1] == b'\r' && next == ahead.len();
            let is_blank = end == 0 && self.line_start == self.buffer.unfinished().len();
            self.buffer.stash(next)?;
            self.line_start = self.buffer.unfinished().len();
            if is_blank {
                return Ok(true);
            }

            if self.is_after_cr {
                // The LF of a CRLF may be the next chunk's first byte.
                return Ok(false);
            }
        }

        let len = self.buffer.ahead().len();
        self.buffer.stash(len)?;
        Ok(false)
    }

    /// Skips a byte order mark, which may arrive in pieces. Returns `false` if the bytes so far may
    /// be the beginning of one.
    fn pass_bom(&mut self) -> Result<bool> {
        let stored_len = self.buffer.unfinished().len();
        let ahead = self.buffer.ahead();
        let matching_len = ahead
            .iter()
            .zip(&BOM[stored_len..])
            .take_while(|(a, b)| a == b)
            .count();
        if stored_len + matching_len == BOM.len() {
            self.buffer.skip(matching_len);
            self.buffer.drop_unfinished(stored_len);
        } else if matching_len == ahead.len() {
            self.buffer.stash(matching_len)?;
            return Ok(false);
        }

        self.has_passed_bom = true;
        Ok(true)
    }
}

/// Returns the start of the line after the end at `end`, as far as `bytes` reach.
fn line_end(bytes: &[u8], end: usize) -> usize {
    let crlf = bytes[end] == b'\r' && bytes.get(end + 1) == Some(&b'\n');
    end + 1 + usize::from(crlf)
}

/// The result of a search for the end of an event.
enum ScanResult {
    Complete(EventFields),
    /// The event continues after the bytes; its last line begins at `line_start`.
    Incomplete {
        line_start: usize,
    },
}

/// The positions of the fields of a whole event.
struct EventFields {
    name: Option<Range<usize>>,
    data: Option<EventData>,
    /// The event's length, including its blank line.
    len: usize,
    ends_with_cr: bool,
}

/// The data of a whole event.
enum EventData {
    /// The value of its only `data` line.
    Line(Range<usize>),
    /// Several `data` lines, which were joined in another buffer.
    Joined,
}

impl EventFields {
    /// Parses the event at the beginning of `bytes`, if it is complete. Several `data` lines are
    /// joined in `joined`.
    fn scan(bytes: &[u8], joined: &mut Vec<u8>) -> ScanResult {
        let mut fields = Self {
            name: None,
            data: None,
            len: 0,
            ends_with_cr: false,
        };

        let mut start = 0;
        while let Some(first) = bytes.get(start) {
            if matches!(first, b'\n' | b'\r') {
                fields.len = line_end(bytes, start);
                fields.ends_with_cr = bytes[fields.len - 1] == b'\r';
                return ScanResult::Complete(fields);
            }

            let Some(len) = memchr2(b'\n', b'\r', &bytes[start..]) else {
                break;
            };
            fields.line(bytes, start..start + len, joined);
            start = line_end(bytes, start + len);
        }

        ScanResult::Incomplete { line_start: start }
    }

    fn line(&mut self, bytes: &[u8], line: Range<usize>, joined: &mut Vec<u8>) {
        let text = &bytes[line.clone()];
        let value = |name_len: usize| {
            let space = usize::from(text.get(name_len + 1) == Some(&b' '));
            (line.start + name_len + 1 + space).min(line.end)..line.end
        };

        if text.starts_with(b"data") && matches!(text.get(4), None | Some(b':')) {
            let value = value(4);
            self.data = Some(match self.data.take() {
                None => EventData::Line(value),
                Some(before) => {
                    if let EventData::Line(first) = before {
                        joined.clear();
                        joined.extend_from_slice(&bytes[first]);
                    }

                    joined.push(b'\n');
                    joined.extend_from_slice(&bytes[value]);
                    EventData::Joined
                }
            });
        } else if text.starts_with(b"event") && matches!(text.get(5), None | Some(b':')) {
            self.name = Some(value(5)).filter(|name| !name.is_empty());
        }
    }

    /// Returns `true` if the event's last byte is a CR that ends a chunk of `chunk_len` bytes.
    fn ends_chunk_with_cr(&self, chunk_len: usize) -> bool {
        self.ends_with_cr && self.len == chunk_len
    }

    fn event<'a>(
        &self,
        bytes: &'a [u8],
        joined: &'a [u8],
        known_name: &'a mut String,
    ) -> Result<SseEvent<'a>> {
        let name = match &self.name {
            None => "message",
            Some(range) if bytes[range.clone()] == *known_name.as_bytes() => known_name.as_str(),
            Some(range) => {
                let name = utf8(&bytes[range.clone()])?;
                if name.len() <= KNOWN_NAME_LEN {
                    known_name.clear();
                    // The names of a stream differ in length, and all of them fit.
                    known_name.reserve(KNOWN_NAME_LEN);
                    known_name.push_str(name);
                }
                name
            }
        };

        let data = match &self.data {
            Some(EventData::Line(range)) => utf8(&bytes[range.clone()])?,
            Some(EventData::Joined) => utf8(joined)?,
            None => "",
        };

        Ok(SseEvent { name, data })
    }
}
