//! A session that this process may write.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::error::{Error, ErrorKind, Result};
use crate::session::{Damage, Record, StoredSession};

use super::fold::LogFold;
use super::line::{self, Entry};
use super::scan::scan_while;
use super::storage::Log;

/// The clock and the token counter shared by all sessions of a store.
#[derive(Debug, Default)]
pub(super) struct Clock {
    /// The newest time that was given out, in milliseconds since the Unix epoch.
    at: AtomicU64,
    /// The newest fencing token.
    token: AtomicU64,
}

impl Clock {
    /// A time that nothing in this store was written at, so that lists have an order.
    fn now(&self, after: u64) -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX));
        let next = |last: u64| now.max(last.saturating_add(1));
        let last = self
            .at
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |last| Some(next(last)));
        // One session from the future must not take the others there.
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
pub(super) fn time(at: u64) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_millis(at))
}

/// A leased session: the right to write its log, and what is in it.
pub(super) struct Open<L: Log> {
    writer: L::Writer,
    pub(super) fold: LogFold,
    pub(super) token: u64,
    damage: Vec<Damage>,
}

impl<L: Log> Open<L> {
    /// Takes the right to write the session. Damage is put aside and noted, so that it is
    /// reported under this lease and not again.
    ///
    /// Reading takes a while, during which the session is locked: it ends, and nothing is written, as
    /// soon as `is_wanted` returns `false`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::SessionBusy`] then, and while another writer has the session.
    pub(super) fn new(
        log: &L,
        clock: &Clock,
        id: &str,
        is_wanted: &dyn Fn() -> bool,
    ) -> Result<Self> {
        let (mut writer, bytes) = log.open(id)?;
        let mut scan = scan_while(is_wanted, LogFold::new(id), id, &bytes)?;
        if !scan.damage.is_empty() || scan.tail.is_some() {
            log.heal(&mut writer, &bytes, &mut scan)?;
        }
        let is_damaged = !scan.damage.is_empty();
        let mut damage = scan.damage;
        damage.extend(scan.tail);
        let mut open = Self {
            writer,
            token: clock.token(scan.fold.token),
            fold: scan.fold,
            damage,
        };
        if is_damaged {
            open.write(log, clock, vec![Entry::Checked])?;
        }
        Ok(open)
    }

    /// The stored session; `None` when there is none and nothing was lost.
    pub(super) fn session(&self) -> Option<StoredSession> {
        session(&self.fold, self.damage.clone())
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

    /// Adds to the log, then to what is known of it.
    fn write(&mut self, log: &L, clock: &Clock, entries: Vec<Entry>) -> Result<()> {
        if entries.is_empty() {
            return Ok(());
        }
        let at = clock.now(self.fold.at);
        let info = self.fold.info_after(&entries, at);
        let seq = self.fold.seq;
        let last = seq.checked_add(entries.len() as u64).ok_or_else(|| {
            let text = format!(
                "the log cannot be written on: its last record has the number {seq}; export the \
                 session and import it under a new id"
            );
            Error::new(ErrorKind::Corrupt, text)
        })?;
        let seq = seq.saturating_add(1);
        let bytes = line::write(&entries, seq, self.token, at, &info)?;
        log.append(&mut self.writer, &bytes)?;
        let fold = &mut self.fold;
        fold.seq = last;
        (fold.created, fold.at, fold.token) = (info.created, at, self.token);
        for entry in entries {
            fold.apply(entry);
        }
        Ok(())
    }
}

pub(super) fn session(fold: &LogFold, damage: Vec<Damage>) -> Option<StoredSession> {
    if !fold.exists() && damage.is_empty() {
        return None;
    }
    let mut session = fold.session().clone();
    session.damage = damage;
    Some(session)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::atomic::AtomicBool;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::sync::{Arc, Mutex};

    use super::super::log_store::LogStore;
    use super::super::scan::Scan;
    use super::super::storage::Tail;
    use super::*;
    use crate::util::sync::lock;

    const LINES: usize = 1_000;

    /// A damaged log whose opening waits for the test.
    struct Damaged {
        opens: Sender<()>,
        gate: Mutex<Receiver<()>>,
        closed: Sender<()>,
        is_healed: Arc<AtomicBool>,
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

        fn open(&self, _: &str) -> Result<(Writer, Vec<u8>)> {
            let _ = self.opens.send(());
            let _ = lock(&self.gate).recv();
            Ok((Writer(self.closed.clone()), b"junk\n".repeat(LINES)))
        }

        fn heal(&self, _: &mut Writer, _: &[u8], _: &mut Scan) -> Result<()> {
            self.is_healed.store(true, Ordering::Release);
            Ok(())
        }

        fn append(&self, _: &mut Writer, _: &[u8]) -> Result<()> {
            Ok(())
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
    async fn lease_that_is_dropped_while_it_opens_gives_the_session_back_unread() {
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
    fn reading_ends_at_the_line_at_which_nobody_wants_it_any_more() {
        let test = damaged();
        test.open.send(()).unwrap();
        let asked = Cell::new(0);
        let is_wanted = || {
            asked.set(asked.get() + 1);
            asked.get() < LINES / 2
        };
        let error = Open::new(&test.log, &Clock::default(), "s", &is_wanted).err();
        assert_eq!(error.unwrap().kind(), ErrorKind::SessionBusy);
        assert_eq!(asked.get(), LINES / 2);
        test.closed.recv().unwrap();
        assert!(!test.is_healed.load(Ordering::Acquire));
    }
}
