//! A record as a line of JSON behind the checksum of its bytes.

use std::borrow::Cow;
use std::sync::Arc;

use serde::de::DeserializeSeed;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::error::{Error, ErrorKind, Result};
use crate::message::is_text_deeper;

use crate::session::record::{Data, OfKind, Record};

/// The version of the format that is written, and the highest that is read.
pub(super) const VERSION: u32 = 1;

/// Every record begins with this, in every version.
pub(super) const MARK: &[u8] = b"{\"crc\":\"";
const DIGITS: usize = 8;
/// The position of the comma after the checksum; the checksum covers the bytes behind it.
const COMMA: usize = MARK.len() + DIGITS + 1;

/// The description of a session for lists.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Info {
    pub(super) messages: usize,
    pub(super) created: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) title: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) user_id: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cwd: Option<Arc<str>>,
}

/// A line of a log.
#[derive(Clone, Debug)]
pub(super) enum Entry {
    /// A change of the session.
    Record(Record),
    /// All damage before this line has been reported and put aside.
    Checked,
}

impl Entry {
    fn kind(&self) -> &'static str {
        match self {
            Self::Record(record) => record.kind(),
            Self::Checked => "checked",
        }
    }
}

/// Serialises the data alone; the kind is stored next to it.
impl Serialize for Entry {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        match self {
            Self::Record(record) => Data(record).serialize(to),
            Self::Checked => to.serialize_unit(),
        }
    }
}

/// A line that was read. Its entry is parsed on demand.
#[derive(Debug, Deserialize)]
pub(super) struct Line<'a> {
    pub(super) seq: u64,
    pub(super) token: u64,
    pub(super) at: u64,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    data: &'a RawValue,
    /// The info of the session, on the last record of a write.
    pub(super) info: Option<Info>,
}

#[derive(Deserialize)]
struct Version {
    v: u32,
}

/// The reason why a line is no record.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Damaged,
    TooNew(u32),
}

impl<'a> Line<'a> {
    /// Reads a line without its end.
    pub(super) fn read(line: &'a [u8]) -> std::result::Result<Self, Fault> {
        let body = checked(line).ok_or(Fault::Damaged)?;
        // The checksum is right, so the line is what somebody wrote: if it is not understood,
        // the writer was another version, or damaged it before the checksum was made.
        let version: Version = parse(body).ok_or(Fault::Damaged)?;
        if version.v > VERSION {
            return Err(Fault::TooNew(version.v));
        }
        parse(body).ok_or(Fault::Damaged)
    }

    /// The entry; `Ok(None)` when its kind is unknown.
    pub(super) fn entry(&self) -> serde_json::Result<Option<Entry>> {
        if self.kind == "checked" {
            return Ok(Some(Entry::Checked));
        }
        let mut data = serde_json::Deserializer::from_str(self.data.get());
        Ok(match OfKind(&self.kind).deserialize(&mut data)? {
            Record::Unknown => None,
            record => Some(Entry::Record(record)),
        })
    }
}

/// The line, if its checksum is right.
fn checked(line: &[u8]) -> Option<&[u8]> {
    let digits = line.strip_prefix(MARK)?.get(..DIGITS)?;
    if line.get(COMMA - 1..=COMMA)? != b"\"," {
        return None;
    }
    // Compared as it is written: a digit that can be read in two ways could be flipped unseen.
    let crc = crc32fast::hash(&line[COMMA + 1..]);
    (format!("{crc:08x}").as_bytes() == digits).then_some(line)
}

fn parse<'a, T: Deserialize<'a>>(line: &'a [u8]) -> Option<T> {
    serde_json::from_slice(line).ok()
}

#[derive(Serialize)]
struct Out<'a> {
    v: u32,
    seq: u64,
    token: u64,
    at: u64,
    kind: &'static str,
    data: &'a Entry,
    #[serde(skip_serializing_if = "Option::is_none")]
    info: Option<&'a Info>,
}

/// The nesting depth from which a line is checked by reading it again: JSON that is nested more than
/// 127 deep is written but not read. Values that this crate limits stay below it.
const SHALLOW: usize = 120;

fn check_depth(line: &[u8]) -> Result<()> {
    if !is_text_deeper(line, SHALLOW) {
        return Ok(());
    }
    let unreadable = |why: String| {
        let text = format!("a message cannot be stored, for it could not be read again: {why}");
        Error::new(ErrorKind::InvalidMessages, text)
    };
    let read = serde_json::from_slice::<Line<'_>>(line).map_err(|e| unreadable(e.to_string()))?;
    let entry = read.entry().map_err(|e| unreadable(e.to_string()))?;
    drop(entry);
    Ok(())
}

/// JSON of a provider is kept as it is written, and may be written in several lines. No text in it
/// has ends of lines that are not escaped, so between its tokens a space does as well.
fn put_on_one_line(record: &mut [u8]) {
    let mut rest = record;
    while let Some(at) = memchr::memchr2(b'\n', b'\r', rest) {
        rest[at] = b' ';
        rest = &mut rest[at + 1..];
    }
}

/// The lines of one write. The first record has the number `seq`.
///
/// # Errors
///
/// [`ErrorKind::InvalidMessages`] for what is nested too deep.
pub(super) fn write(
    entries: &[Entry],
    seq: u64,
    token: u64,
    at: u64,
    info: &Info,
) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for (number, entry) in entries.iter().enumerate() {
        let start = bytes.len();
        bytes.extend_from_slice(MARK);
        bytes.extend_from_slice(b"00000000\"");
        let out = Out {
            v: VERSION,
            seq: seq.saturating_add(number as u64),
            token,
            at,
            kind: entry.kind(),
            data: entry,
            info: (number + 1 == entries.len()).then_some(info),
        };
        serde_json::to_writer(&mut bytes, &out)?;
        put_on_one_line(&mut bytes[start..]);
        // The object goes on where its own brace would open another.
        bytes[start + COMMA] = b',';
        let crc = crc32fast::hash(&bytes[start + COMMA + 1..]);
        check_depth(&bytes[start..])?;
        let digits = start + MARK.len();
        bytes[digits..digits + DIGITS].copy_from_slice(format!("{crc:08x}").as_bytes());
        bytes.push(b'\n');
    }
    Ok(bytes)
}
