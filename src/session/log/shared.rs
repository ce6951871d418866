//! The state of a store, which its clones share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::error::{Error, ErrorKind, Result};

use super::clock::Clock;
use super::group::WaitingWrites;
use super::listings::Listings;
use super::log::Log;
use super::long_reads::LongReads;
use super::memory_limit::{MemoryLimit, max_memory};
use super::queue::Queues;
use super::slot::SessionSlot;
use super::whole_reads::WholeReads;

/// The number of bytes of a log's end that are read first when it is opened.
const END: u64 = 64 * 1024;

/// The default maximum size of a log, in bytes.
pub(super) const MAX_LOG: u64 = 256 * 1024 * 1024;

/// The state of a store, which its clones share.
pub(super) struct LogShared<L: Log> {
    pub(super) log: L,
    pub(super) clock: Clock,
    /// The number of bytes of a log's end that are read first when it is opened.
    pub(super) end_len: u64,
    pub(super) max_session_bytes: AtomicU64,
    /// The name of the option that sets `max_session_bytes`, for errors.
    pub(super) size_option: &'static str,
    pub(super) queues: Queues,
    pub(super) waiting_writes: WaitingWrites<L>,
    pub(super) whole_reads: WholeReads,
    /// A permit for each list or similar call that may have a thread.
    pub(super) listings: Arc<Listings>,
    pub(super) long_reads: LongReads,
    /// The sessions in use.
    pub(super) slots: Mutex<HashMap<Arc<str>, SessionSlot<L>>>,
}

impl<L: Log> LogShared<L> {
    pub(super) fn new(log: L) -> Self {
        Self {
            log,
            clock: Clock::default(),
            end_len: END,
            max_session_bytes: AtomicU64::new(MAX_LOG),
            size_option: "LogStore::with_max_session_bytes",
            queues: Queues::default(),
            waiting_writes: WaitingWrites::default(),
            whole_reads: WholeReads::default(),
            listings: Arc::default(),
            long_reads: LongReads::default(),
            slots: Mutex::default(),
        }
    }

    /// Checks the size of a log before it is read.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Io`] if it is larger than the store allows.
    pub(super) fn check_size(&self, id: &str, size: u64) -> Result<()> {
        let max = self.max_session_bytes.load(Ordering::Relaxed);
        if size <= max {
            return Ok(());
        }

        let place = self.log.place(id);
        let option = self.size_option;
        Err(too_large(id, place.as_deref(), size, max, option))
    }

    /// Checks the size that a log would have after a write.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Io`] if it is larger than the store allows.
    pub(super) fn check_new_size(&self, id: &str, size: u64) -> Result<()> {
        let max = self.max_session_bytes.load(Ordering::Relaxed);
        if size <= max {
            return Ok(());
        }

        let place = place_phrase(self.log.place(id).as_deref());
        let option = self.size_option;
        let text = format!(
            "the write was refused: session {id:?}{place} would have {size} bytes, more than the \
             {max} that are read; it stays readable: fork it to continue in a shorter log, or raise \
             {option}"
        );
        Err(Error::new(ErrorKind::Io, text))
    }

    /// Returns the maximum memory of a session, in bytes.
    pub(super) fn max_memory(&self) -> usize {
        max_memory(self.max_session_bytes.load(Ordering::Relaxed))
    }

    /// Returns the limit of the memory of a session, with the texts of the error for exceeding it.
    pub(super) fn memory_limit(&self, id: &str) -> MemoryLimit {
        let max = self.max_session_bytes.load(Ordering::Relaxed);
        let place = self.log.place(id);
        MemoryLimit::new(id, place.as_deref(), max, self.size_option)
    }
}

/// Returns the error for a log that has more than `max` bytes.
pub(in crate::session) fn too_large(
    id: &str,
    place: Option<&str>,
    size: u64,
    max: u64,
    option: &str,
) -> Error {
    let place = place_phrase(place);
    let text = format!(
        "session {id:?}{place} has {size} bytes, more than the {max} that are read; it was left \
         untouched; raise {option} to read it, and fork it to continue in a shorter log"
    );
    Error::new(ErrorKind::Io, text)
}

/// Returns the error for a log that was removed or shortened while it was read.
#[cfg(any(all(feature = "sqlite", unix), feature = "postgres", feature = "redis"))]
pub(in crate::session) fn changed_meanwhile(id: &str) -> Error {
    let text =
        format!("session {id:?} was changed by another run while it was read; read it again");
    Error::new(ErrorKind::Conflict, text)
}

/// Returns the place of a log as errors name it.
pub(super) fn place_phrase(place: Option<&str>) -> String {
    place.map_or(String::new(), |place| format!(" in {place}"))
}
