//! An opened log: the right to write a session, and its state.

use std::slice;

use crate::error::{Error, ErrorKind, Result};
use crate::session::size::added_size;
use crate::session::text_cost::{RECORD, memory_exceeds};
use crate::session::{Damage, Record, StoredSession};
use crate::util::Cancellation;
use crate::util::new_thread::on_new_thread;

use super::fold::LogFold;
use super::line::{LogEntry, MAX_LINE};
use super::line_writer::{self, RecordStamp};
use super::log::{Each, Log, LogTail, Snapshots};
use super::memory_limit::{max_snapshot, max_written};
use super::repair::Content;
use super::scan::{Scan, scan, scan_stored, scan_until};
use super::shared::{LogShared, place_phrase};
use super::snapshot::SnapshotReader;
use super::summary::{LogSummary, SnapshotPosition};

/// The maximum number of times that an opening reads a log that looks damaged.
const MAX_READINGS: usize = 4;

/// A leased session: the right to write its log, and what is in it.
pub(super) struct OpenLog<L: Log> {
    writer: L::Writer,
    pub(super) fold: LogFold,
    pub(super) token: u64,
    damage: Vec<Damage>,
    /// False while the log has damage that no run has reported yet.
    is_reported: bool,
    /// The size of the log.
    size: u64,
    /// True if the last line has no end.
    needs_newline: bool,
    /// The size of the log when a snapshot last failed; 0 if none has.
    failed_snapshot_size: u64,
    last_append: AppendState,
}

/// The state of the newest append to a log.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AppendState {
    /// Its entries were applied to the fold; or nothing was appended yet.
    Settled,
    /// Its outcome was not applied to the fold yet, or never, because of a panic.
    InProgress,
    /// It failed in the log. Its entries may have been stored nevertheless; the writer then refuses
    /// every further append, as [`Log::append`] demands.
    Failed,
}

/// Entries as the bytes that are appended to a log.
pub(super) struct EncodedAppend {
    pub(super) bytes: Vec<u8>,
    entries: Vec<LogEntry>,
    info: LogSummary,
    /// The number of the last record.
    last_seq: u64,
    /// The time of the records.
    at: u64,
}

impl<L: Log> OpenLog<L> {
    /// Opens the log of a session for writing. Damaged parts that two readings have found are set
    /// aside, and that is recorded in the log. They are reported under each lease until a run has
    /// continued the session.
    ///
    /// The session is locked while its log is read. After `cancellation`, reading ends soon and
    /// nothing is written.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::SessionBusy`] if `cancellation` is cancelled, or while another writer
    /// has the session, and the errors of the log, among them that of a log that is too large.
    pub(super) fn new(
        shared: &LogShared<L>,
        id: &str,
        cancellation: &Cancellation,
    ) -> Result<Self> {
        let mut open_log = Self::open(shared, id, cancellation)?;
        let after = match shared.log.snapshots() {
            Snapshots::OnOpen { after } if !cancellation.is_cancelled() => after,
            _ => return Ok(open_log),
        };

        if open_log.write_snapshot(shared, after) || open_log.last_append != AppendState::Failed {
            return Ok(open_log);
        }

        // The snapshot may be in the log nevertheless, so the log is read again. The first opening
        // has removed an incomplete write, so the second one does not find that damage any more.
        let damage = std::mem::take(&mut open_log.damage);
        drop(open_log);
        let mut open_log = Self::open(shared, id, cancellation)?;
        open_log.damage = damage;
        Ok(open_log)
    }

    fn open(shared: &LogShared<L>, id: &str, cancellation: &Cancellation) -> Result<Self> {
        let (mut writer, end) = shared.log.open(id, shared.end_len)?;
        shared.check_size(id, end.size)?;
        let (end, mut scan) = read_confirmed(shared, id, end, cancellation)?;
        let mut needs_newline = end.bytes.last().is_some_and(|last| *last != b'\n');
        let mut place = None;
        if scan.needs_repair() {
            let read_again = |each: Each<'_>| shared.log.read(id, each);
            let content = if end.is_whole() {
                Content::Whole(&end.bytes)
            } else {
                Content::Stored(&read_again)
            };

            place = shared.log.repair(&mut writer, &scan.repair(content))?;
            if scan.tail.is_some() {
                needs_newline = scan.has_open_line;
            }
        }

        let damage = scan.repaired(place.as_deref());
        let is_damaged = !scan.damage.is_empty();
        if is_damaged {
            // The snapshot may be damaged, or have another position after the repair.
            scan.fold.snapshot = None;
        }

        let size = scan.tail.as_ref().map_or(end.size, |_| scan.end);
        let mut open_log = Self {
            writer,
            token: shared.clock.next_token(scan.fold.token),
            fold: scan.fold,
            damage,
            is_reported: !is_damaged,
            size,
            needs_newline,
            failed_snapshot_size: 0,
            last_append: AppendState::Settled,
        };

        if is_damaged {
            let is_reported = false;
            open_log.write(shared, vec![LogEntry::Checked { is_reported }])?;
        }

        Ok(open_log)
    }

    /// Returns the stored session; `None` if there is none and nothing was lost.
    pub(super) fn session(&self) -> Option<StoredSession> {
        stored_session(&self.fold, self.damage.clone())
    }

    /// Appends records to the log, then applies them to the fold.
    pub(super) fn write_records(
        &mut self,
        shared: &LogShared<L>,
        records: Vec<Record>,
    ) -> Result<()> {
        self.write(shared, self.entries_of(records))
    }

    /// Returns the entries of a write of records. The first one that a run makes also records that
    /// the damage was reported.
    fn entries_of(&self, records: Vec<Record>) -> Vec<LogEntry> {
        let is_report = !self.is_reported && records.iter().any(is_of_run);
        let check = is_report.then_some(LogEntry::Checked { is_reported: true });
        let entries = records.into_iter().map(LogEntry::Record);
        check.into_iter().chain(entries).collect()
    }

    fn write(&mut self, shared: &LogShared<L>, entries: Vec<LogEntry>) -> Result<()> {
        if entries.is_empty() {
            return Ok(());
        }
        let timestamp = shared.clock.next_time(self.fold.updated);
        self.append(shared, timestamp, entries)?;
        self.write_due_snapshot(shared);
        Ok(())
    }

    /// Encodes the append of records. Returns `None` if there are none.
    pub(super) fn encode_records(
        &self,
        shared: &LogShared<L>,
        records: Vec<Record>,
    ) -> Result<Option<EncodedAppend>> {
        if records.is_empty() {
            return Ok(None);
        }
        let timestamp = shared.clock.next_time(self.fold.updated);
        self.encode(shared, timestamp, self.entries_of(records))
            .map(Some)
    }

    /// Writes an append that was encoded.
    pub(super) fn write_encoded(
        &mut self,
        shared: &LogShared<L>,
        append: EncodedAppend,
    ) -> Result<()> {
        let outcome = shared.log.append(self.begin(), &append.bytes);
        self.finish(append, outcome)
    }

    /// Writes a snapshot if one is due in a log that gets them with appends. Returns `true` if one
    /// was due.
    pub(super) fn write_due_snapshot(&mut self, shared: &LogShared<L>) -> bool {
        let Snapshots::OnAppend { after } = shared.log.snapshots() else {
            return false;
        };
        let is_due = self.is_snapshot_due(after);
        if is_due {
            self.write_snapshot(shared, after);
        }
        is_due
    }

    /// Writes a snapshot if one is due. Returns `false` if that failed. All records are durable
    /// already: after a failure, only the next opening takes longer.
    fn write_snapshot(&mut self, shared: &LogShared<L>, after: u64) -> bool {
        if !self.is_snapshot_due(after) {
            return true;
        }

        let session = Box::new(self.fold.session().clone());
        let entries = vec![LogEntry::Snapshot(session), LogEntry::Mark];
        let size = self.size;

        // With the time of the last record, because a snapshot does not count as a use of the
        // session.
        let Err(error) = self.append(shared, self.fold.updated, entries) else {
            return true;
        };

        self.failed_snapshot_size = size;
        tracing::warn!(
            session = &*self.fold.session().state.thread_id,
            "no snapshot of the session was written, so opening it takes longer: {error}"
        );
        false
    }

    /// Returns `true` if the log has grown since its newest snapshot by `after` bytes, and by at
    /// least the size of that snapshot, and has doubled since a snapshot failed. No snapshot is due
    /// before the damage is reported, or while later records may count lost messages: both can be
    /// found only in the lines before a snapshot.
    fn is_snapshot_due(&self, after: u64) -> bool {
        let SnapshotPosition { offset, len } = self.fold.snapshot.unwrap_or_default();
        let base = offset.saturating_add(len).max(self.failed_snapshot_size);
        let growth = len.max(after).max(self.failed_snapshot_size);
        self.is_reported && !self.fold.has_loss() && self.size.saturating_sub(base) >= growth
    }

    /// Checks that the session can be read again once these entries are in its log, as these lines.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Io`] if the session would take more memory than the store allows.
    /// Records that add nothing are allowed until reading them would take more.
    fn check_memory(
        &self,
        shared: &LogShared<L>,
        entries: &[LogEntry],
        lines: &[u8],
    ) -> Result<()> {
        let max_bytes = max_written(shared.max_memory());
        let mut used = self.fold.memory();
        let lines = lines.split(|byte| *byte == b'\n');
        for (entry, line) in entries.iter().zip(lines.filter(|line| !line.is_empty())) {
            let room = max_bytes.saturating_sub(used);
            let is_too_large = match entry {
                LogEntry::Record(record) => {
                    added_size(record) > 0 && memory_exceeds(line, RECORD, room)
                }
                // The session is in memory already, and a snapshot that cannot be read is replaced
                // by the records before it.
                LogEntry::Checked { .. } | LogEntry::Snapshot(_) | LogEntry::Mark => false,
            };

            used = used.saturating_add(entry.memory());
            if is_too_large || used > shared.max_memory() {
                let id = &self.fold.session().state.thread_id;
                let error = shared.memory_limit(id).for_writes().error();
                return Err(
                    error.context("the write was refused, for the session would be too large")
                );
            }
        }

        Ok(())
    }

    /// Appends entries to the log, then applies them to the fold.
    fn append(&mut self, shared: &LogShared<L>, at: u64, entries: Vec<LogEntry>) -> Result<()> {
        let encoded = self.encode(shared, at, entries)?;
        self.write_encoded(shared, encoded)
    }

    /// Encodes the append of entries. If the first entry is a snapshot, its position is recorded.
    ///
    /// # Errors
    ///
    /// Returns an error if the log would be too large or take too much memory with these entries,
    /// or if an append before them has no outcome: the numbers of its records may be in the log
    /// already.
    fn encode(
        &self,
        shared: &LogShared<L>,
        at: u64,
        mut entries: Vec<LogEntry>,
    ) -> Result<EncodedAppend> {
        self.check_settled()?;
        let mut info = self.fold.summary_after(&entries, at);
        let seq = self.fold.seq;
        let mut stamp = RecordStamp {
            seq: seq.saturating_add(1),
            token: self.token,
            at,
        };
        let mut bytes = Vec::new();
        if self.needs_newline {
            bytes.push(b'\n');
        }

        let mut remaining = &entries[..];
        if let Some((snapshot @ LogEntry::Snapshot(_), marks)) = remaining.split_first() {
            let start = bytes.len();
            let snapshot = slice::from_ref(snapshot);
            let max_len = max_snapshot(shared.max_memory());
            line_writer::write(&mut bytes, snapshot, stamp, None, max_len)?;
            info.snapshot = Some(SnapshotPosition {
                offset: self.size.saturating_add(start as u64),
                len: (bytes.len() - start) as u64,
            });

            stamp.seq = stamp.seq.saturating_add(1);
            remaining = marks;
        }

        let has_mark = line_writer::write(&mut bytes, remaining, stamp, Some(&info), MAX_LINE)?;
        if has_mark {
            entries.push(LogEntry::Mark);
        }

        let last_seq = seq.checked_add(entries.len() as u64).ok_or_else(|| {
            let text = format!(
                "the log cannot be written on: its last record has the number {seq}; export the \
                 session and import it under a new id"
            );
            Error::new(ErrorKind::Corrupt, text)
        })?;
        let new_size = self.size.saturating_add(bytes.len() as u64);
        let id = &self.fold.session().state.thread_id;
        shared.check_new_size(id, new_size)?;
        self.check_memory(shared, &entries, &bytes)?;
        Ok(EncodedAppend {
            entries,
            bytes,
            info,
            last_seq,
            at,
        })
    }

    /// Refuses a write after a write whose outcome was not applied.
    fn check_settled(&self) -> Result<()> {
        if self.last_append != AppendState::InProgress {
            return Ok(());
        }
        let id = &self.fold.session().state.thread_id;
        let text = format!(
            "session {id:?} was not written: the outcome of an earlier write is not known; run \
             the session again, which reads it again"
        );
        Err(Error::new(ErrorKind::Io, text))
    }

    /// Begins an append with this writer, which [`finish`](Self::finish) settles.
    pub(super) fn begin(&mut self) -> &mut L::Writer {
        self.last_append = AppendState::InProgress;
        &mut self.writer
    }

    /// Applies the entries of an append to the fold, if they were stored. `outcome` is the log's
    /// result.
    pub(super) fn finish(&mut self, append: EncodedAppend, outcome: Result<u64>) -> Result<()> {
        self.size = match outcome {
            Ok(size) => size,
            Err(error) => {
                self.last_append = AppendState::Failed;
                return Err(error);
            }
        };

        self.needs_newline = false;
        let fold = &mut self.fold;
        fold.seq = append.last_seq;
        fold.created = append.info.created;
        fold.updated = append.at;
        fold.token = self.token;
        fold.snapshot = append.info.snapshot;
        for entry in append.entries {
            if let LogEntry::Checked { is_reported } = entry {
                self.is_reported = is_reported;
            }
            fold.apply(entry);
        }

        self.last_append = AppendState::Settled;
        Ok(())
    }
}

/// Reads a log that was opened and ends with `end`. A log that looks damaged is read until two
/// readings in a row find the same damage: after a fault on the way from the storage, a repair
/// would set sound records aside. Returns the end and the scan of the last reading.
///
/// # Errors
///
/// Returns [`ErrorKind::Io`] if the readings differ, [`ErrorKind::Conflict`] if the log was changed
/// meanwhile, and the errors of the log.
fn read_confirmed<L: Log>(
    shared: &LogShared<L>,
    id: &str,
    mut end: LogTail,
    cancellation: &Cancellation,
) -> Result<(LogTail, Scan)> {
    let size = end.size;
    let mut former_damage = None;
    for _ in 0..MAX_READINGS {
        // The writer, too, has the size of the first reading.
        if end.size != size {
            break;
        }

        let scan = read_opened(shared, id, &end, cancellation)?;
        let damage = scan.needs_repair().then(|| scan.damage_hash());
        if damage.is_none() || damage == former_damage {
            return Ok((end, scan));
        }

        // The session of this reading would take as much memory as that of the next one.
        drop(scan);
        former_damage = damage;
        end = shared.log.tail(id, shared.end_len)?.unwrap_or_default();
    }

    let place = place_phrase(shared.log.place(id).as_deref());
    let text = format!(
        "session {id:?}{place} was read differently each time, so it was left untouched: another \
         program changes it, or its storage or the connection to it is faulty; run it again"
    );
    let kind = if end.size == size {
        ErrorKind::Io
    } else {
        ErrorKind::Conflict
    };
    Err(Error::new(kind, text))
}

/// Reads a log that was opened and ends with `end`: at its newest snapshot if it is sound there,
/// else from its beginning.
fn read_opened<L: Log>(
    shared: &LogShared<L>,
    id: &str,
    end: &LogTail,
    cancellation: &Cancellation,
) -> Result<Scan> {
    let limit = shared.memory_limit(id);
    let fold = LogFold::new(id).limited(limit.clone());
    if end.is_whole() {
        return scan_until(cancellation, fold, id, &end.bytes);
    }

    on_new_thread(|| {
        let reader = SnapshotReader {
            id,
            limit: &limit,
            cancellation,
        };
        let at_snapshot = reader.read(&shared.log, end, 0)?;
        // A repair, such as the removal of an incomplete write, requires the whole log.
        if let Some(scan) = at_snapshot.filter(|scan| !scan.needs_repair()) {
            return Ok(scan);
        }

        match scan_stored(&shared.log, cancellation, fold, id)? {
            Some(scan) => Ok(scan),
            None => scan(id, &[]),
        }
    })
}

/// Returns `true` for a record by which a run continues the session, after it has reported the
/// damage. Titles, summaries and ids of inputs are also stored outside of runs.
fn is_of_run(record: &Record) -> bool {
    let is_of_others = matches!(
        record,
        Record::About { .. } | Record::Compaction { .. } | Record::Input { .. }
    );
    !is_of_others
}

/// Returns the session of a fold; `None` if there is none and nothing was lost.
pub(super) fn stored_session(fold: &LogFold, damage: Vec<Damage>) -> Option<StoredSession> {
    if !fold.exists() && damage.is_empty() {
        return None;
    }
    let mut session = fold.session().clone();
    session.damage = damage;
    Some(session)
}
