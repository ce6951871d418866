//! The lines of a write.

use std::io::{self, Write};

use serde::Serialize;
use serde::de::DeserializeSeed;

use crate::error::{Error, ErrorKind, Result};
use crate::message::is_text_deeper;

use super::line::{COMMA, DIGITS, EntrySeed, LINE_PREFIX, LogEntry, MAX_LINE, Outer, VERSION, hex};
use super::summary::LogSummary;

/// The number, the lease and the time of a record.
#[derive(Clone, Copy)]
pub(super) struct RecordStamp {
    pub(super) seq: u64,
    /// The token of the lease that writes the record.
    pub(super) token: u64,
    pub(super) at: u64,
}

/// The maximum length of a record with the description of the session, in bytes. A longer record is
/// followed by a short mark with it, so that a list reads only the end of the log.
pub(super) const LONG_LINE: usize = 8 * 1024;

/// Adds the lines of one write, each of less than `max_len` bytes. The first record has the stamp
/// `first`, and the last line has `info`. Returns `true` if the last line is a mark in addition to
/// the entries, because the last entry is long.
///
/// # Errors
///
/// Returns [`ErrorKind::InvalidMessages`] if a record is nested too deep or too long.
pub(super) fn write(
    bytes: &mut Vec<u8>,
    entries: &[LogEntry],
    first: RecordStamp,
    info: Option<&LogSummary>,
    max_len: usize,
) -> Result<bool> {
    let max_len = max_len.min(MAX_LINE);
    let stamp_of = |index: usize| RecordStamp {
        seq: first.seq.saturating_add(index as u64),
        ..first
    };
    let mut needs_mark = false;
    for (index, entry) in entries.iter().enumerate() {
        let info = info.filter(|_| index + 1 == entries.len());
        let has_info = write_line(bytes, entry, stamp_of(index), info, max_len)?;
        needs_mark = info.is_some() && !has_info;
    }

    if needs_mark {
        let stamp = stamp_of(entries.len());
        write_line(bytes, &LogEntry::Mark, stamp, info, max_len)?;
    }
    Ok(needs_mark)
}

/// Adds a line. Returns `true` if it has `info`; a long line does not have it.
fn write_line(
    bytes: &mut Vec<u8>,
    entry: &LogEntry,
    stamp: RecordStamp,
    info: Option<&LogSummary>,
    max_len: usize,
) -> Result<bool> {
    let start = bytes.len();
    bytes.extend_from_slice(LINE_PREFIX);
    bytes.extend_from_slice(b"00000000\"");
    let out = LineOut {
        v: VERSION,
        seq: stamp.seq,
        token: stamp.token,
        at: stamp.at,
        kind: entry.kind(),
        data: entry,
    };

    let check_len = |error: serde_json::Error| {
        if error.is_io() {
            too_long(entry, max_len)
        } else {
            error.into()
        }
    };
    // The length is counted before memory is allocated: a session may be far longer than a snapshot
    // is allowed to be, and there may be no memory for both.
    if let LogEntry::Snapshot(_) = entry {
        let mut length = LineLength { remaining: max_len };
        serde_json::to_writer(&mut length, &out).map_err(check_len)?;
        bytes.reserve_exact(max_len - length.remaining + 1);
    }

    let end = start.saturating_add(max_len).saturating_sub(1);
    let mut buffer = LineBuffer { bytes, end };
    serde_json::to_writer(&mut buffer, &out).map_err(check_len)?;
    let is_mark = matches!(entry, LogEntry::Mark);
    let info = info.filter(|_| is_mark || buffer.bytes.len() - start <= LONG_LINE);
    if let Some(info) = info {
        buffer.bytes.pop();
        buffer.bytes.extend_from_slice(b",\"info\":");
        serde_json::to_writer(&mut buffer, info).map_err(check_len)?;
        buffer.bytes.push(b'}');
    }
    put_on_one_line(&mut bytes[start..]);

    // The object continues here, so a comma replaces its opening brace.
    bytes[start + COMMA] = b',';
    let crc = crc32fast::hash(&bytes[start + COMMA + 1..]);

    // A snapshot that is nested too deeply is skipped by readers, which then read the whole log.
    if !matches!(entry, LogEntry::Snapshot(_)) {
        check_depth(&bytes[start..])?;
    }

    let digits = start + LINE_PREFIX.len();
    bytes[digits..digits + DIGITS].copy_from_slice(&hex(crc));
    bytes.push(b'\n');
    Ok(info.is_some())
}

#[derive(Serialize)]
struct LineOut<'a> {
    v: u64,
    seq: u64,
    token: u64,
    at: u64,
    kind: &'static str,
    data: &'a LogEntry,
}

/// The nesting depth from which a line is checked by reading it again: JSON that is nested more
/// than 127 deep is written but not read. Values that this crate limits stay below it.
const SHALLOW: usize = 120;

fn check_depth(line: &[u8]) -> Result<()> {
    if !is_text_deeper(line, SHALLOW) {
        return Ok(());
    }

    let make_error = |why: String| {
        let text = format!("a message cannot be stored, for it could not be read again: {why}");
        Error::new(ErrorKind::InvalidMessages, text)
    };

    let parsed_line =
        serde_json::from_slice::<Outer<'_>>(line).map_err(|e| make_error(e.to_string()))?;
    let mut data = serde_json::Deserializer::from_str(parsed_line.data.get());
    let entry = EntrySeed(&parsed_line.kind).deserialize(&mut data);
    drop(entry.map_err(|e| make_error(e.to_string()))?);
    Ok(())
}

/// The buffer of a line, with a limit: a snapshot may be as long as a session.
struct LineBuffer<'a> {
    bytes: &'a mut Vec<u8>,
    end: usize,
}

impl Write for LineBuffer<'_> {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        if part.len() > self.end.saturating_sub(self.bytes.len()) {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(part);
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Counts the bytes of a line, up to a limit.
struct LineLength {
    remaining: usize,
}

impl Write for LineLength {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        match self.remaining.checked_sub(part.len()) {
            Some(remaining) => self.remaining = remaining,
            None => return Err(io::ErrorKind::FileTooLarge.into()),
        }
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn too_long(entry: &LogEntry, max_len: usize) -> Error {
    let kind = entry.kind();
    let text = format!(
        "a record of the kind `{kind}` has {max_len} bytes or more and cannot be stored, for less \
         are read again; send less at once, and keep large media and files elsewhere"
    );
    Error::new(ErrorKind::InvalidMessages, text)
}

/// Replaces line breaks by spaces. JSON of a provider is stored as it was received, and may have
/// several lines. Line breaks inside its texts are escaped, so all others are between tokens.
fn put_on_one_line(record: &mut [u8]) {
    let mut remaining = record;
    while let Some(index) = memchr::memchr2(b'\n', b'\r', remaining) {
        remaining[index] = b' ';
        remaining = &mut remaining[index + 1..];
    }
}
