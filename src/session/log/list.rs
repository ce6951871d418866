//! The list of the sessions of a store.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::session::{SessionInfo, descendants};
use crate::util::Cancellation;
use crate::util::new_thread::on_new_thread;

use super::clock::system_time;
use super::fold::LogFold;
use super::id_sample::IdSample;
use super::line::MAX_LINE;
use super::log::{Log, LogTail};
use super::long_reads::SHORT_READ;
use super::newest::{MAX_BYTES, MAX_COUNT, Newest};
use super::scan::{Scan, last_write, scan_until};
use super::shared::LogShared;
use super::summary::LogSummary;
use super::whole_reads::LogEnd;

/// The maximum size of the ids that one call of `prune` examines, in bytes.
const MAX_ID_BYTES: usize = 32 * 1024 * 1024;

/// The number of bytes of a log's end that are read first to list it.
pub(super) const TAIL: u64 = 16 * 1024;
/// The number of bytes that are read next. From here on, the number is doubled until the end has
/// the last record of a write.
const NEXT_TAIL: u64 = 256 * 1024;
/// The number of sessions whose ends are read at once.
const AT_ONCE: usize = 100;

impl<L: Log> LogShared<L> {
    /// Returns the infos of the newest sessions within the limits of a list, newest first.
    pub(super) fn list(&self, cancellation: &Cancellation) -> Result<Vec<SessionInfo>> {
        let mut newest = Newest::new(MAX_COUNT, MAX_BYTES);
        let mut ids = Vec::new();
        self.log.for_each_page(&mut |page| {
            check_not_cancelled(cancellation)?;
            for id in page {
                ids.push(id);
                if ids.len() == AT_ONCE {
                    self.add_infos(&ids, &mut newest, cancellation)?;
                    ids.clear();
                }
            }
            Ok(())
        })?;
        self.add_infos(&ids, &mut newest, cancellation)?;
        Ok(newest.into_list())
    }

    /// Returns the ids of the sessions that one call of `prune` examines: all, or a random part of
    /// many, so that later calls examine others.
    pub(super) fn ids_to_prune(&self, cancellation: &Cancellation) -> Result<Vec<Arc<str>>> {
        let mut sample = IdSample::new(MAX_ID_BYTES);
        self.log.for_each_page(&mut |page| {
            check_not_cancelled(cancellation)?;
            page.into_iter().for_each(|id| sample.add(id));
            Ok(())
        })?;
        Ok(sample.into_ids())
    }

    /// Returns the sessions of the subagents of a session, and of theirs, each after its parent.
    /// Reads only the ends of logs whose ids are those of its subagents.
    pub(super) fn children(&self, id: &str, cancellation: &Cancellation) -> Result<Vec<Arc<str>>> {
        let prefix = format!("{id}:sub:");
        let mut children = Newest::new(MAX_COUNT, MAX_BYTES);
        self.log.for_each_page_with(&prefix, &mut |page| {
            check_not_cancelled(cancellation)?;
            let is_child = |id: &Arc<str>| id.starts_with(&prefix);
            let ids: Vec<_> = page.into_iter().filter(is_child).collect();
            for ids in ids.chunks(AT_ONCE) {
                self.add_infos(ids, &mut children, cancellation)?;
            }
            Ok(())
        })?;
        Ok(descendants(id, Vec::new(), children.into_list()))
    }

    /// Returns `true` if the session with this end of its log can be read and its last write is
    /// older than `age`.
    pub(super) fn is_older(
        &self,
        id: &str,
        end: Result<Option<LogTail>>,
        age: Duration,
        cancellation: &Cancellation,
    ) -> Result<bool> {
        let info = self.info(id, end, cancellation)?;
        Ok(info.is_some_and(|info| info.problem.is_none() && info.is_older_than(age)))
    }

    /// Adds the infos of logs for a list.
    fn add_infos(
        &self,
        ids: &[Arc<str>],
        newest: &mut Newest,
        cancellation: &Cancellation,
    ) -> Result<()> {
        for (id, end) in ids.iter().zip(self.log.tails(ids, TAIL)?) {
            check_not_cancelled(cancellation)?;
            if let Some(info) = self.info(id, end, cancellation)? {
                newest.add(info);
            }
        }
        Ok(())
    }

    /// Returns `true` if the next lease drops these bytes behind the last record of a write, as an
    /// incomplete write.
    ///
    /// # Errors
    ///
    /// Returns an error if a newer program wrote them.
    fn is_dropped(&self, id: &str, bytes: &[u8], cancellation: &Cancellation) -> Result<bool> {
        let fold = LogFold::new(id).limited(self.memory_limit(id));
        let scan = on_new_thread(|| scan_until(cancellation, fold, id, bytes))?;
        Ok(scan.end == 0)
    }

    /// Returns the description of a log that ends with `tail`, from a read of the whole log, and
    /// remembers it.
    fn whole_summary(
        &self,
        id: &str,
        tail: LogTail,
        cancellation: &Cancellation,
    ) -> Result<Option<(LogSummary, u64)>> {
        let end = LogEnd::of(&tail);
        drop(tail);
        let outcome = match self.read_whole(id, cancellation, LogFold::new(id)) {
            // The log was removed. This is not remembered: a new log may have the same end.
            Ok(None) => return Ok(None),
            Ok(Some(scan)) => summary_of_scan(&scan),
            Err(error) => Err(error),
        };
        self.whole_reads.add(id, end, &outcome);
        outcome
    }

    /// Returns the description of a log from its end, whose last write is `last_write`; `None` if
    /// the end does not suffice.
    fn end_summary(
        &self,
        id: &str,
        tail: &LogTail,
        last_write: Option<(LogSummary, u64, &[u8])>,
        cancellation: &Cancellation,
    ) -> Option<Result<Option<(LogSummary, u64)>>> {
        let (summary, time, bytes) = last_write?;
        if bytes.trim_ascii().is_empty() {
            return Some(Ok(Some((summary, time))));
        }
        // A log that was read to its beginning anyway is scanned, which finds all damage.
        if tail.is_whole() {
            return None;
        }
        // The next lease drops these bytes if they are an incomplete write. An unreadable line with
        // its line feed is damage instead, which only a read of the whole log describes.
        match self.is_dropped(id, bytes, cancellation) {
            Ok(true) => Some(Ok(Some((summary, time)))),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }

    /// Returns the info for lists of a log with this `end`; `None` for a session without content.
    fn info(
        &self,
        id: &str,
        mut end: Result<Option<LogTail>>,
        cancellation: &Cancellation,
    ) -> Result<Option<SessionInfo>> {
        let mut info = SessionInfo::new(id, 0);
        let mut len = TAIL;
        let mut turn = None;
        let summary = loop {
            let tail = match end {
                Ok(Some(tail)) => tail,
                Ok(None) => return Ok(None),
                // A session that cannot be read does not end the list.
                Err(error) if self.log.concerns_one_log(&error) => {
                    info.problem = Some(error.to_string().into());
                    return Ok(Some(info));
                }
                Err(error) => return Err(error),
            };

            info.size = Some(tail.size);
            if let Some(outcome) = self.whole_reads.outcome(id, &tail) {
                break outcome;
            }
            let last_write = last_write(&tail.bytes);
            let next_len = next_len(&tail, len, last_write.is_some());
            if let Some(outcome) = self.end_summary(id, &tail, last_write, cancellation) {
                break outcome;
            }

            if turn.is_none() && next_len.unwrap_or(tail.size) > SHORT_READ {
                turn = Some(self.long_reads.wait(cancellation)?);
                // Another list may have read it meanwhile.
                if let Some(outcome) = self.whole_reads.outcome(id, &tail) {
                    break outcome;
                }
            }

            let Some(next_len) = next_len else {
                break self.whole_summary(id, tail, cancellation);
            };
            drop(tail);
            len = next_len;
            end = self.log.tail(id, len);
        };

        match summary {
            Ok(Some((summary, at))) => describe(&mut info, summary, at),
            Ok(None) => return Ok(None),
            Err(error) => info.problem = Some(error.to_string().into()),
        }

        self.add_size_problem(id, &mut info);
        Ok(Some(info))
    }

    /// Adds the problem of a session that is too large: its end can be read, but the session
    /// cannot. An earlier problem stays.
    fn add_size_problem(&self, id: &str, info: &mut SessionInfo) {
        if let Some(size) = info.size.filter(|_| info.problem.is_none())
            && let Err(error) = self.check_size(id, size)
        {
            info.problem = Some(error.to_string().into());
        }
    }
}

/// Returns the number of bytes of a log's end to read next, after `tail`, its last `len` bytes, did
/// not suffice; `None` if the whole log is read next. `has_write` is true if it has a whole write.
fn next_len(tail: &LogTail, len: u64, has_write: bool) -> Option<u64> {
    if tail.is_whole() || len >= MAX_LINE as u64 || has_write {
        return None;
    }
    Some(len.saturating_mul(2).max(NEXT_TAIL))
}

/// Completes the info for lists of a log whose last write was at the time `at`.
fn describe(info: &mut SessionInfo, summary: LogSummary, at: u64) {
    info.messages = summary.messages;
    info.pending = summary.pending;
    info.title = summary.title;
    info.created_at = system_time(summary.created);
    info.updated_at = system_time(at);
    info.user_id = summary.user_id;
    info.cwd = summary.cwd;
    info.parent = summary.parent;
}

/// Returns the summary of a log that was read as a whole, and the time of its last write. Returns
/// `None` if the log has only an incomplete first write.
fn summary_of_scan(scan: &Scan) -> Result<Option<(LogSummary, u64)>> {
    let fold = &scan.fold;
    let time = scan.fold.updated;
    if fold.exists() {
        return Ok(Some((fold.summary_after(&[], time), time)));
    }
    if scan.damage.is_empty() {
        // An incomplete first write.
        return Ok(None);
    }
    Err(Error::new(
        ErrorKind::Corrupt,
        "no record of it can be read",
    ))
}

/// Returns an error after the call was dropped.
pub(super) fn check_not_cancelled(cancellation: &Cancellation) -> Result<()> {
    if cancellation.is_cancelled() {
        return Err(Error::new(ErrorKind::Cancelled, "the call was dropped"));
    }
    Ok(())
}
