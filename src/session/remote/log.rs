//! The log of each session, on a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use uuid::Uuid;

use crate::error::{Error, ErrorKind, Result};
use crate::session::log::{
    Each, EachPage, Log, LogStore, LogTail, Queues, Repair, Snapshots, changed_meanwhile,
    collect_ids, too_large,
};

use super::joined_log::JoinedLog;
use super::lease_keeper::{HeldLease, LeaseKeeper};
use super::options::ServerOptions;
use super::pool::Pool;
use super::server::{
    DamagedPiece, IdPage, LeaseKey, PIECE, Removal, Server, ServerPiece, ServerRepair, ServerTail,
};

/// The time to wait for a lease, because a lease that was dropped elsewhere is released a moment
/// later.
const RELEASE_WAIT: Duration = Duration::from_millis(200);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The minimum number of waits, also if the thread is held up for longer than [`RELEASE_WAIT`].
const MIN_POLLS: u32 = 5;

/// The maximum number of pages of a list, each of up to 1,000 ids and possibly empty. A list whose
/// entries were removed has a few thousand.
const MAX_PAGES: usize = 100_000;

/// The bytes that a damaged part takes in addition to its own: its description and its statement.
const PART_OVERHEAD: usize = 256;

/// The name of the option that limits the size of a log.
const SIZE_OPTION: &str = "ServerOptions::max_session_bytes";

/// Logs on a server.
pub(in crate::session) struct RemoteLog<S: Server> {
    // Dropped first: its drop waits until the leases are released.
    keeper: LeaseKeeper<S>,
    pool: Arc<Pool<S>>,
    owner: Arc<str>,
    /// The number of leases so far.
    count: AtomicU64,
}

/// The right to write a log.
pub(in crate::session) struct Writer<S: Server> {
    lease: HeldLease<S>,
    /// The end of the log.
    end: u64,
    /// True if the outcome of a write is unknown.
    is_outcome_unknown: bool,
}

impl<S: Server> RemoteLog<S> {
    /// Creates the store of the sessions on a server.
    pub(in crate::session) fn store(server: S, options: ServerOptions) -> LogStore<Self> {
        let max_session_bytes = options.max_session_bytes;
        let log = Self::new(server, options);
        let store = LogStore::named(log, SIZE_OPTION, Queues::default());
        store.set_max_session_bytes(max_session_bytes);
        store
    }

    fn new(server: S, options: ServerOptions) -> Self {
        let pool = Arc::new(Pool::new(server, options));
        Self {
            keeper: LeaseKeeper::new(pool.clone()),
            pool,
            owner: Uuid::new_v4().simple().to_string().into(),
            count: AtomicU64::new(0),
        }
    }

    pub(in crate::session) fn server(&self) -> &S {
        self.pool.server()
    }

    pub(in crate::session) fn options(&self) -> &ServerOptions {
        self.pool.options()
    }

    /// Creates the key of a new lease, which no earlier lease has.
    fn new_lease(&self, id: &str) -> LeaseKey {
        LeaseKey {
            id: id.into(),
            owner: self.owner.clone(),
            number: self.count.fetch_add(1, Ordering::Relaxed) + 1,
        }
    }

    /// Passes a log from the offset `from` on to `each`, piece by piece. Returns its end; `None` if
    /// there is no log.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Io`] if the log ends after `max`, [`ErrorKind::Conflict`] if another
    /// run removed or shortened it meanwhile, and the errors of `each`.
    fn pieces(&self, id: &str, from: u64, max: u64, each: Each<'_>) -> Result<Option<u64>> {
        let mut joined_log = JoinedLog::new(Some(from));
        let mut offset = from;
        let mut last_end = 0;
        loop {
            let piece = self
                .pool
                .run(|server, connection| server.read(connection, id, offset, PIECE))?;
            let ServerPiece { parts, end } = match piece {
                None if offset == from => return Ok(None),
                // Another run has repaired or removed it.
                Some(piece) if piece.end >= last_end => piece,
                _ => return Err(changed_meanwhile(id)),
            };
            if end > max {
                let place = Some(self.server().name());
                return Err(too_large(id, place, end, max, SIZE_OPTION));
            }

            let next_offset = offset.saturating_add(PIECE);
            let requested = offset..next_offset.min(end);
            for (offset, part) in &parts {
                joined_log.add(*offset, part, &requested);
            }
            last_end = end;
            offset = next_offset;
            if offset >= end {
                joined_log.end(end);
            }

            let bytes = joined_log.take();
            if !bytes.is_empty() {
                each(&bytes)?;
            }
            if offset >= end {
                return Ok(Some(end));
            }
        }
    }

    /// Reads the last `len` bytes of a log piece by piece. Returns `None` if there is no log.
    fn long_tail(&self, id: &str, len: u64) -> Result<Option<LogTail>> {
        let Some(ServerTail { end, .. }) = self.server_tail(id, 1)? else {
            return Ok(None);
        };
        let start = end.saturating_sub(len);
        // It may have grown since.
        let max = end.saturating_add(len);
        let mut bytes = Vec::new();
        let end = self.pieces(id, start, max, &mut |piece| {
            bytes.extend_from_slice(piece);
            Ok(())
        })?;
        Ok(end.map(|end| {
            // Missing parts are not waited for.
            let size = if start == 0 { bytes.len() as u64 } else { end };
            LogTail::new(bytes, size)
        }))
    }

    fn server_tail(&self, id: &str, len: u64) -> Result<Option<ServerTail>> {
        self.server().check_id(id)?;
        let ids = [Arc::from(id)];
        let mut tails = self
            .pool
            .run(|server, connection| server.tails(connection, &ids, len))?;
        tails.pop().unwrap_or(Ok(None))
    }

    fn claim(&self, id: &str) -> Result<HeldLease<S>> {
        self.server().check_id(id)?;
        let lease = self.new_lease(id);
        let mut wait = ReleaseWait::new(id);
        while !self
            .pool
            .run(|server, connection| server.claim(connection, &lease))?
        {
            wait.poll()?;
        }

        self.keeper.keep(lease)
    }
}

/// The wait for the release of a lease that was dropped elsewhere.
struct ReleaseWait<'a> {
    id: &'a str,
    start_time: Instant,
    polls: u32,
}

impl<'a> ReleaseWait<'a> {
    fn new(id: &'a str) -> Self {
        Self {
            id,
            start_time: Instant::now(),
            polls: 0,
        }
    }

    /// Waits before the next attempt.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::SessionBusy`] if the lease was waited for long enough.
    fn poll(&mut self) -> Result<()> {
        if self.polls >= MIN_POLLS && self.start_time.elapsed() >= RELEASE_WAIT {
            return Err(Error::session_busy(self.id));
        }
        self.polls += 1;
        sleep(POLL_INTERVAL);
        Ok(())
    }
}

/// Damaged parts that are sent to the server together.
#[derive(Default)]
struct Batch {
    parts: Vec<DamagedPiece>,
    bytes: usize,
}

impl Batch {
    fn push(&mut self, part: DamagedPiece) {
        self.bytes += part.bytes.len() + PART_OVERHEAD;
        self.parts.push(part);
    }

    fn is_full(&self) -> bool {
        self.bytes >= PIECE as usize
    }
}

/// Returns the pieces of a damaged part that begins at this offset. A part without bytes has one
/// piece.
fn pieces_of(offset: u64, part: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let len = PIECE as usize;
    let count = part.len().div_ceil(len).max(1);
    (0..count).map(move |number| {
        let start = number * len;
        let end = part.len().min(start + len);
        (offset + start as u64, &part[start..end])
    })
}

/// Passes on the pages of ids that `read` returns for their places.
fn each_page(
    name: &str,
    read: impl Fn(Option<&str>) -> Result<IdPage>,
    each: EachPage<'_>,
) -> Result<()> {
    let mut place: Option<String> = None;
    for _ in 0..MAX_PAGES {
        let IdPage { ids, next } = read(place.as_deref())?;
        each(ids)?;
        if next.is_none() {
            return Ok(());
        }
        if next == place {
            let text = format!("{name} returned the same page of sessions twice");
            return Err(Error::new(ErrorKind::Protocol, text));
        }
        place = next;
    }

    let text = format!("{name} returned {MAX_PAGES} pages of sessions, and has more");
    Err(Error::new(ErrorKind::Protocol, text))
}

impl<S: Server> Log for RemoteLog<S> {
    type Writer = Writer<S>;

    fn ids(&self) -> Result<Vec<Arc<str>>> {
        collect_ids(self)
    }

    fn for_each_page(&self, each: EachPage<'_>) -> Result<()> {
        let read = |place: Option<&str>| {
            self.pool
                .run(|server, connection| server.ids(connection, place))
        };
        each_page(self.server().name(), read, each)
    }

    fn for_each_page_with(&self, prefix: &str, each: EachPage<'_>) -> Result<()> {
        let Some(first) = self.server().place_after(prefix) else {
            return self.for_each_page(each);
        };
        let read = |place: Option<&str>| {
            let place = place.unwrap_or(&first);
            let read =
                |server: &S, connection: &mut S::Connection| server.ids(connection, Some(place));
            let IdPage { ids, next } = self.pool.run(read)?;
            let next = next.filter(|id| id.starts_with(prefix));
            Ok(IdPage { ids, next })
        };
        each_page(self.server().name(), read, each)
    }

    fn tail(&self, id: &str, len: u64) -> Result<Option<LogTail>> {
        if len > PIECE {
            return self.long_tail(id, len);
        }
        Ok(self.server_tail(id, len)?.map(|end| end.tail))
    }

    fn open(&self, id: &str, len: u64) -> Result<(Writer<S>, LogTail)> {
        let lease = self.claim(id)?;
        let ServerTail { tail, end } = self.server_tail(id, len)?.unwrap_or_default();
        let writer = Writer {
            lease,
            end,
            is_outcome_unknown: false,
        };

        Ok((writer, tail))
    }

    fn is_open(&self, id: &str) -> Result<bool> {
        self.server().check_id(id)?;
        self.pool
            .run(|server, connection| server.is_claimed(connection, id, &self.owner))
    }

    fn append(&self, writer: &mut Writer<S>, bytes: &[u8]) -> Result<u64> {
        let lease = writer.lease.key();
        let end = writer.end;
        let outcome = self
            .pool
            .run(|server, connection| server.append(connection, lease, end, bytes));
        match outcome {
            Ok(true) => {
                writer.end += bytes.len() as u64;
                Ok(writer.end)
            }
            // A write without a reply may have been stored; nothing is appended after it.
            Ok(false) if writer.is_outcome_unknown => Err(Error::new(
                ErrorKind::Conflict,
                format!(
                    "session {:?} was not written: an earlier write without an answer, or another \
                     run, has changed it; run the session again to read it again",
                    lease.id
                ),
            )),
            Ok(false) => Err(Error::session_taken_over(&lease.id)),
            Err(error) => {
                writer.is_outcome_unknown = true;
                Err(error)
            }
        }
    }

    fn repair(&self, writer: &mut Writer<S>, repair: &Repair<'_>) -> Result<Option<String>> {
        let lease = writer.lease.key();
        let end = writer.end;
        let send = |damaged: &[DamagedPiece], cut| {
            let repair = ServerRepair { damaged, cut };
            let is_done = self
                .pool
                .run(|server, connection| server.repair(connection, lease, end, &repair))?;
            if is_done {
                Ok(())
            } else {
                Err(Error::session_taken_over(&lease.id))
            }
        };

        let mut batch = Batch::default();
        repair.for_each_part(|damage, part| {
            for (offset, piece) in pieces_of(damage.offset, part) {
                batch.push(DamagedPiece {
                    at: offset,
                    what: damage.to_string(),
                    bytes: piece.to_vec(),
                });
                if batch.is_full() {
                    send(&batch.parts, None)?;
                    batch = Batch::default();
                }
            }
            Ok(())
        })?;

        let new_end = repair.truncate_to();
        send(&batch.parts, new_end)?;
        writer.end = new_end.unwrap_or(end);
        Ok(Some(self.server().damaged_place(&lease.id)))
    }

    fn remove(&self, id: &str, expected_size: Option<u64>) -> Result<bool> {
        let lease = self.new_lease(id);
        let mut wait = ReleaseWait::new(id);
        loop {
            let (exists, size) = match self.tail(id, 1) {
                Ok(tail) => (tail.is_some(), tail.map(|tail| tail.size)),
                // The log exists, but cannot be read.
                Err(error) if error.kind() == ErrorKind::Corrupt => (true, None),
                Err(error) => return Err(error),
            };

            if expected_size.is_some() && size != expected_size {
                return Ok(false);
            }

            match self
                .pool
                .run(|server, connection| server.remove(connection, &lease, expected_size))?
            {
                Removal::Done => return Ok(exists),
                Removal::Changed => return Ok(false),
                Removal::Busy => wait.poll()?,
            }
        }
    }

    fn read(&self, id: &str, each: Each<'_>) -> Result<bool> {
        self.server().check_id(id)?;
        let max = self.options().max_session_bytes;
        Ok(self.pieces(id, 0, max, each)?.is_some())
    }

    fn tails(&self, ids: &[Arc<str>], len: u64) -> Result<Vec<Result<Option<LogTail>>>> {
        let tails = self
            .pool
            .run(|server, connection| server.tails(connection, ids, len))?
            .into_iter()
            .map(|tail| Ok(tail?.map(|end| end.tail)));
        Ok(tails.collect())
    }

    fn place(&self, _: &str) -> Option<String> {
        Some(self.server().name().to_owned())
    }

    fn snapshots(&self) -> Snapshots {
        self.server().snapshots()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// The number of pages that are read of a list, where `next` is the place after each page, and
    /// the error at its end.
    fn list(next: impl Fn(usize) -> Option<String>) -> (usize, Result<()>) {
        let count = Cell::new(0);
        let read = |_: Option<&str>| {
            count.set(count.get() + 1);
            let next = next(count.get());
            Ok(IdPage {
                ids: Vec::new(),
                next,
            })
        };
        let outcome = each_page("the server", read, &mut |_| Ok(()));
        (count.get(), outcome)
    }

    #[test]
    fn short_damaged_parts_are_sent_in_batches_of_a_few_thousand() {
        let mut batch = Batch::default();
        while !batch.is_full() {
            batch.push(DamagedPiece {
                at: 0,
                what: String::new(),
                bytes: vec![0; 2],
            });
        }
        assert!(batch.parts.len() <= 4_096, "{}", batch.parts.len());
    }

    #[test]
    fn list_without_end_is_an_error_after_a_number_of_pages() {
        let (count, outcome) = list(|page| Some(page.to_string()));
        let error = outcome.unwrap_err();
        assert_eq!((count, error.kind()), (MAX_PAGES, ErrorKind::Protocol));
        assert!(error.text().contains("100000 pages"), "{error}");
        let (count, outcome) = list(|page| (page < MAX_PAGES).then(|| page.to_string()));
        assert!(outcome.is_ok() && count == MAX_PAGES);
    }

    #[test]
    fn page_that_is_followed_by_itself_is_an_error() {
        let (count, outcome) = list(|page| Some(page.min(3).to_string()));
        let error = outcome.unwrap_err();
        assert_eq!((count, error.kind()), (4, ErrorKind::Protocol));
        assert!(error.text().contains("twice"), "{error}");
    }
}
