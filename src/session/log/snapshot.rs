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
use super::scan::{Scan, last_info, scan_stored, scan_until};
use super::shared::LogShared;
use super::summary::SnapshotPosition;

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
        let log = &shared.log;
        let scan = at_snapshot(log, id, &end, shared.end_len, &limit, cancellation)?;
        if scan.is_some() {
            return Ok(scan);
        }
        scan_stored(log, cancellation, LogFold::new(id).limited(limit), id)
    })
}

/// Reads a log from its newest snapshot on. `end` is the end of the log, which may have grown by
/// `more` bytes since.
///
/// Returns `None` if the whole log has to be read: there is no sound snapshot, or the data after it
/// is damaged.
pub(super) fn at_snapshot<L: Log>(
    log: &L,
    id: &str,
    end: &LogTail,
    more: u64,
    limit: &MemoryLimit,
    cancellation: &Cancellation,
) -> Result<Option<Scan>> {
    let Some((info, _)) = last_info(&end.bytes) else {
        return Ok(None);
    };

    let Some(SnapshotPosition { offset, len }) = info.snapshot else {
        return Ok(None);
    };

    let wanted_len = end.size.saturating_sub(offset).saturating_add(more);
    if wanted_len == 0 || wanted_len > max_tail(limit.bytes()) as u64 {
        return Ok(None);
    }

    let Some(LogTail { bytes, size }) = log.tail(id, wanted_len)? else {
        return Ok(None);
    };

    let start = size.saturating_sub(bytes.len() as u64);
    let start_offset = offset.checked_sub(start);
    let part = start_offset.and_then(|start_offset| {
        let start_offset = usize::try_from(start_offset).ok()?;
        let end = start_offset.checked_add(usize::try_from(len).ok()?)?;
        Some((bytes.get(start_offset..end)?, bytes.get(end..)?))
    });

    let Some((line, later_lines)) = part else {
        return Ok(None);
    };

    let Some(mut fold) = read_snapshot(id, line, limit.bytes()) else {
        return Ok(None);
    };

    fold.created = info.created;
    fold.limit = limit.clone();

    // A version that is too new is reported by the scan of the whole log as well.
    let scan = scan_until(cancellation, fold, id, later_lines).ok();
    Ok(scan.filter(|scan| scan.damage.is_empty() && scan.fold.snapshot.is_some()))
}
