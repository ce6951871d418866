//! The scan of a log that may be damaged.

use memchr::{memchr, memmem, memrchr};
use serde::de::IgnoredAny;

use crate::error::{Error, ErrorKind, Result};
use crate::session::{Damage, DamageKind, busy};

use super::fold::LogFold;
use super::line::{Entry, Fault, Info, Line, MARK, VERSION, begins_snapshot};

/// The number of possible beginnings of records that are tried in one damaged line. Only a line
/// that quotes logs has more, and trying them all would take time that grows with their square.
const MAX_PIECES: usize = 1_000;

/// The result of reading a log.
#[derive(Debug)]
pub(in crate::session) struct Scan {
    pub(super) fold: LogFold,
    /// The damage before `end` that has not been reported before.
    pub(in crate::session) damage: Vec<Damage>,
    /// The bytes after the last complete write.
    pub(in crate::session) tail: Option<Damage>,
    /// The end of the last complete write.
    pub(in crate::session) end: u64,
    /// True if `tail` is an unfinished snapshot, in which there is nothing to keep.
    is_snapshot: bool,
}

impl Scan {
    /// The damage that is reported, and kept for inspection.
    pub(in crate::session) fn kept(&self) -> impl Iterator<Item = &Damage> {
        let tail = self.tail.iter().filter(|_| !self.is_snapshot);
        self.damage.iter().chain(tail)
    }

    /// As [`kept`](Self::kept), to note where it is.
    pub(in crate::session) fn kept_mut(&mut self) -> impl Iterator<Item = &mut Damage> {
        let tail = self.tail.iter_mut().filter(|_| !self.is_snapshot);
        self.damage.iter_mut().chain(tail)
    }
}

/// Reads all of a log. Nothing that can be read is left out because of what cannot.
pub(in crate::session) fn scan(id: &str, bytes: &[u8]) -> Result<Scan> {
    scan_into(LogFold::new(id), id, bytes)
}

/// Like [`scan`], into an empty session, or one from a snapshot that ends where `bytes` begin.
pub(in crate::session) fn scan_into(fold: LogFold, id: &str, bytes: &[u8]) -> Result<Scan> {
    scan_while(&|| true, fold, id, bytes)
}

/// Like [`scan_into`], while `is_wanted` returns `true`.
///
/// # Errors
///
/// Also [`ErrorKind::SessionBusy`] once it returns `false`.
pub(in crate::session) fn scan_while(
    is_wanted: &dyn Fn() -> bool,
    fold: LogFold,
    id: &str,
    bytes: &[u8],
) -> Result<Scan> {
    let (seq, at) = (fold.seq, fold.at);
    let mut scanner = Scanner {
        scan: Scan {
            fold,
            damage: Vec::new(),
            tail: None,
            end: 0,
            is_snapshot: false,
        },
        open: Vec::new(),
        hole: None,
        seq,
        at,
        gap_explained: false,
    };
    let mut at = 0;
    while at < bytes.len() {
        if !is_wanted() {
            return Err(busy(id));
        }
        let (line, next) = match memchr(b'\n', &bytes[at..]) {
            Some(len) => (&bytes[at..at + len], at + len + 1),
            None => (&bytes[at..], bytes.len()),
        };
        scanner.line(id, at, line, next)?;
        at = next;
    }
    match is_wanted() {
        true => Ok(scanner.finish(bytes)),
        false => Err(busy(id)),
    }
}

/// The info for lists: the `info` of the last record in the end of a log. `None` when the last line
/// is no whole record, or begins before these bytes.
pub(in crate::session) fn last_info(tail: &[u8]) -> Option<(Info, u64)> {
    let tail = tail.trim_ascii_end();
    let start = memrchr(b'\n', tail).map_or(0, |at| at + 1);
    let line = Line::read(&tail[start..]).ok()?;
    line.info.map(|info| (info, line.at))
}

/// The damaged bytes of a log.
pub(in crate::session) fn part_of<'a>(bytes: &'a [u8], damage: &Damage) -> &'a [u8] {
    let to_index = |offset: u64| usize::try_from(offset).unwrap_or(bytes.len());
    let end = to_index(damage.offset.saturating_add(damage.len)).min(bytes.len());
    &bytes[to_index(damage.offset).min(end)..end]
}

pub(in crate::session) fn too_new(id: &str, version: u32) -> Error {
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

/// The length of the JSON object at the beginning of these bytes; 0 when there is none.
fn object_len(bytes: &[u8]) -> usize {
    let mut values = serde_json::Deserializer::from_slice(bytes).into_iter::<IgnoredAny>();
    match values.next() {
        Some(Ok(_)) => values.byte_offset(),
        _ => 0,
    }
}

struct Scanner {
    scan: Scan,
    /// The entries of a write whose last record has not been seen yet.
    open: Vec<Entry>,
    /// The number of the entry before which others are missing.
    hole: Option<usize>,
    /// The number of the last record that was read, of unfinished writes too.
    seq: u64,
    /// The time of that record.
    at: u64,
    /// True if there is something unreadable between the last record and the next.
    gap_explained: bool,
}

impl Scanner {
    fn line(&mut self, id: &str, at: usize, line: &[u8], next: usize) -> Result<()> {
        let record = strip(line);
        if record.iter().all(u8::is_ascii_whitespace) {
            return Ok(());
        }
        match Line::read(record) {
            Ok(read) => self.record(at, next, read),
            Err(Fault::TooNew(version)) => return Err(too_new(id, version)),
            Err(Fault::Damaged) => return self.pieces(id, at, record, next),
        }
        Ok(())
    }

    /// Finds whole records in a damaged line: glued to each other, or to what is torn.
    fn pieces(&mut self, id: &str, at: usize, line: &[u8], next: usize) -> Result<()> {
        let mut scanned_end = 0;
        for start in memmem::find_iter(line, MARK).take(MAX_PIECES) {
            if start < scanned_end {
                continue;
            }
            let end = start + object_len(&line[start..]);
            match Line::read(&line[start..end]) {
                Ok(read) => {
                    self.damaged(at + scanned_end, start - scanned_end);
                    let record_end = if end == line.len() { next } else { at + end };
                    self.record(at + start, record_end, read);
                    scanned_end = end;
                }
                Err(Fault::TooNew(version)) => return Err(too_new(id, version)),
                Err(Fault::Damaged) => {}
            }
        }
        if scanned_end < line.len() {
            self.damaged(at + scanned_end, next - at - scanned_end);
        }
        Ok(())
    }

    fn record(&mut self, at: usize, next: usize, line: Line<'_>) {
        if line.seq <= self.seq || line.token < self.scan.fold.token {
            return self.note(DamageKind::Stale, at, next - at);
        }
        let (seq, token, time) = (line.seq, line.token, line.at);
        let info = line.info.as_ref();
        let (messages, snapshot) = (
            info.map(|info| info.messages),
            info.and_then(|info| info.snapshot),
        );
        let entry = match line.into_entry() {
            Ok(entry) => entry,
            Err(_) => return self.damaged(at, next - at),
        };
        let is_gap = seq > self.seq + 1;
        // Numbers of what was lost at the end are used again.
        if is_gap || (self.gap_explained && !self.open.is_empty()) {
            self.hole.get_or_insert(self.open.len());
        }
        if is_gap && !self.gap_explained {
            self.note(DamageKind::Missing, at, 0);
        }
        self.gap_explained = false;
        self.seq = seq;
        let fold = &mut self.scan.fold;
        fold.token = token;
        if fold.created == 0 {
            fold.created = time;
        }
        self.at = time;
        self.open.extend(entry);
        if messages.is_some() {
            self.commit(next, messages);
            self.scan.fold.snapshot = snapshot;
        }
    }

    /// Ends a write, behind which there were so many messages: its records count.
    fn commit(&mut self, end: usize, messages: Option<usize>) {
        let fold = &mut self.scan.fold;
        fold.at = self.at;
        fold.seq = self.seq;
        let is_check = |entry: &Entry| matches!(entry, Entry::Checked);
        if self.open.iter().any(is_check) {
            self.scan.damage.clear();
        }
        match (self.hole.take(), messages) {
            (None, Some(_)) => self.open.drain(..).for_each(|entry| fold.apply(entry)),
            (hole, _) => {
                let entries = std::mem::take(&mut self.open);
                let hole = hole.unwrap_or(entries.len());
                fold.apply_broken(entries, hole, messages);
            }
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
            self.commit(bytes.len(), None);
        }
        let end = self.scan.end;
        self.scan.damage.retain(|damage| damage.offset < end);
        let tail = &bytes[usize::try_from(end).unwrap_or(bytes.len())..];
        if !tail.iter().all(u8::is_ascii_whitespace) {
            self.scan.tail = Some(Damage::new(DamageKind::TornTail, end, len - end));
            self.scan.is_snapshot = begins_snapshot(tail);
        }
        self.scan
    }
}
