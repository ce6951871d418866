//! An opened log: the right to write a session, and its state.

use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::error::{Error, ErrorKind, Result};
use crate::session::{Damage, Record, StoredSession};
use crate::util::Cancellation;

use super::fold::LogFold;
use super::line::{self, Entry, SnapshotPosition};
use super::log::{Log, check_size};
use super::scan::{scan, scan_stored, scan_until};
use super::snapshot::{self, Sizes};

/// The clock and the token counter shared by all sessions of a store.
#[derive(Debug, Default)]
pub(super) struct Clock {
    /// The newest time that was given out, in milliseconds since the Unix epoch.
    at: AtomicU64,
    /// The newest fencing token.
    token: AtomicU64,
}

impl Clock {
    /// Returns a time that no other write of this store has, so that lists have an order.
    fn now(&self, after: u64) -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX));
        let next = |last: u64| now.max(last.saturating_add(1));
        let last = self
            .at
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |last| Some(next(last)));
        // A session with a time in the future must not move the times of the others.
        last.map_or(now, next).max(after)
    }

    fn token(&self, after: u64) -> u64 {
        let next = |last: u64| last.max(after).saturating_add(1);
        let last = self
            .token
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |last| Some(next(last)));
        last.map_or(after, next)
    }
}

/// The time of a record; `None` when this system's clock cannot represent it.
pub(super) fn system_time(at: u64) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_millis(at))
}

/// A leased session: the right to write its log, and what is in it.
pub(super) struct OpenLog<L: Log> {
    writer: L::Writer,
    pub(super) fold: LogFold,
    pub(super) token: u64,
    damage: Vec<Damage>,
    sizes: Sizes,
    /// The size of the log.
    size: u64,
    /// The size of the log when a snapshot of it failed last.
    failed_at: u64,
}

impl<L: Log> OpenLog<L> {
    /// Takes the right to write the session. Damage is put aside and noted, so that it is
    /// reported under this lease and not again.
    ///
    /// Reading takes a while, during which the session is locked: it ends, and nothing is written,
    /// soon after it is cancelled.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::SessionBusy`] then, and while another writer has the session.
    pub(super) fn new(
        log: &L,
        clock: &Clock,
        sizes: Sizes,
        id: &str,
        cancellation: &Cancellation,
    ) -> Result<Self> {
        let (mut writer, end) = log.open(id, sizes.end)?;
        let size = end.1;
        check_size(log, id, size)?;
        let at_snapshot = if snapshot::is_whole(&end) {
            None
        } else {
            snapshot::at_snapshot(log, id, &end, 0)?
        };

        // Removing an incomplete write requires the whole log.
        let mut scan = match at_snapshot.filter(|scan| scan.tail.is_none()) {
            Some(scan) => scan,
            None => {
                let bytes = Some(&end).filter(|end| snapshot::is_whole(end));
                let bytes = bytes.map(|(bytes, _)| &bytes[..]);
                let fold = LogFold::new(id);
                let mut scan = match bytes {
                    Some(bytes) => scan_until(cancellation, fold, id, bytes)?,
                    None => match scan_stored(log, cancellation, fold, id)? {
                        Some(scan) => scan,
                        None => scan(id, &[])?,
                    },
                };

                if !scan.damage.is_empty() || scan.tail.is_some() {
                    log.heal(&mut writer, bytes, &mut scan)?;
                }

                scan
            }
        };

        let is_damaged = !scan.damage.is_empty();
        if is_damaged {
            // The snapshot may be damaged, or have another position after the repair.
            scan.fold.snapshot = None;
        }

        let damage = scan.kept().cloned().collect();
        scan.damage.clear();
        let mut open_log = Self {
            writer,
            token: clock.token(scan.fold.token),
            fold: scan.fold,
            damage,
            sizes,
            size,
            failed_at: 0,
        };

        if is_damaged {
            open_log.write(log, clock, vec![Entry::Checked])?;
        }

        Ok(open_log)
    }

    /// The stored session; `None` when there is none and nothing was lost.
    pub(super) fn session(&self) -> Option<StoredSession> {
        stored_session(&self.fold, self.damage.clone())
    }

    /// As [`write`](Self::write), records of the session.
    pub(super) fn write_records(
        &mut self,
        log: &L,
        clock: &Clock,
        records: Vec<Record>,
    ) -> Result<()> {
        let entries = records.into_iter().map(Entry::Record);
        self.write(log, clock, entries.collect())
    }

    /// Appends entries to the log, then applies them to the fold.
    fn write(&mut self, log: &L, clock: &Clock, entries: Vec<Entry>) -> Result<()> {
        if entries.is_empty() {
            return Ok(());
        }
        let at = clock.now(self.fold.at);
        let size = self.append(log, at, entries, None)?;
        if log.has_snapshots() {
            self.write_snapshot(log, size);
        }
        Ok(())
    }

    /// Writes a snapshot where the log has doubled. All records are durable already: a failure
    /// only makes it longer to open.
    fn write_snapshot(&mut self, log: &L, size: u64) {
        let SnapshotPosition { offset, len } = self.fold.snapshot.unwrap_or_default();
        let base = offset.saturating_add(len).max(self.failed_at);
        if self.fold.has_loss() || !self.sizes.is_due(size, base, len) {
            return;
        }

        let session = Box::new(self.fold.session().clone());
        let entries = vec![Entry::Snapshot(session), Entry::SnapshotEnd];

        // With the time of the last record, because a snapshot does not count as a use of the
        // session.
        if let Err(error) = self.append(log, self.fold.at, entries, Some(size)) {
            self.failed_at = size;
            tracing::warn!(
                session = &*self.fold.session().state.thread_id,
                "no snapshot of the session was written, so opening it takes longer: {error}"
            );
        }
    }

    /// Adds to the log, then to what is known of it, and returns the log's size. The first entry is
    /// a snapshot that goes to the offset `snapshot_at`, if that is given.
    fn append(
        &mut self,
        log: &L,
        at: u64,
        entries: Vec<Entry>,
        snapshot_at: Option<u64>,
    ) -> Result<u64> {
        let mut info = self.fold.info_after(&entries, at);
        let seq = self.fold.seq;
        let last = seq.checked_add(entries.len() as u64).ok_or_else(|| {
            let text = format!(
                "the log cannot be written on: its last record has the number {seq}; export the \
                 session and import it under a new id"
            );
            Error::new(ErrorKind::Corrupt, text)
        })?;

        let seq = seq.saturating_add(1);
        let bytes = match (snapshot_at, entries.split_first()) {
            (Some(offset), Some((snapshot, marks))) => {
                let snapshot = slice::from_ref(snapshot);
                let mut bytes = line::write(snapshot, seq, self.token, at, None)?;
                info.snapshot = Some(SnapshotPosition {
                    offset,
                    len: bytes.len() as u64,
                });

                let seq = seq.saturating_add(1);
                bytes.extend(line::write(marks, seq, self.token, at, Some(&info))?);
                bytes
            }
            _ => line::write(&entries, seq, self.token, at, Some(&info))?,
        };

        let new_size = self.size.saturating_add(bytes.len() as u64);
        let id = &self.fold.session().state.thread_id;
        check_size(log, id, new_size).map_err(|error| {
            error.context("the write was refused, for the log would be too large")
        })?;

        let size = log.append(&mut self.writer, &bytes)?;
        self.size = size;
        let fold = &mut self.fold;
        fold.seq = last;
        fold.created = info.created;
        fold.at = at;
        fold.token = self.token;
        fold.snapshot = info.snapshot;
        for entry in entries {
            fold.apply(entry);
        }

        Ok(size)
    }
}

/// The session of a fold; `None` when there is none and nothing was lost.
pub(super) fn stored_session(fold: &LogFold, damage: Vec<Damage>) -> Option<StoredSession> {
    if !fold.exists() && damage.is_empty() {
        return None;
    }
    let mut session = fold.session().clone();
    session.damage = damage;
    Some(session)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize};
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::sync::{Arc, Mutex};

    use super::super::log::{Each, Tail};
    use super::super::log_store::LogStore;
    use super::super::scan::Scan;
    use super::*;
    use crate::util::sync::lock;

    const LINE: &[u8] = b"junk\n";
    const LINES: usize = 1_000;

    /// A damaged log whose opening waits for the test.
    struct Damaged {
        opens: Sender<()>,
        gate: Mutex<Receiver<()>>,
        closed: Sender<()>,
        is_healed: Arc<AtomicBool>,
        /// True if the log is not read at once.
        is_long: bool,
        /// Cancelled when half of a long log has been read.
        cancellation: Cancellation,
        lines_read: AtomicUsize,
    }

    struct Writer(Sender<()>);

    impl Drop for Writer {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }

    impl Log for Damaged {
        type Writer = Writer;

        fn ids(&self) -> Result<Vec<Arc<str>>> {
            Ok(Vec::new())
        }

        fn read(&self, _: &str) -> Result<Option<Vec<u8>>> {
            Ok(None)
        }

        fn tail(&self, _: &str, _: u64) -> Result<Option<Tail>> {
            Ok(None)
        }

        fn stream(&self, _: &str, each: Each<'_>) -> Result<bool> {
            for number in 0..LINES {
                if number == LINES / 2 {
                    self.cancellation.cancel();
                }
                each(LINE)?;
                self.lines_read.fetch_add(1, Ordering::Relaxed);
            }
            Ok(true)
        }

        fn open(&self, _: &str, _: u64) -> Result<(Writer, Tail)> {
            let _ = self.opens.send(());
            let _ = lock(&self.gate).recv();
            let bytes = LINE.repeat(if self.is_long { 1 } else { LINES });
            let size = (LINE.len() * LINES) as u64;
            Ok((Writer(self.closed.clone()), (bytes, size)))
        }

        fn heal(&self, _: &mut Writer, _: Option<&[u8]>, _: &mut Scan) -> Result<()> {
            self.is_healed.store(true, Ordering::Release);
            Ok(())
        }

        fn append(&self, _: &mut Writer, _: &[u8]) -> Result<u64> {
            Ok(0)
        }

        fn remove(&self, _: &str, _: Option<u64>) -> Result<bool> {
            Ok(false)
        }
    }

    struct Test {
        log: Damaged,
        opening: Receiver<()>,
        open: Sender<()>,
        closed: Receiver<()>,
        is_healed: Arc<AtomicBool>,
    }

    fn damaged() -> Test {
        let (opens, opening) = channel();
        let (open, gate) = channel();
        let (closes, closed) = channel();
        let is_healed = Arc::<AtomicBool>::default();
        let log = Damaged {
            opens,
            gate: Mutex::new(gate),
            closed: closes,
            is_healed: is_healed.clone(),
            is_long: false,
            cancellation: Cancellation::default(),
            lines_read: AtomicUsize::new(0),
        };

        Test {
            log,
            opening,
            open,
            closed,
            is_healed,
        }
    }

    #[tokio::test]
    async fn lease_dropped_while_opening_releases_the_session_unread() {
        let test = damaged();
        let store = LogStore::new(test.log);
        let mut leasing = Box::pin(store.lease("s"));
        assert!(futures::poll!(&mut leasing).is_pending());
        test.opening.recv().unwrap();
        drop(leasing);
        test.open.send(()).unwrap();
        test.closed.recv().unwrap();
        assert!(!test.is_healed.load(Ordering::Acquire));
    }

    #[test]
    fn reading_ends_at_the_line_at_which_it_is_cancelled() {
        let mut test = damaged();
        test.open.send(()).unwrap();
        test.log.is_long = true;
        let log = &test.log;
        let (clock, sizes) = (Clock::default(), Sizes::default());
        let error = OpenLog::new(log, &clock, sizes, "s", &log.cancellation).err();
        assert_eq!(error.unwrap().kind(), ErrorKind::SessionBusy);
        assert_eq!(log.lines_read.load(Ordering::Relaxed), LINES / 2);
        test.closed.recv().unwrap();
        assert!(!test.is_healed.load(Ordering::Acquire));
    }
}
