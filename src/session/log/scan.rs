//! The scan of a log that may be damaged.

use std::hash::{DefaultHasher, Hash, Hasher};

use memchr::memrchr;

use crate::error::Result;
use crate::session::{Damage, DamageKind};
use crate::util::Cancellation;

use super::fold::LogFold;
use super::line::{Line, MAX_LINE};
use super::log::Log;
use super::repair::{Content, Repair};
use super::scanner::Scanner;
use super::summary::LogSummary;

/// The result of reading a log.
#[derive(Debug)]
pub(super) struct Scan {
    pub(super) fold: LogFold,
    /// The damage before `end` that no run has reported yet.
    pub(super) damage: Vec<Damage>,
    /// The bytes after the last complete write.
    pub(super) tail: Option<Damage>,
    /// The damaged tail in pieces, which are set aside one after the other.
    pub(super) tail_pieces: Vec<Damage>,
    /// The end of the last complete write.
    pub(super) end: u64,
    /// True if `tail` is an unfinished snapshot, in which there is nothing to keep.
    pub(super) is_snapshot: bool,
    /// True if the bytes before `end` do not end with a line feed.
    pub(super) has_open_line: bool,
}

impl Scan {
    /// Returns the damage that is reported.
    pub(super) fn reported(&self) -> impl Iterator<Item = &Damage> {
        let tail = self.tail.iter().filter(|_| !self.is_snapshot);
        self.damage.iter().chain(tail)
    }

    /// Returns `true` if the log is not as it was written.
    pub(super) fn needs_repair(&self) -> bool {
        !self.damage.is_empty() || self.tail.is_some()
    }

    /// Returns a number that differs between scans with different damage.
    pub(super) fn damage_hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.end.hash(&mut hasher);
        for damage in self.damage.iter().chain(&self.tail) {
            (damage.kind, damage.offset, damage.len).hash(&mut hasher);
        }
        hasher.finish()
    }

    /// Returns the repair of the scanned log. Damage that is longer than any record stays where it
    /// is.
    pub(super) fn repair<'a>(&'a self, content: Content<'a>) -> Repair<'a> {
        let parts = self
            .damage
            .iter()
            .filter(|damage| is_set_aside(damage))
            .chain(&self.tail_pieces)
            .collect();
        Repair::new(content, parts, self.tail.as_ref().map(|_| self.end))
    }

    /// Returns the damage that is reported once the log is repaired and its damaged parts are at
    /// `place`.
    pub(super) fn repaired(&self, place: Option<&str>) -> Vec<Damage> {
        let reported = self.reported().map(|damage| {
            let mut damage = damage.clone();
            if is_set_aside(&damage) {
                damage.kept_in = place.map(str::to_owned);
            }
            damage
        });
        reported.collect()
    }
}

fn is_set_aside(damage: &Damage) -> bool {
    damage.len <= MAX_LINE as u64 || damage.kind == DamageKind::TornTail
}

/// Reads a whole log. Every readable record is used, also between damaged parts.
pub(super) fn scan(id: &str, bytes: &[u8]) -> Result<Scan> {
    scan_until(&Cancellation::default(), LogFold::new(id), id, bytes)
}

/// Reads a log like [`scan`] until it is cancelled. `fold` is empty, or has the session of a
/// snapshot that ends where `bytes` begin.
///
/// # Errors
///
/// Returns the same errors as [`scan`], and [`ErrorKind::SessionBusy`] once `cancellation` is
/// cancelled.
pub(super) fn scan_until(
    cancellation: &Cancellation,
    fold: LogFold,
    id: &str,
    bytes: &[u8],
) -> Result<Scan> {
    let mut scanner = Scanner::new(cancellation, fold, id);
    scanner.push(bytes)?;
    scanner.finish()
}

/// Reads a stored log like [`scan_until`], piece by piece. Returns `None` if there is no log. Needs
/// the memory of the session and of the longest line, which has at most [`MAX_LINE`] bytes.
pub(super) fn scan_stored<L: Log>(
    log: &L,
    cancellation: &Cancellation,
    fold: LogFold,
    id: &str,
) -> Result<Option<Scan>> {
    let mut scanner = Scanner::new(cancellation, fold, id);
    if log.read(id, &mut |bytes| scanner.push(bytes))? {
        scanner.finish().map(Some)
    } else {
        Ok(None)
    }
}

/// Returns the summary and its time, from the last record of a write in the end of a log, with the
/// bytes behind that record. Returns `None` if no such record is whole.
pub(super) fn last_write(tail: &[u8]) -> Option<(LogSummary, u64, &[u8])> {
    let mut end = tail.len();
    loop {
        let start = memrchr(b'\n', &tail[..end]).map_or(0, |at| at + 1);
        if let Some((summary, time)) = Line::read_summary(tail[start..end].trim_ascii_end()) {
            return Some((summary, time, &tail[end..]));
        }
        end = start.checked_sub(1)?;
    }
}

/// Returns the summary and its time, from the last record in the end of a log. Returns `None` if
/// the last line is not a whole record, or begins before these bytes.
pub(super) fn last_summary(tail: &[u8]) -> Option<(LogSummary, u64)> {
    let tail = tail.trim_ascii_end();
    let start = memrchr(b'\n', tail).map_or(0, |at| at + 1);
    Line::read_summary(&tail[start..])
}
