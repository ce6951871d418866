//! The storage of the logs of sessions.

use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};

use super::queue::Queue;
use super::scan::Scan;

/// The last bytes of a log, and how many bytes it has.
pub(in crate::session) type Tail = (Vec<u8>, u64);

/// A place for the logs of sessions: all that differs between durable stores.
///
/// Every method may block; they are called on threads for blocking work.
pub(in crate::session) trait Log: Send + Sync + 'static {
    /// The exclusive right to write a session's log, in this process or another. Dropping it gives
    /// the right back.
    type Writer: Send + 'static;

    /// The queue in which readers take turns, where not all can read at once.
    fn readers(&self) -> Option<&Queue> {
        None
    }

    /// The queue in which writers take turns, like [`readers`](Log::readers).
    fn writers(&self) -> Option<&Queue> {
        None
    }

    /// The ids of all sessions, in any order.
    fn ids(&self) -> Result<Vec<Arc<str>>>;

    /// The whole log; `None` when there is none. A write that is under way may be there in part.
    fn read(&self, id: &str) -> Result<Option<Vec<u8>>>;

    /// The end of the log: `len` bytes at least, or all.
    fn tail(&self, id: &str, len: u64) -> Result<Option<Tail>>;

    /// The ends of these logs, each by itself or why it cannot be read.
    fn tails(&self, ids: &[Arc<str>], len: u64) -> Result<Vec<Result<Option<Tail>>>> {
        Ok(ids.iter().map(|id| self.tail(id, len)).collect())
    }

    /// Returns `true` if the error concerns one log only, and not the others.
    fn is_of_one(error: &Error) -> bool {
        error.kind() == ErrorKind::Corrupt
    }

    /// Returns `true` if opening may read the end of a log alone, so that snapshots are of use.
    fn has_snapshots(&self) -> bool {
        true
    }

    /// Takes the right to write a log, which need not exist, and reads its last `len` bytes at
    /// least, or all.
    ///
    /// # Errors
    ///
    /// [`SessionBusy`](crate::ErrorKind::SessionBusy) while it is taken elsewhere.
    fn open(&self, id: &str, len: u64) -> Result<(Self::Writer, Tail)>;

    /// Puts the unreadable parts aside and cuts off a torn tail. `bytes` is the whole log and `scan`
    /// its scan; the damage is then marked with the place it is kept in.
    fn heal(&self, writer: &mut Self::Writer, bytes: &[u8], scan: &mut Scan) -> Result<()>;

    /// Adds `bytes`, whole lines, at the end. When it returns `Ok` they are durable; when it fails,
    /// none of them is stored, or the writer refuses every further append. Returns the log's size.
    fn append(&self, writer: &mut Self::Writer, bytes: &[u8]) -> Result<u64>;

    /// Removes the log and what was put aside of it; false when there was none. With a `size`, only
    /// while it has that many bytes, under a lock.
    ///
    /// # Errors
    ///
    /// [`SessionBusy`](crate::ErrorKind::SessionBusy) while it is open for writing elsewhere.
    fn remove(&self, id: &str, size: Option<u64>) -> Result<bool>;
}
