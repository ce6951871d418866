//! The log of each session, on a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use uuid::Uuid;

use crate::error::{Error, ErrorKind, Result};
use crate::session::log::{Log, Scan, SizeLimit, Tail, part_of};
use crate::session::{busy, taken_over};

use super::lease_keeper::{HeldLease, LeaseKeeper};
use super::options::ServerOptions;
use super::pool::Pool;
use super::server::{DamagedPart, LeaseKey, Removal, Repair, Server, ServerLog};

/// The time to wait for a lease: one that was dropped elsewhere is released a moment later.
const RELEASE_WAIT: Duration = Duration::from_millis(200);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

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
    /// True if the last line has no end.
    open_line: bool,
    /// True if the outcome of a write is unknown.
    is_outcome_unknown: bool,
}

impl<S: Server> RemoteLog<S> {
    pub(in crate::session) fn new(server: S, options: ServerOptions) -> Self {
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

    /// A lease there has not been before.
    fn new_lease(&self, id: &str) -> LeaseKey {
        LeaseKey {
            id: id.into(),
            owner: self.owner.clone(),
            number: self.count.fetch_add(1, Ordering::Relaxed) + 1,
        }
    }

    /// The whole log, unless it is too large.
    fn contents(&self, id: &str) -> Result<Option<ServerLog>> {
        let limit = self.limit();
        let max = limit.max_bytes;
        let contents = self
            .pool
            .run(|server, connection| server.read(connection, id, max))?;
        match contents {
            Some(contents) if contents.end > max => Err(limit.exceeded(id, contents.end)),
            contents => Ok(contents),
        }
    }

    fn limit(&self) -> SizeLimit {
        SizeLimit {
            max_bytes: self.options().max_session_bytes,
            place: self.server().name().to_owned(),
            option: "ServerOptions::max_session_bytes",
        }
    }

    fn claim(&self, id: &str) -> Result<HeldLease<S>> {
        self.server().check_id(id)?;
        let lease = self.new_lease(id);
        let start_time = Instant::now();
        while !self
            .pool
            .run(|server, connection| server.claim(connection, &lease))?
        {
            if start_time.elapsed() >= RELEASE_WAIT {
                return Err(busy(id));
            }

            sleep(POLL_INTERVAL);
        }

        self.keeper.keep(lease)
    }
}

impl<S: Server> Log for RemoteLog<S> {
    type Writer = Writer<S>;

    fn ids(&self) -> Result<Vec<Arc<str>>> {
        self.pool.run(S::ids)
    }

    fn read(&self, id: &str) -> Result<Option<Vec<u8>>> {
        self.server().check_id(id)?;
        let contents = self.contents(id)?;
        Ok(contents.map(|contents| contents.bytes))
    }

    fn tail(&self, id: &str, len: u64) -> Result<Option<Tail>> {
        self.server().check_id(id)?;
        let ids = [Arc::from(id)];
        let mut tails = self
            .pool
            .run(|server, connection| server.tails(connection, &ids, len))?;
        Ok(tails.pop().flatten())
    }

    fn tails(&self, ids: &[Arc<str>], len: u64) -> Result<Vec<Result<Option<Tail>>>> {
        let log_tails = self
            .pool
            .run(|server, connection| server.tails(connection, ids, len))?;
        Ok(log_tails.into_iter().map(Ok).collect())
    }

    fn size_limit(&self, _: &str) -> Option<SizeLimit> {
        Some(self.limit())
    }

    /// A log on a server is read as a whole: that takes one answer, as its end does.
    fn has_snapshots(&self) -> bool {
        false
    }

    fn open(&self, id: &str, _: u64) -> Result<(Writer<S>, Tail)> {
        let lease = self.claim(id)?;
        let contents = self.contents(id)?;
        let ServerLog { bytes, end } = contents.unwrap_or(ServerLog {
            bytes: Vec::new(),
            end: 0,
        });

        let writer = Writer {
            lease,
            end,
            open_line: is_open(&bytes),
            is_outcome_unknown: false,
        };

        let size = bytes.len() as u64;
        Ok((writer, (bytes, size)))
    }

    fn heal(&self, writer: &mut Writer<S>, bytes: Option<&[u8]>, scan: &mut Scan) -> Result<()> {
        // Always read at once.
        let bytes = bytes.unwrap_or_default();
        let parts: Vec<_> = scan
            .aside()
            .map(|damage| DamagedPart {
                at: damage.offset,
                what: damage.to_string(),
                bytes: part_of(bytes, damage),
            })
            .collect();
        let end = usize::try_from(scan.end).map_or(bytes.len(), |end| end.min(bytes.len()));
        let cut_bytes = scan.tail.is_some().then(|| &bytes[..end]);
        let lease = writer.lease.key();
        let repair = Repair {
            damaged: &parts,
            cut: cut_bytes,
        };

        let is_done = self
            .pool
            .run(|server, connection| server.heal(connection, lease, writer.end, &repair))?;
        if !is_done {
            return Err(taken_over(&lease.id));
        }

        let place = self.server().damaged_place(&lease.id);
        for damage in scan.aside_mut() {
            damage.kept_in = Some(place.clone());
        }

        if let Some(cut_bytes) = cut_bytes {
            writer.end = cut_bytes.len() as u64;
            writer.open_line = scan.has_open_line;
        }

        Ok(())
    }

    fn append(&self, writer: &mut Writer<S>, bytes: &[u8]) -> Result<u64> {
        let glued;
        let bytes = if writer.open_line {
            glued = [b"\n", bytes].concat();
            &glued
        } else {
            bytes
        };

        let (lease, end) = (writer.lease.key(), writer.end);
        let outcome = self
            .pool
            .run(|server, connection| server.append(connection, lease, end, bytes));
        match outcome {
            Ok(true) => {
                writer.end += bytes.len() as u64;
                writer.open_line = false;
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
            Ok(false) => Err(taken_over(&lease.id)),
            Err(error) => {
                writer.is_outcome_unknown = true;
                Err(error)
            }
        }
    }

    fn remove(&self, id: &str, size: Option<u64>) -> Result<bool> {
        let lease = self.new_lease(id);
        let start_time = Instant::now();
        loop {
            let tail = self.tail(id, 1)?;
            if size.is_some() && tail.as_ref().map(|(_, size)| *size) != size {
                return Ok(false);
            }

            match self
                .pool
                .run(|server, connection| server.remove(connection, &lease, size))?
            {
                Removal::Done => return Ok(tail.is_some()),
                Removal::Changed => return Ok(false),
                Removal::Busy if start_time.elapsed() >= RELEASE_WAIT => return Err(busy(id)),
                Removal::Busy => sleep(POLL_INTERVAL),
            }
        }
    }
}

fn is_open(bytes: &[u8]) -> bool {
    bytes.last().is_some_and(|last| *last != b'\n')
}
