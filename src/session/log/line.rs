//! A record as a line of JSON after the checksum of its bytes.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use memchr::memmem;

use crate::session::StoredSession;
use crate::session::record::{Data, OfKind, Record};
use crate::session::size::{added_size, of_id};
use crate::session::text_cost::{RECORD, memory_exceeds};

use super::fold::LogFold;
use super::snapshot_reader;
use super::summary::LogSummary;

/// The version of the format that is written, and the highest that is read.
pub(super) const VERSION: u64 = 1;

/// The maximum length of a line, in bytes, both written and read.
pub(super) const MAX_LINE: usize = 64 * 1024 * 1024;

/// The beginning of every line, in every version.
pub(super) const LINE_PREFIX: &[u8] = b"{\"crc\":\"";
pub(super) const DIGITS: usize = 8;
const SNAPSHOT: &str = "snapshot";
/// The number of bytes at the beginning of a line that are searched for the kind of a snapshot.
pub(super) const SNAPSHOT_HEAD: usize = 160;
/// The position of the comma after the checksum; the checksum covers the bytes after it.
pub(super) const COMMA: usize = LINE_PREFIX.len() + DIGITS + 1;

/// A line of a log.
#[derive(Clone, Debug)]
pub(super) enum LogEntry {
    /// A change of the session.
    Record(Record),
    /// All damage before this line was put aside.
    Checked {
        /// False until a run has reported it.
        is_reported: bool,
    },
    /// The session that results from the lines before. Read only if the log is opened at it.
    Snapshot(Box<StoredSession>),
    /// Ends a write whose last record is long, such as a snapshot, so that the end of the log is
    /// short.
    Mark,
}

impl LogEntry {
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Record(record) => record.kind(),
            Self::Checked { .. } => "checked",
            Self::Snapshot(_) => SNAPSHOT,
            Self::Mark => "mark",
        }
    }

    /// Returns the memory that the entry takes until its write is complete, in bytes. A record that
    /// adds nothing to the session takes some as well.
    pub(super) fn memory(&self) -> usize {
        let bytes = match self {
            Self::Record(Record::Answered { ids }) => ids.iter().map(|id| of_id(id)).sum(),
            Self::Record(record) => added_size(record),
            _ => 0,
        };
        bytes.max(size_of::<Self>())
    }
}

/// Serializes the data alone; the kind is stored next to it.
impl Serialize for LogEntry {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        match self {
            Self::Record(record) => Data(record).serialize(to),
            Self::Checked { is_reported: true } | Self::Mark => to.serialize_unit(),
            Self::Checked { .. } => Check { reported: false }.serialize(to),
            Self::Snapshot(session) => session.serialize(to),
        }
    }
}

/// The data of [`LogEntry::Checked`]; none represents damage that was reported.
#[derive(Serialize, Deserialize)]
struct Check {
    #[serde(default)]
    reported: bool,
}

/// A line that was read.
#[derive(Debug)]
pub(super) struct Line<'a> {
    pub(super) seq: u64,
    pub(super) token: u64,
    pub(super) at: u64,
    data: LineData<'a>,
    /// On the last record of a write.
    pub(super) info: Option<LogSummary>,
}

#[derive(Debug)]
enum LineData<'a> {
    /// The entry, which was read in one pass with the line; `None` if its kind is unknown.
    Read(Option<LogEntry>),
    /// The kind and the data, which could not be read with the line.
    Unread(Cow<'a, str>, &'a RawValue),
}

/// A line whose data is not examined.
#[derive(Deserialize)]
pub(super) struct Outer<'a> {
    #[serde(default)]
    v: Option<u64>,
    seq: u64,
    token: u64,
    at: u64,
    #[serde(borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) data: &'a RawValue,
    /// The info of the session, on the last record of a write.
    info: Option<LogSummary>,
}

#[derive(Deserialize)]
struct Version {
    v: u64,
}

/// The reason a line cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Damaged,
    TooNew(u64),
    /// Reading it takes too much memory.
    TooLarge,
}

impl<'a> Line<'a> {
    /// Reads a line without its end, for which there are `room` bytes of memory.
    pub(super) fn read(line: &'a [u8], room: usize) -> std::result::Result<Self, Fault> {
        let body = checked(line).ok_or(Fault::Damaged)?;
        if let Some(line) = Self::of_snapshot(body) {
            return Ok(line);
        }
        if memory_exceeds(body, RECORD, room) {
            return Err(Fault::TooLarge);
        }
        if let Some(line) = one_pass(body) {
            return Ok(line);
        }

        // The checksum is right, so the line is as it was written: if it cannot be parsed, the
        // writer was another version, or the line was damaged before the checksum was computed.
        let version: Version = parse(body).ok_or(Fault::Damaged)?;
        if version.v > VERSION {
            return Err(Fault::TooNew(version.v));
        }

        let outer: Outer<'_> = parse(body).ok_or(Fault::Damaged)?;
        Ok(Self {
            seq: outer.seq,
            token: outer.token,
            at: outer.at,
            data: LineData::Unread(outer.kind, outer.data),
            info: outer.info,
        })
    }

    /// Reads the line of a snapshot without its data; `None` for any other line.
    fn of_snapshot(line: &'a [u8]) -> Option<Self> {
        let outer = snapshot_fields(line)?;
        Some(Self {
            seq: outer.seq,
            token: outer.token,
            at: outer.at,
            data: LineData::Read(None),
            info: outer.info,
        })
    }

    /// Reads the description of the session and the time of a line, without its data. Returns
    /// `None` for a line of a newer version.
    pub(super) fn read_summary(line: &[u8]) -> Option<(LogSummary, u64)> {
        let outer = parse::<Outer<'_>>(checked(line)?)?;
        if outer.v.is_some_and(|v| v > VERSION) {
            return None;
        }
        outer.info.map(|info| (info, outer.at))
    }

    /// Returns the entry; `Ok(None)` if its kind is unknown.
    pub(super) fn into_entry(self) -> serde_json::Result<Option<LogEntry>> {
        match self.data {
            LineData::Read(entry) => Ok(entry),
            LineData::Unread(kind, data) => {
                let mut data = serde_json::Deserializer::from_str(data.get());
                EntrySeed(&kind).deserialize(&mut data)
            }
        }
    }
}

/// Reads a line and its data in one pass. Returns `None` if the line is not written as this version
/// writes lines.
fn one_pass(line: &[u8]) -> Option<Line<'_>> {
    let mut json = serde_json::Deserializer::from_slice(line);
    let parsed_line = OnePass.deserialize(&mut json).ok()?;
    json.end().ok()?;
    Some(parsed_line)
}

/// Reads the line of a snapshot, including its line feed. Returns `None` for any other line, and if
/// the session would take more than `max_bytes` of memory.
pub(super) fn read_snapshot(id: &str, line: &[u8], max_bytes: usize) -> Option<LogFold> {
    let outer = snapshot_fields(checked(line.strip_suffix(b"\n")?)?)?;
    let (session, size) = snapshot_reader::read(outer.data, max_bytes).ok()?;
    let mut fold = LogFold::of(id, session, size);
    fold.seq = outer.seq;
    fold.token = outer.token;
    fold.updated = outer.at;
    Some(fold)
}

/// Returns the fields of the line of a snapshot; `None` for any other line.
fn snapshot_fields(line: &[u8]) -> Option<Outer<'_>> {
    if !begins_snapshot(line) {
        return None;
    }
    let outer = parse::<Outer<'_>>(line)?;
    let is_snapshot = outer.kind == SNAPSHOT && outer.v.is_some_and(|v| v <= VERSION);
    is_snapshot.then_some(outer)
}

/// Returns `true` if these bytes are the beginning of a snapshot.
pub(super) fn begins_snapshot(bytes: &[u8]) -> bool {
    let head = &bytes[..bytes.len().min(SNAPSHOT_HEAD)];
    bytes.starts_with(LINE_PREFIX)
        && memmem::find(head, b"\"kind\":\"snapshot\",\"data\":{").is_some()
}

/// Reads the data of an entry of this kind; `None` for an unknown one, and for snapshots.
pub(super) struct EntrySeed<'a>(pub(super) &'a str);

impl<'de> DeserializeSeed<'de> for EntrySeed<'_> {
    type Value = Option<LogEntry>;

    fn deserialize<D: Deserializer<'de>>(
        self,
        from: D,
    ) -> std::result::Result<Option<LogEntry>, D::Error> {
        if self.0 == "checked" {
            let check = Option::<Check>::deserialize(from)?;
            let is_reported = check.is_none_or(|check| check.reported);
            return Ok(Some(LogEntry::Checked { is_reported }));
        }

        Ok(match OfKind(self.0).deserialize(from)? {
            Record::Unknown => None,
            record => Some(LogEntry::Record(record)),
        })
    }
}

impl<'de> DeserializeSeed<'de> for OnePass {
    type Value = Line<'de>;

    fn deserialize<D: Deserializer<'de>>(
        self,
        from: D,
    ) -> std::result::Result<Line<'de>, D::Error> {
        from.deserialize_map(self)
    }
}

/// The fields of a line.
#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum Key {
    V,
    Seq,
    Token,
    At,
    Kind,
    Data,
    Info,
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(transparent)]
struct Kind<'a>(#[serde(borrow)] Cow<'a, str>);

struct OnePass;

impl<'de> Visitor<'de> for OnePass {
    type Value = Line<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a line of a log")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Line<'de>, A::Error> {
        let mut version = None;
        let mut seq = None;
        let mut token = None;
        let mut time = None;
        let mut kind: Option<Kind<'de>> = None;
        let mut data = None;
        let mut info = None;
        while let Some(key) = map.next_key()? {
            match key {
                Key::V if version.is_none() => version = Some(map.next_value::<u64>()?),
                Key::Seq if seq.is_none() => seq = Some(map.next_value()?),
                Key::Token if token.is_none() => token = Some(map.next_value()?),
                Key::At if time.is_none() => time = Some(map.next_value()?),
                Key::Kind if kind.is_none() => kind = Some(map.next_value()?),
                Key::Info if info.is_none() => {
                    info = Some(map.next_value::<Option<LogSummary>>()?);
                }
                Key::Data if data.is_none() => match &kind {
                    Some(Kind(kind)) if version.is_some_and(|version| version <= VERSION) => {
                        data = Some(map.next_value_seed(EntrySeed(kind))?);
                    }
                    _ => return Err(de::Error::custom("data without its kind and version")),
                },
                Key::Other => drop(map.next_value::<IgnoredAny>()?),
                _ => return Err(de::Error::custom("a field is repeated")),
            }
        }

        match (seq, token, time, data) {
            (Some(seq), Some(token), Some(time), Some(data)) => Ok(Line {
                seq,
                token,
                at: time,
                data: LineData::Read(data),
                info: info.flatten(),
            }),
            _ => Err(de::Error::custom("a field is missing")),
        }
    }
}

/// Returns the line, if its checksum is right.
fn checked(line: &[u8]) -> Option<&[u8]> {
    let digits = line.strip_prefix(LINE_PREFIX)?.get(..DIGITS)?;
    if line.get(COMMA - 1..=COMMA)? != b"\"," {
        return None;
    }
    // The digits are compared as text: a digit with two spellings could change without notice.
    let crc = crc32fast::hash(&line[COMMA + 1..]);
    (hex(crc) == digits).then_some(line)
}

/// Returns a checksum as it is written: lower-case hexadecimal digits.
pub(super) fn hex(crc: u32) -> [u8; DIGITS] {
    let mut digits = [0; DIGITS];
    for (place, digit) in digits.iter_mut().rev().enumerate() {
        *digit = b"0123456789abcdef"[(crc >> (4 * place)) as usize & 0xf];
    }
    digits
}

fn parse<'a, T: Deserialize<'a>>(line: &'a [u8]) -> Option<T> {
    serde_json::from_slice(line).ok()
}
