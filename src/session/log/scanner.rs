//! The reader of a log that may be damaged.

use memchr::{memchr, memmem, memrchr};
use serde::de::IgnoredAny;

use crate::error::{Error, ErrorKind, Result};
use crate::session::{Damage, DamageKind};
use crate::util::Cancellation;

use super::fold::LogFold;
use super::line::{
    Fault, LINE_PREFIX, Line, LogEntry, MAX_LINE, SNAPSHOT_HEAD, VERSION, begins_snapshot,
};
use super::memory_limit::max_snapshot;
use super::scan::Scan;

/// The maximum number of possible beginnings of records that are tried in one damaged line. Only a
/// line that quotes logs has more, and trying all of them would take quadratic time.
const MAX_PIECES: usize = 1_000;

/// The maximum number of bytes of the damaged lines of a log that are read again in search of
/// records. In addition, as many are read as these lines have.
const MAX_WORK: usize = 4 * MAX_LINE;

/// The number of entries of a write that are applied between two checks for cancellation.
const CHECK_INTERVAL: usize = 1_000;

/// The memory of the report of a damaged part, with the path of the part, in bytes.
const DAMAGE_REPORT: usize = 256;

/// The maximum number of bytes of an incomplete tail that are set aside at once.
const TAIL_PIECE: u64 = 16 * 1024 * 1024;

/// Reads a log, given piece by piece.
pub(super) struct Scanner<'a> {
    cancellation: &'a Cancellation,
    id: &'a str,
    scan: Scan,
    /// The entries of a write whose last record has not been seen yet, and their memory.
    open: Vec<LogEntry>,
    open_bytes: usize,
    /// The number of the entry before which others are missing.
    hole: Option<usize>,
    /// The number of damaged parts that a run has reported, according to the newest `Checked`
    /// entry. They are removed from the scan when the write of that entry ends.
    reported_count: usize,
    /// The number of the last record that was read, of unfinished writes too.
    seq: u64,
    /// The time of that record.
    timestamp: u64,
    /// True if unreadable bytes follow the last record, so that missing records are not reported.
    is_gap_explained: bool,
    /// The bytes of the line that has begun; empty once it is too long.
    line: Vec<u8>,
    /// The offset of that line, and its length so far.
    line_start: usize,
    line_len: usize,
    /// The number of bytes of damaged lines that may be read again.
    work: usize,
    /// The end of the last line that is not blank, without its trailing whitespace.
    content_end: usize,
    /// The first bytes after the last complete write.
    tail_head: Vec<u8>,
    /// The error of a session that takes too much memory. It is created before the log is read: an
    /// error allocated last would keep the allocator from returning the memory before it.
    too_large: Option<Error>,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(cancellation: &'a Cancellation, fold: LogFold, id: &'a str) -> Self {
        let seq = fold.seq;
        let timestamp = fold.updated;
        let too_large = Some(fold.limit.error());
        Self {
            cancellation,
            id,
            scan: Scan {
                fold,
                damage: Vec::new(),
                tail: None,
                tail_pieces: Vec::new(),
                end: 0,
                is_snapshot: false,
                has_open_line: false,
            },
            open: Vec::new(),
            open_bytes: 0,
            hole: None,
            reported_count: 0,
            seq,
            timestamp,
            is_gap_explained: false,
            line: Vec::new(),
            line_start: 0,
            line_len: 0,
            work: MAX_WORK,
            content_end: 0,
            tail_head: Vec::new(),
            too_large,
        }
    }

    fn too_large(&mut self) -> Error {
        let limit = &self.scan.fold.limit;
        self.too_large.take().unwrap_or_else(|| limit.error())
    }

    fn check_cancelled(&self) -> Result<()> {
        if self.cancellation.is_cancelled() {
            Err(Error::session_busy(self.id))
        } else {
            Ok(())
        }
    }

    /// Returns the bytes of memory that the next line may take.
    fn remaining_bytes(&self) -> usize {
        let fold = &self.scan.fold;
        let damage = self.scan.damage.len().saturating_mul(DAMAGE_REPORT);
        let used = fold.memory().saturating_add(self.open_bytes);
        let limit = fold.limit.bytes();
        limit.saturating_sub(used.saturating_add(damage))
    }

    /// Reads the next bytes.
    pub(super) fn push(&mut self, mut bytes: &[u8]) -> Result<()> {
        self.check_cancelled()?;
        loop {
            if self.line_len == 0 {
                // Many blank lines are passed at once.
                let blank_len = blank_lines(bytes);
                self.line_start += blank_len;
                bytes = &bytes[blank_len..];
            }

            let Some(len) = memchr(b'\n', bytes) else {
                return self.extend(bytes);
            };

            let (piece, remaining) = bytes.split_at(len + 1);
            bytes = remaining;
            if self.line_len == 0 && piece.len() <= MAX_LINE {
                self.line_len = piece.len();
                self.end_line(piece)?;
            } else {
                self.extend(piece)?;
                let line = std::mem::take(&mut self.line);
                self.end_line(&line)?;
            }
        }
    }

    /// Keeps the next bytes of a line, unless it is too long.
    fn extend(&mut self, bytes: &[u8]) -> Result<()> {
        self.line_len += bytes.len();
        if self.line_len > MAX_LINE {
            self.line = Vec::new();
        } else if self.line_len > self.remaining_bytes() && !self.is_in_snapshot(bytes) {
            return Err(self.too_large());
        } else {
            self.line.extend_from_slice(bytes);
        }
        Ok(())
    }

    /// Returns `true` if the line that these bytes continue is a snapshot. It needs no room in the
    /// memory of the session: its data is not read, and a process that reads a session has memory
    /// for a snapshot of the maximum length in addition.
    fn is_in_snapshot(&self, bytes: &[u8]) -> bool {
        let line = self.line.iter().chain(bytes);
        let head: Vec<u8> = line.take(SNAPSHOT_HEAD).copied().collect();
        let max_len = max_snapshot(self.scan.fold.limit.bytes());
        self.line_len <= max_len && begins_snapshot(&head)
    }

    /// Reads a line, which is empty if it is too long.
    fn end_line(&mut self, line: &[u8]) -> Result<()> {
        let offset = self.line_start;
        let next = self.line_start + self.line_len;
        (self.line_start, self.line_len) = (next, 0);
        let trimmed_len = if line.is_empty() {
            next - offset
        } else {
            line.trim_ascii_end().len()
        };

        if trimmed_len == 0 {
            return Ok(());
        }

        self.check_cancelled()?;
        self.content_end = offset + trimmed_len;
        if self.end() + self.tail_head.len() == offset {
            let room = SNAPSHOT_HEAD.saturating_sub(self.tail_head.len());
            self.tail_head.extend(line.iter().take(room));
        }

        let end = self.scan.end;
        let record = strip(line);
        if line.is_empty() {
            self.add_damage(offset, next - offset)?;
        } else {
            self.read_line(offset, record, next)?;
        }

        if self.scan.end != end {
            let head = line
                .get(self.end().saturating_sub(offset)..)
                .unwrap_or_default();
            self.tail_head = head[..head.len().min(SNAPSHOT_HEAD)].to_vec();
            self.scan.has_open_line = self.end() < next || !line.ends_with(b"\n");
        }

        Ok(())
    }

    /// Returns the end of the last complete write.
    fn end(&self) -> usize {
        usize::try_from(self.scan.end).unwrap_or(usize::MAX)
    }

    /// Reads the line at this offset, which ends before `next`.
    fn read_line(&mut self, offset: usize, record: &[u8], next: usize) -> Result<()> {
        match Line::read(record, self.remaining_bytes()) {
            Ok(line) => self.add_record(offset, next, line),
            Err(Fault::TooNew(version)) => Err(too_new(self.id, version)),
            Err(Fault::TooLarge) => Err(self.too_large()),
            Err(Fault::Damaged) => self.read_pieces(offset, record, next),
        }
    }

    /// Reads the whole records in a damaged line: several in one line, or after a torn one.
    fn read_pieces(&mut self, offset: usize, line: &[u8], next: usize) -> Result<()> {
        let mut scanned_end = 0;
        self.work = self.work.saturating_add(line.len());
        for start in memmem::find_iter(line, LINE_PREFIX).take(MAX_PIECES) {
            if start < scanned_end {
                continue;
            }

            let Some(remaining) = self.work.checked_sub(line.len() - start) else {
                break;
            };

            self.check_cancelled()?;
            let end = start + object_len(&line[start..]);
            match Line::read(&line[start..end], self.remaining_bytes()) {
                Ok(record) => {
                    self.add_damage(offset + scanned_end, start - scanned_end)?;
                    let record_end = if end == line.len() {
                        next
                    } else {
                        offset + end
                    };
                    self.add_record(offset + start, record_end, record)?;
                    scanned_end = end;
                }
                Err(Fault::TooNew(version)) => return Err(too_new(self.id, version)),
                Err(Fault::TooLarge) => return Err(self.too_large()),
                Err(Fault::Damaged) => self.work = remaining,
            }
        }

        if scanned_end < line.len() {
            self.add_damage(offset + scanned_end, next - offset - scanned_end)?;
        }

        Ok(())
    }

    /// Adds a record to the write that is being read, and ends the write with its last record.
    fn add_record(&mut self, offset: usize, next: usize, line: Line<'_>) -> Result<()> {
        if line.seq <= self.seq || line.token < self.scan.fold.token {
            return self.report(DamageKind::Stale, offset, next - offset);
        }

        let seq = line.seq;
        let token = line.token;
        let time = line.at;
        let info = line.info.as_ref();
        let (messages, snapshot) = (
            info.map(|info| info.messages),
            info.and_then(|info| info.snapshot),
        );
        let entry = match line.into_entry() {
            Ok(entry) => entry,
            Err(_) => return self.add_damage(offset, next - offset),
        };

        if let Some(LogEntry::Checked { is_reported: true }) = &entry {
            self.reported_count = self.scan.damage.len();
        }

        let is_gap = seq > self.seq + 1;

        // The numbers of records that were lost at the end are used again.
        if is_gap || (self.is_gap_explained && !self.open.is_empty()) {
            self.hole.get_or_insert(self.open.len());
        }

        if is_gap && !self.is_gap_explained {
            self.report(DamageKind::Missing, offset, 0)?;
        }

        self.is_gap_explained = false;
        self.seq = seq;
        let fold = &mut self.scan.fold;
        fold.token = token;
        if fold.created == 0 {
            fold.created = time;
        }

        self.timestamp = time;
        if let Some(entry) = &entry {
            self.open_bytes = self.open_bytes.saturating_add(entry.memory());
        }

        self.open.extend(entry);
        if messages.is_some() {
            self.commit(next, messages)?;
            self.scan.fold.snapshot = snapshot;
        }
        Ok(())
    }

    /// Ends a write and applies its records. `messages` is the number of messages after the write.
    fn commit(&mut self, end: usize, messages: Option<usize>) -> Result<()> {
        self.open_bytes = 0;
        let fold = &mut self.scan.fold;
        fold.updated = self.timestamp;
        fold.seq = self.seq;
        self.scan
            .damage
            .drain(..std::mem::take(&mut self.reported_count));

        let mut number = 0_usize;
        let mut check = || {
            let is_due = number.is_multiple_of(CHECK_INTERVAL);
            number += 1;
            if is_due && self.cancellation.is_cancelled() {
                return Err(Error::session_busy(self.id));
            }
            Ok(())
        };
        match (self.hole.take(), messages) {
            (None, Some(_)) => {
                for entry in self.open.drain(..) {
                    check()?;
                    fold.replay(entry);
                }
            }
            (hole, _) => {
                let entries = std::mem::take(&mut self.open);
                let hole = hole.unwrap_or(entries.len());
                fold.apply_broken(entries, hole, messages, &mut check)?;
            }
        }

        self.scan.end = end as u64;
        Ok(())
    }

    /// Adds bytes that cannot be read.
    fn add_damage(&mut self, offset: usize, len: usize) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        self.is_gap_explained = true;
        self.report(DamageKind::Corrupt, offset, len)
    }

    /// Adds damage to the report. It extends the last one if it follows it.
    fn report(&mut self, kind: DamageKind, offset: usize, len: usize) -> Result<()> {
        let offset = offset as u64;
        let len = len as u64;
        let has_room = self.remaining_bytes() >= DAMAGE_REPORT;
        match self.scan.damage.last_mut() {
            Some(last) if last.kind == kind && last.offset + last.len == offset => last.len += len,
            _ if has_room => self.scan.damage.push(Damage::new(kind, offset, len)),
            _ => return Err(self.too_large()),
        }
        Ok(())
    }

    /// Ends the log.
    pub(super) fn finish(mut self) -> Result<Scan> {
        let has_line_end = self.line_len == 0;
        if !has_line_end {
            let line = std::mem::take(&mut self.line);
            self.end_line(&line)?;
        }

        self.check_cancelled()?;
        let len = self.line_start;
        let last_damage = self.scan.damage.last().filter(|damage| damage.len > 0);
        let last_end = last_damage.map(|damage| damage.offset + damage.len);

        // A whole line that cannot be read is not a torn one: it may have been acknowledged, and so
        // may the records before it. The same holds for bytes that are longer than any record.
        let is_too_long = len - self.end() > MAX_LINE;
        if last_end == Some(len as u64) && (has_line_end || is_too_long) {
            self.commit(len, None)?;
            self.scan.has_open_line = !has_line_end;
        }

        self.scan.fold.remove_answered();
        let end = self.scan.end;
        self.scan.damage.retain(|damage| damage.offset < end);
        if self.content_end > self.end() {
            let tail_len = len as u64 - end;
            let tail = Damage::new(DamageKind::TornTail, end, tail_len);
            self.scan.is_snapshot = begins_snapshot(&self.tail_head);
            if !self.scan.is_snapshot {
                self.scan.tail_pieces = tail.pieces(TAIL_PIECE).collect();
            }
            self.scan.tail = Some(tail);
        }

        Ok(self.scan)
    }
}

/// Returns the error of a session that a newer program wrote.
fn too_new(id: &str, version: u64) -> Error {
    Error::new(
        ErrorKind::VersionTooNew,
        format!(
            "session {id:?} was written in version {version} of the format, this program reads \
             up to {VERSION}; it was left untouched, use a newer program"
        ),
    )
}

/// Returns the length of the blank lines at the beginning.
fn blank_lines(bytes: &[u8]) -> usize {
    let blank_len = bytes.len() - bytes.trim_ascii_start().len();
    memrchr(b'\n', &bytes[..blank_len]).map_or(0, |at| at + 1)
}

/// Returns a line without its end. An editor may have put `\r` there.
fn strip(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Returns the length of the JSON object at the beginning of these bytes; 0 if there is none.
fn object_len(bytes: &[u8]) -> usize {
    let mut values = serde_json::Deserializer::from_slice(bytes).into_iter::<IgnoredAny>();
    match values.next() {
        Some(Ok(_)) => values.byte_offset(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
