//! The storage of the logs of sessions.

use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};

use super::queue::Queue;
use super::scan::Scan;

/// The last bytes of a log, and how many bytes it has.
pub(in crate::session) type Tail = (Vec<u8>, u64);

/// The default of the most bytes of a log that is read piece by piece.
#[cfg(any(feature = "jsonl", feature = "sqlite"))]
pub(in crate::session) const MAX_LOG: u64 = 1024 * 1024 * 1024;

/// Receives the pieces of a log.
pub(in crate::session) type Each<'a> = &'a mut dyn FnMut(&[u8]) -> Result<()>;

/// The limit on the size of a log that is read or written.
pub(in crate::session) struct SizeLimit {
    pub(in crate::session) max_bytes: u64,
    /// The place of the log, for errors.
    pub(in crate::session) place: String,
    /// The option that sets the limit.
    pub(in crate::session) option: &'static str,
}

/// Checks the size of a log before it is read or written.
///
/// # Errors
///
/// [`ErrorKind::Io`] when it is larger than the storage allows.
pub(super) fn check_size<L: Log>(log: &L, id: &str, size: u64) -> Result<()> {
    match log.size_limit(id) {
        Some(limit) if size > limit.max_bytes => Err(limit.exceeded(id, size)),
        _ => Ok(()),
    }
}

impl SizeLimit {
    pub(in crate::session) fn exceeded(&self, id: &str, size: u64) -> Error {
        let Self {
            max_bytes,
            place,
            option,
        } = self;
        let text = format!(
            "session {id:?} in {place} has {size} bytes, more than the {max_bytes} that are read; \
             it was left untouched, raise {option} or begin another session"
        );
        Error::new(ErrorKind::Io, text)
    }
}

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

    /// The whole log, to `each` piece by piece; returns `false` when there is none. Pieces are as
    /// large as the storage has them.
    fn stream(&self, id: &str, each: Each<'_>) -> Result<bool> {
        match self.read(id)? {
            Some(bytes) => each(&bytes).map(|()| true),
            None => Ok(false),
        }
    }

    /// The limit on the size of this log; none by default.
    fn size_limit(&self, _id: &str) -> Option<SizeLimit> {
        None
    }

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

    /// Puts the unreadable parts aside that are [to be kept](Scan::aside) and cuts off a torn tail.
    /// `bytes` is the whole log, if it was read at once, and `scan` its scan; the damage is then
    /// marked with the place it is kept in.
    fn heal(&self, writer: &mut Self::Writer, bytes: Option<&[u8]>, scan: &mut Scan) -> Result<()>;

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
