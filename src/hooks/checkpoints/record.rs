//! A change of a file as a record: a line of JSON behind its checksum, then the bytes it keeps.

use std::io::{self, BufRead, Seek, SeekFrom};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::util::hash::{Fnv1a, fnv1a};

/// The version of the format that is written, and the highest that is read.
const VERSION: u32 = 2;
/// The checksum and the space behind it.
const MARK: usize = 17;
/// A longer line is no record.
const MAX_LINE: u64 = 1024 * 1024;

/// The fingerprint of a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Sum {
    pub(super) len: u64,
    hash: u64,
}

impl Sum {
    pub(super) fn of(content: &[u8]) -> Self {
        let mut sum = Summing::default();
        sum.push(content);
        sum.done()
    }
}

/// The sum of a content that arrives piece by piece.
#[derive(Default)]
pub(super) struct Summing {
    len: u64,
    hash: Fnv1a,
}

impl Summing {
    pub(super) fn push(&mut self, piece: &[u8]) {
        self.len += piece.len() as u64;
        self.hash.push(piece);
    }

    pub(super) fn done(&self) -> Sum {
        Sum {
            len: self.len,
            hash: self.hash.value(),
        }
    }
}

/// The state of a file before its first change since a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Before {
    /// The file did not exist.
    Absent,
    /// Its content is in the record.
    Kept { mode: Option<u32>, sum: Sum },
    /// It was neither, or is not kept; the text is the reason.
    NotKept(String),
}

impl Before {
    /// The content's fingerprint, if it was a file or absent.
    pub(super) fn found(&self) -> Option<Option<Sum>> {
        match self {
            Self::Absent => Some(None),
            Self::Kept { sum, .. } => Some(Some(*sum)),
            Self::NotKept(_) => None,
        }
    }
}

/// The result that a change was to have on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum After {
    Absent,
    Content(Sum),
}

impl After {
    pub(super) fn sum(self) -> Option<Sum> {
        match self {
            Self::Absent => None,
            Self::Content(sum) => Some(sum),
        }
    }
}

/// A stored record of a change. `before` is there on the first one of a file since a message.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Record {
    /// The message the change came after, by its position in the history.
    pub(super) message: usize,
    /// The beginning of that message, on the first record since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) title: Option<Arc<str>>,
    /// True if rewinding made the change, after all messages until then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) rewound: bool,
    /// The number of messages, of the history that earlier records count in, that were still
    /// unchanged; none when all are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) still: Option<usize>,
    /// The workspace of the file. Version 1 did not record it, and its records apply to each; a
    /// program that supports only version 1 would rewind the files of one in another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) root: Option<Arc<str>>,
    /// The file, beneath the root; empty when the record only marks a new message.
    pub(super) path: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) before: Option<Before>,
    pub(super) after: After,
    /// The number of bytes that follow the line.
    pub(super) len: u64,
}

#[derive(Serialize)]
struct Out<'a> {
    v: u32,
    #[serde(flatten)]
    record: &'a Record,
}

#[derive(Deserialize)]
struct Version {
    v: u32,
}

/// The bytes of a record, and where in them the content is.
pub(super) fn write(record: &Record, content: &[u8]) -> Result<(Vec<u8>, usize)> {
    let json = serde_json::to_vec(&Out { v: VERSION, record })?;
    let mut bytes = format!("{:016x} ", fnv1a([json.as_slice()])).into_bytes();
    bytes.extend_from_slice(&json);
    bytes.push(b'\n');
    let content_offset = bytes.len();
    bytes.extend_from_slice(content);
    bytes.push(b'\n');
    Ok((bytes, content_offset))
}

/// The reason why the following bytes cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The last record was never finished.
    Torn,
    Damaged,
    TooNew(u32),
}

/// A record that was read, and where it is.
pub(super) struct Found {
    pub(super) record: Record,
    pub(super) start: u64,
    pub(super) content: u64,
    pub(super) end: u64,
}

/// Reads records until there are none left, or one is at fault.
pub(super) fn scan(
    mut file: impl BufRead + Seek,
    mut each: impl FnMut(Found),
) -> io::Result<Option<Fault>> {
    let size = file.seek(SeekFrom::End(0))?;
    let mut start = file.seek(SeekFrom::Start(0))?;
    let mut line = Vec::new();
    while start < size {
        line.clear();
        let bytes_read = io::Read::take(&mut file, MAX_LINE).read_until(b'\n', &mut line)?;
        let content = start + bytes_read as u64;
        if line.pop() != Some(b'\n') {
            let is_torn = content == size;
            return Ok(Some(if is_torn { Fault::Torn } else { Fault::Damaged }));
        }
        let record = match parse(&line) {
            Ok(record) => record,
            Err(fault) => return Ok(Some(fault)),
        };
        let end = content.saturating_add(record.len).saturating_add(1);
        if end > size {
            return Ok(Some(Fault::Torn));
        }
        each(Found {
            record,
            start,
            content,
            end,
        });
        start = file.seek(SeekFrom::Start(end))?;
    }
    Ok(None)
}

fn parse(line: &[u8]) -> std::result::Result<Record, Fault> {
    let (mark, json) = line.split_at_checked(MARK).ok_or(Fault::Damaged)?;
    if mark != format!("{:016x} ", fnv1a([json])).as_bytes() {
        return Err(Fault::Damaged);
    }
    let Version { v } = serde_json::from_slice(json).map_err(|_| Fault::Damaged)?;
    if v > VERSION {
        return Err(Fault::TooNew(v));
    }
    serde_json::from_slice(json).map_err(|_| Fault::Damaged)
}
