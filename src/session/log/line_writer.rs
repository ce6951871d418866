//! The lines of a write.

use serde::Serialize;
use serde::de::DeserializeSeed;

use crate::error::{Error, ErrorKind, Result};
use crate::message::is_text_deeper;

use super::line::{
    COMMA, DIGITS, Entry, EntrySeed, LINE_PREFIX, LogSummary, MAX_LINE, Outer, VERSION, hex,
};

#[derive(Serialize)]
struct LineOut<'a> {
    v: u64,
    seq: u64,
    token: u64,
    at: u64,
    kind: &'static str,
    data: &'a Entry,
    #[serde(skip_serializing_if = "Option::is_none")]
    info: Option<&'a LogSummary>,
}

/// The nesting depth from which a line is checked by reading it again: JSON that is nested more than
/// 127 deep is written but not read. Values that this crate limits stay below it.
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
    let entry = EntrySeed::new(&parsed_line.kind).deserialize(&mut data);
    drop(entry.map_err(|e| make_error(e.to_string()))?);
    Ok(())
}

fn check_len(len: usize, entry: &Entry) -> Result<()> {
    if len < MAX_LINE {
        return Ok(());
    }
    let kind = entry.kind();
    let text = format!(
        "a record of the kind `{kind}` has {len} bytes and cannot be stored, for less than \
         {MAX_LINE} are read again; send less at once, and keep large media and files elsewhere"
    );
    Err(Error::new(ErrorKind::InvalidMessages, text))
}

/// JSON of a provider is kept as it is written, and may be written in several lines. No text in it
/// has ends of lines that are not escaped, so between its tokens a space does as well.
fn put_on_one_line(record: &mut [u8]) {
    let mut remaining = record;
    while let Some(index) = memchr::memchr2(b'\n', b'\r', remaining) {
        remaining[index] = b' ';
        remaining = &mut remaining[index + 1..];
    }
}

/// The lines of one write. The first record has the number `seq`.
///
/// # Errors
///
/// [`ErrorKind::InvalidMessages`] for what is nested too deep or too long.
pub(super) fn write(
    entries: &[Entry],
    seq: u64,
    token: u64,
    at: u64,
    info: Option<&LogSummary>,
) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for (number, entry) in entries.iter().enumerate() {
        let start = bytes.len();
        bytes.extend_from_slice(LINE_PREFIX);
        bytes.extend_from_slice(b"00000000\"");
        let out = LineOut {
            v: VERSION,
            seq: seq.saturating_add(number as u64),
            token,
            at,
            kind: entry.kind(),
            data: entry,
            info: info.filter(|_| number + 1 == entries.len()),
        };

        serde_json::to_writer(&mut bytes, &out)?;
        put_on_one_line(&mut bytes[start..]);

        // The object continues here, so a comma replaces its opening brace.
        bytes[start + COMMA] = b',';
        let crc = crc32fast::hash(&bytes[start + COMMA + 1..]);

        // A snapshot that is nested too deeply is skipped by readers, which then read the whole
        // log.
        if !matches!(entry, Entry::Snapshot(_)) {
            check_depth(&bytes[start..])?;
        }

        check_len(bytes.len() - start, entry)?;
        let digits = start + LINE_PREFIX.len();
        bytes[digits..digits + DIGITS].copy_from_slice(&hex(crc));
        bytes.push(b'\n');
    }

    Ok(bytes)
}
