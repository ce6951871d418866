//! Reading a log that may be damaged.

use memchr::memchr;
use memchr::memmem;

use crate::error::{Error, ErrorKind, Result};
use crate::state::{Damage, DamageKind};

use super::change::Change;
use super::fold::Folded;
use super::record::{Fault, Info, Line, MARK, VERSION};

/// How many beginnings of records are tried in one damaged line. Only a line that quotes logs
/// has more, and trying them all would take time that grows with their square.
const MAX_PIECES: usize = 1_000;
/// How many of the next beginnings are tried as a record's end. More than one, for a record may
/// quote another.
const MAX_ENDS: usize = 8;

/// What a log came to.
#[derive(Debug)]
pub(super) struct Scan {
    pub(super) folded: Folded,
    /// What is wrong before `end` and has not been reported before.
    pub(super) damage: Vec<Damage>,
    /// What follows the last finished write.
    pub(super) tail: Option<Damage>,
    /// Where the last finished write ends.
    pub(super) end: u64,
}

/// Reads all of a log. Nothing that can be read is left out because of what cannot.
pub(super) fn scan(id: &str, bytes: &[u8]) -> Result<Scan> {
    let mut scanner = Scanner {
        scan: Scan {
            folded: Folded::new(id),
            damage: Vec::new(),
            tail: None,
            end: 0,
        },
        open: Vec::new(),
        seq: 0,
        at: 0,
        gap_explained: false,
    };
    let mut at = 0;
    while at < bytes.len() {
        let (line, next) = match memchr(b'\n', &bytes[at..]) {
            Some(len) => (&bytes[at..at + len], at + len + 1),
            None => (&bytes[at..], bytes.len()),
        };
        scanner.line(id, at, line, next)?;
        at = next;
    }
    Ok(scanner.finish(bytes))
}

/// What a list says: the `info` of the last finished write in the end of a log. `None` when
/// there is none in these bytes.
pub(super) fn last_info(id: &str, tail: &[u8]) -> Result<Option<(Info, u64)>> {
    let mut end = tail.len();
    while end > 0 {
        let start = memchr::memrchr(b'\n', &tail[..end - 1]).map_or(0, |at| at + 1);
        match Line::read(strip(&tail[start..end])) {
            Ok(Line {
                info: Some(info),
                at,
                ..
            }) => return Ok(Some((info, at))),
            Err(Fault::TooNew(version)) => return Err(too_new(id, version)),
            Ok(_) | Err(Fault::Damaged) => end = start,
        }
    }
    Ok(None)
}

pub(super) fn too_new(id: &str, version: u32) -> Error {
    Error::new(
        ErrorKind::VersionTooNew,
        format!(
            "session {id:?} was written in version {version} of the format, this program reads \
             up to {VERSION}; it was left untouched, use a newer program"
        ),
    )
}

/// A line without its end. An editor may have put `\r` there.
fn strip(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

struct Scanner {
    scan: Scan,
    /// The changes of a write whose last record has not been seen yet.
    open: Vec<Change>,
    /// The number of the last record that was read, of unfinished writes too.
    seq: u64,
    /// When that was written.
    at: u64,
    /// Whether something unreadable stands between the last record and the next.
    gap_explained: bool,
}

impl Scanner {
    fn line(&mut self, id: &str, at: usize, line: &[u8], next: usize) -> Result<()> {
        let record = strip(line);
        if record.iter().all(u8::is_ascii_whitespace) {
            return Ok(());
        }
        match Line::read(record) {
            Ok(read) => self.record(at, next, &read),
            Err(Fault::TooNew(version)) => return Err(too_new(id, version)),
            Err(Fault::Damaged) => return self.pieces(id, at, record, next),
        }
        Ok(())
    }

    /// Finds whole records in a damaged line: glued to each other, or behind what is torn.
    fn pieces(&mut self, id: &str, at: usize, line: &[u8], next: usize) -> Result<()> {
        let starts: Vec<usize> = memmem::find_iter(line, MARK).take(MAX_PIECES).collect();
        let mut done = 0;
        let mut index = 0;
        while index < starts.len() {
            let start = starts[index];
            let later = starts[index + 1..].iter().copied().take(MAX_ENDS);
            let mut found = None;
            for end in later.chain([line.len()]) {
                match Line::read(&line[start..end]) {
                    Ok(read) => {
                        found = Some((end, read));
                        break;
                    }
                    Err(Fault::TooNew(version)) => return Err(too_new(id, version)),
                    Err(Fault::Damaged) => {}
                }
            }
            let Some((end, read)) = found else {
                index += 1;
                continue;
            };
            self.damaged(at + done, start - done);
            let over = if end == line.len() { next } else { at + end };
            self.record(at + start, over, &read);
            done = end;
            index = starts.partition_point(|start| *start < end);
        }
        if done < line.len() {
            self.damaged(at + done, next - at - done);
        }
        Ok(())
    }

    fn record(&mut self, at: usize, next: usize, line: &Line<'_>) {
        if line.seq <= self.seq || line.token < self.scan.folded.token {
            return self.note(DamageKind::Stale, at, next - at);
        }
        let change = match line.change() {
            Ok(change) => change,
            Err(_) => return self.damaged(at, next - at),
        };
        if line.seq > self.seq + 1 && !self.gap_explained {
            self.note(DamageKind::Missing, at, 0);
        }
        self.gap_explained = false;
        self.seq = line.seq;
        let folded = &mut self.scan.folded;
        folded.token = line.token;
        if folded.created == 0 {
            folded.created = line.at;
        }
        self.at = line.at;
        self.open.extend(change);
        if line.info.is_some() {
            self.commit(next);
        }
    }

    /// Ends a write: its records count.
    fn commit(&mut self, end: usize) {
        let folded = &mut self.scan.folded;
        folded.at = self.at;
        folded.seq = self.seq;
        for change in self.open.drain(..) {
            if matches!(change, Change::Checked) {
                self.scan.damage.clear();
            }
            folded.apply(change);
        }
        self.scan.end = end as u64;
    }

    fn damaged(&mut self, at: usize, len: usize) {
        if len > 0 {
            self.gap_explained = true;
            self.note(DamageKind::Corrupt, at, len);
        }
    }

    fn note(&mut self, kind: DamageKind, at: usize, len: usize) {
        let (offset, len) = (at as u64, len as u64);
        match self.scan.damage.last_mut() {
            Some(last) if last.kind == kind && last.offset + last.len == offset => last.len += len,
            _ => self.scan.damage.push(Damage::new(kind, offset, len)),
        }
    }

    fn finish(mut self, bytes: &[u8]) -> Scan {
        let len = bytes.len() as u64;
        let damage = &self.scan.damage;
        let is_last = |damage: &Damage| damage.len > 0 && damage.offset + damage.len == len;
        // A whole line that cannot be read is no torn one: it may have been acknowledged, and
        // with it what stands before it.
        if bytes.ends_with(b"\n") && damage.last().is_some_and(is_last) {
            self.commit(bytes.len());
        }
        let end = self.scan.end;
        self.scan.damage.retain(|damage| damage.offset < end);
        let rest = &bytes[usize::try_from(end).unwrap_or(bytes.len())..];
        if !rest.iter().all(u8::is_ascii_whitespace) {
            self.scan.tail = Some(Damage::new(DamageKind::TornTail, end, len - end));
        }
        self.scan
    }
}
