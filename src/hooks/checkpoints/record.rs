//! The record of a file's change: a line of JSON after its checksum, then the stored content.

use std::io::{self, BufRead, Seek, SeekFrom};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::util::hash::{Fnv1a, fnv1a};
use crate::util::path::short_path;

/// The version of the format that is written, and the highest that is read.
const VERSION: u32 = 2;
/// The length of the checksum and the space after it.
const CHECKSUM_LEN: usize = 17;
/// The maximum length of a record's line, in bytes.
const MAX_LINE: u64 = 1024 * 1024;

/// The fingerprint of a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Fingerprint {
    pub(super) len: u64,
    hash: u64,
}

impl Fingerprint {
    pub(super) fn of(content: &[u8]) -> Self {
        let mut fingerprinter = Fingerprinter::default();
        fingerprinter.push(content);
        fingerprinter.finish()
    }
}

/// The computation of a [`Fingerprint`] from a content in pieces.
#[derive(Default)]
pub(super) struct Fingerprinter {
    len: u64,
    hash: Fnv1a,
}

impl Fingerprinter {
    pub(super) fn push(&mut self, piece: &[u8]) {
        self.len += piece.len() as u64;
        self.hash.push(piece);
    }

    /// Adds bytes that are not read, but distinguish the content from others.
    pub(super) fn push_unread(&mut self, len: u64, distinction: &[u8]) {
        self.len += len;
        self.hash.push(distinction);
    }

    pub(super) fn finish(&self) -> Fingerprint {
        Fingerprint {
            len: self.len,
            hash: self.hash.value(),
        }
    }
}

/// The content of a path, by its fingerprint; or no file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FileContent {
    Absent,
    #[serde(rename = "content")]
    Is(Fingerprint),
}

impl FileContent {
    pub(super) fn of(content: &[u8]) -> Self {
        Self::Is(Fingerprint::of(content))
    }
}

/// The state of a file before its first change since a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PriorState {
    /// The file did not exist.
    Absent,
    /// Its content is in the record.
    #[serde(rename = "kept")]
    Stored {
        mode: Option<u32>,
        #[serde(rename = "sum")]
        fingerprint: Fingerprint,
    },
    /// The path was no regular file, or its content is not stored, for this reason.
    #[serde(rename = "not_kept")]
    NotStored(String),
}

impl PriorState {
    /// Returns the content, if it is known.
    pub(super) fn file_content(&self) -> Option<FileContent> {
        match self {
            Self::Absent => Some(FileContent::Absent),
            Self::Stored { fingerprint, .. } => Some(FileContent::Is(*fingerprint)),
            Self::NotStored(_) => None,
        }
    }
}

/// The kind of work that made a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Run,
    Rewind,
}

/// A stored record of a change.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ChangeRecord {
    /// The message the change came after, by its position in the history.
    pub(super) message: usize,
    /// The beginning of that message, on the first record after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) title: Option<Arc<str>>,
    /// True if the change was made by rewinding.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) rewound: bool,
    /// The number of leading messages of the earlier history that are unchanged; `None` if all are.
    #[serde(rename = "still", default, skip_serializing_if = "Option::is_none")]
    pub(super) unchanged_messages: Option<usize>,
    /// The root of the file's workspace. Records of version 1 have none and apply to every
    /// workspace. A program that supports only version 1 would rewind a file in the wrong
    /// workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) root: Option<Arc<str>>,
    /// The file, below the root; empty when the record only marks a new message.
    pub(super) path: Arc<str>,
    /// The state before the change, on the first record of the file since the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) before: Option<PriorState>,
    /// The content after the change.
    pub(super) after: FileContent,
    /// The number of bytes that follow the line.
    pub(super) len: u64,
}

#[derive(Serialize)]
struct RecordOut<'a> {
    v: u32,
    #[serde(flatten)]
    record: &'a ChangeRecord,
}

#[derive(Deserialize)]
struct Version {
    v: u32,
}

/// Returns the line of a record. Its content and a line feed come after it.
///
/// # Errors
///
/// Returns [`ErrorKind::InvalidRequest`] if the line would be longer than the limit for reading.
pub(super) fn line(record: &ChangeRecord) -> Result<Vec<u8>> {
    let json = serde_json::to_vec(&RecordOut { v: VERSION, record })?;
    let mut line = format!("{:016x} ", fnv1a([json.as_slice()])).into_bytes();
    line.extend_from_slice(&json);
    line.push(b'\n');
    if line.len() as u64 <= MAX_LINE {
        return Ok(line);
    }

    let text = format!(
        "the change of {:?} cannot be recorded: its record has {} bytes, and at most {MAX_LINE} are \
         read; use a shorter path",
        short_path(&record.path),
        line.len()
    );
    Err(Error::new(ErrorKind::InvalidRequest, text))
}

/// The reason why the bytes after the last readable record cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The last record was never finished, or the rest of it was cut off.
    Torn(Torn),
    /// This number of bytes at the end cannot be read as records.
    Damaged(u64),
    TooNew(u32),
}

/// A record whose end is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Torn {
    /// The number of its bytes that are there.
    pub(super) len: u64,
    /// The path of its file, if that can be read.
    pub(super) path: Option<Arc<str>>,
}

/// A record that was read, and its offsets.
pub(super) struct ReadRecord {
    pub(super) record: ChangeRecord,
    pub(super) start: u64,
    pub(super) content_offset: u64,
    pub(super) end: u64,
}

/// Reads records up to the end, or up to one that cannot be read. Returns the fault of that one.
pub(super) fn scan(
    mut file: impl BufRead + Seek,
    mut each: impl FnMut(ReadRecord) -> io::Result<()>,
) -> io::Result<Option<Fault>> {
    let size = file.seek(SeekFrom::End(0))?;
    let mut start = file.seek(SeekFrom::Start(0))?;
    let mut line = Vec::new();
    while start < size {
        line.clear();
        let bytes_read = io::Read::take(&mut file, MAX_LINE).read_until(b'\n', &mut line)?;
        let content_offset = start + bytes_read as u64;
        if line.pop() != Some(b'\n') {
            let is_torn = content_offset == size;
            let len = size - start;
            return Ok(Some(if is_torn {
                Fault::Torn(Torn { len, path: None })
            } else {
                Fault::Damaged(len)
            }));
        }

        let record = match parse(&line) {
            Ok(Some(record)) => record,
            Ok(None) => return Ok(Some(Fault::Damaged(size - start))),
            Err(version) => return Ok(Some(Fault::TooNew(version))),
        };

        let end = content_offset.saturating_add(record.len).saturating_add(1);
        if end > size {
            return Ok(Some(Fault::Torn(Torn {
                len: size - start,
                path: Some(record.path).filter(|path| !path.is_empty()),
            })));
        }

        each(ReadRecord {
            record,
            start,
            content_offset,
            end,
        })?;

        start = file.seek(SeekFrom::Start(end))?;
    }

    Ok(None)
}

/// Returns the record of a line, or `None` if it is damaged.
///
/// # Errors
///
/// Returns the version of the format if it is newer than this crate's.
fn parse(line: &[u8]) -> std::result::Result<Option<ChangeRecord>, u32> {
    let Some((checksum, json)) = line.split_at_checked(CHECKSUM_LEN) else {
        return Ok(None);
    };
    if checksum != format!("{:016x} ", fnv1a([json])).as_bytes() {
        return Ok(None);
    }
    match serde_json::from_slice(json) {
        Ok(Version { v }) if v > VERSION => Err(v),
        Ok(_) => Ok(serde_json::from_slice(json).ok()),
        Err(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Cursor};

    use super::*;

    #[test]
    fn record_with_a_line_that_is_not_read_is_refused() {
        let record = |len| ChangeRecord {
            message: 0,
            title: None,
            rewound: false,
            unchanged_messages: None,
            root: None,
            path: "a".repeat(len).into(),
            before: None,
            after: FileContent::Absent,
            len: 0,
        };
        let longest = 1024 * 1024 - line(&record(0)).unwrap().len();
        let bytes = [line(&record(longest)).unwrap(), b"\n".to_vec()].concat();
        let fault = scan(BufReader::new(Cursor::new(bytes)), |_| Ok(()));
        assert_eq!(fault.unwrap(), None);
        let error = line(&record(longest + 1)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRequest);
        assert!(error.text().contains("has 1048577 bytes"), "{error}");
    }

    /// The names are those of version 2, which existing files have.
    #[test]
    fn record_is_stored_under_its_names() {
        let content = FileContent::of(b"new");
        let records = [
            (
                Some(PriorState::Stored {
                    mode: Some(0o644),
                    fingerprint: Fingerprint::of(b"old"),
                }),
                r#"{"kept":{"mode":420,"sum":{"len":3,"hash":1877909893089886326}}}"#,
            ),
            (
                Some(PriorState::NotStored("too large".to_owned())),
                r#"{"not_kept":"too large"}"#,
            ),
            (Some(PriorState::Absent), r#""absent""#),
        ];
        for (before, stored_before) in records {
            let record = ChangeRecord {
                message: 4,
                title: Some("Go".into()),
                rewound: true,
                unchanged_messages: Some(2),
                root: Some("/ws".into()),
                path: "a".into(),
                before,
                after: content,
                len: 0,
            };

            let bytes = [line(&record).unwrap(), b"\n".to_vec()].concat();
            let line = String::from_utf8(bytes.clone()).unwrap();
            let json = format!(
                "{{\"v\":2,\"message\":4,\"title\":\"Go\",\"rewound\":true,\"still\":2,\"root\":\"/ws\",\
                 \"path\":\"a\",\"before\":{stored_before},\
                 \"after\":{{\"content\":{{\"len\":3,\"hash\":2393897505926526769}}}},\"len\":0}}"
            );
            assert_eq!(line[CHECKSUM_LEN..].trim_end(), json);
            let mut read_records = Vec::new();
            let fault = scan(BufReader::new(Cursor::new(bytes)), |read_record| {
                read_records.push(read_record.record);
                Ok(())
            });

            assert_eq!(fault.unwrap(), None);
            assert_eq!(read_records[0].before, record.before);
            assert_eq!(read_records[0].unchanged_messages, Some(2));
        }
    }
}
