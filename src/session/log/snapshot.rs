//! Opening a log at its newest snapshot.
//!
//! A snapshot is a line of kind `snapshot`, whose data is the session that results from the lines
//! before, and a line of kind `mark`, in one write. The `info` of every later write has its
//! position.
//! Nothing before it is removed: if a snapshot cannot be used, the whole log is read.

use crate::error::Result;
use crate::util::Cancellation;
use crate::util::new_thread::on_new_thread;

use super::fold::LogFold;
use super::line::read_snapshot;
use super::log::{Log, LogTail};
use super::memory_limit::{MemoryLimit, max_tail};
use super::scan::{Scan, last_summary, scan_stored, scan_until};
use super::shared::LogShared;
use super::summary::{LogSummary, SnapshotPosition};

/// Reads a log without a lease: it may grow meanwhile. Returns `None` if there is no log.
pub(super) fn read<L: Log>(
    shared: &LogShared<L>,
    id: &str,
    cancellation: &Cancellation,
) -> Result<Option<Scan>> {
    let Some(end) = shared.log.tail(id, shared.end_len)? else {
        return Ok(None);
    };

    shared.check_size(id, end.size)?;
    let limit = shared.memory_limit(id);
    if end.is_whole() {
        let fold = LogFold::new(id).limited(limit);
        return scan_until(cancellation, fold, id, &end.bytes).map(Some);
    }

    on_new_thread(|| {
        let reader = SnapshotReader {
            id,
            limit: &limit,
            cancellation,
        };
        let scan = reader.read(&shared.log, &end, shared.end_len)?;
        if scan.is_some() {
            return Ok(scan);
        }
        let fold = LogFold::new(id).limited(limit);
        scan_stored(&shared.log, cancellation, fold, id)
    })
}

/// Reads a log from its newest snapshot on.
pub(super) struct SnapshotReader<'a> {
    pub(super) id: &'a str,
    pub(super) limit: &'a MemoryLimit,
    pub(super) cancellation: &'a Cancellation,
}

impl SnapshotReader<'_> {
    /// Reads a log. `end` is the end of the log, which may have grown by `more` bytes since.
    ///
    /// Returns `None` if the whole log has to be read: there is no sound snapshot, or the data
    /// after it is damaged.
    pub(super) fn read<L: Log>(&self, log: &L, end: &LogTail, more: u64) -> Result<Option<Scan>> {
        let Some((info, _)) = last_summary(&end.bytes) else {
            return Ok(None);
        };
        let Some(tail_len) = self.tail_len(&info, end.size, more) else {
            return Ok(None);
        };
        let tail = log.tail(self.id, tail_len)?;
        Ok(tail.and_then(|tail| self.scan_tail(&info, &tail)))
    }

    /// Returns the number of bytes from the snapshot to the end of a log of `size` bytes that may
    /// have grown by `more` bytes; `None` if they take too much memory.
    fn tail_len(&self, info: &LogSummary, size: u64, more: u64) -> Option<u64> {
        let offset = info.snapshot?.offset;
        let len = size.saturating_sub(offset).saturating_add(more);
        let max_len = max_tail(self.limit.bytes()) as u64;
        (1..=max_len).contains(&len).then_some(len)
    }

    /// Scans the end of a log, which begins with the snapshot or before it.
    fn scan_tail(&self, info: &LogSummary, tail: &LogTail) -> Option<Scan> {
        let SnapshotPosition { offset, len } = info.snapshot?;
        let tail_offset = tail.size.saturating_sub(tail.bytes.len() as u64);
        let line_start = usize::try_from(offset.checked_sub(tail_offset)?).ok()?;
        let line_end = line_start.checked_add(usize::try_from(len).ok()?)?;
        let line = tail.bytes.get(line_start..line_end)?;
        let later_lines = tail.bytes.get(line_end..)?;

        let mut fold = read_snapshot(self.id, line, self.limit.bytes())?;
        fold.created = info.created;
        fold.limit = self.limit.clone();

        // A version that is too new is reported by the scan of the whole log as well.
        let scan = scan_until(self.cancellation, fold, self.id, later_lines).ok()?;
        let is_sound = scan.damage.is_empty() && scan.fold.snapshot.is_some();
        is_sound.then_some(scan)
    }
}
