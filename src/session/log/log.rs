//! The storage of the logs of sessions.

use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};

use super::repair::Repair;

/// Receives the pieces of a log.
pub(in crate::session) type Each<'a> = &'a mut dyn FnMut(&[u8]) -> Result<()>;

/// A storage of logs: one sequence of bytes for each session, which is only appended to.
///
/// Every method may block; they are called on threads for blocking work.
pub(in crate::session) trait Log: Send + Sync + 'static {
    /// The exclusive right to write one log, in this process and all others. Dropping it releases
    /// the right.
    type Writer: Send + 'static;

    /// The ids of all logs, in any order. Logs without bytes may be left out.
    fn ids(&self) -> Result<Vec<Arc<str>>>;

    /// Reads the end of a log: at least its last `len` bytes, or all of it. `None` for a log
    /// without bytes.
    ///
    /// A write in progress may be included in part.
    fn tail(&self, id: &str, len: u64) -> Result<Option<LogTail>>;

    /// Takes the right to write a log, which need not exist, and reads its end as
    /// [`tail`](Self::tail) does.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::SessionBusy`] while another writer has it.
    fn open(&self, id: &str, len: u64) -> Result<(Self::Writer, LogTail)>;

    /// Appends `bytes` and returns the size of the log.
    ///
    /// When it returns `Ok`, they are durable. When it fails, either none of them is stored, or the
    /// outcome is unknown and this writer refuses every further append.
    fn append(&self, writer: &mut Self::Writer, bytes: &[u8]) -> Result<u64>;

    /// Sets the damaged parts of a log aside, then truncates it, if it is torn. Returns the
    /// place of the parts, or `None` if they were not kept.
    ///
    /// It may be repeated after a failure, and must then not set a part aside twice.
    fn repair(&self, writer: &mut Self::Writer, repair: &Repair<'_>) -> Result<Option<String>>;

    /// Removes a log and the parts that were set aside of it; `false` if there was none. With
    /// `expected_size`, only while it has that size.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::SessionBusy`] while a writer has it.
    fn remove(&self, id: &str, expected_size: Option<u64>) -> Result<bool>;

    /// Passes a whole log to `each`, piece by piece and in order; returns `false` for a log without
    /// bytes. The provided method passes what [`tail`](Self::tail) reads.
    fn read(&self, id: &str, each: Each<'_>) -> Result<bool> {
        match self.tail(id, u64::MAX)? {
            Some(tail) => each(&tail.bytes).map(|()| true),
            None => Ok(false),
        }
    }

    /// Reads the ends of several logs, for lists. An inner error concerns that log only. The
    /// provided method calls [`tail`](Self::tail) for each.
    fn tails(&self, ids: &[Arc<str>], len: u64) -> Result<Vec<Result<Option<LogTail>>>> {
        Ok(ids.iter().map(|id| self.tail(id, len)).collect())
    }

    /// The place of a log, for errors; unknown by default.
    fn place(&self, _id: &str) -> Option<String> {
        None
    }

    /// Returns `true` if `error` concerns one log, so that lists and `prune` continue with the
    /// others. The provided method is true for [`ErrorKind::Corrupt`].
    fn concerns_one_log(&self, error: &Error) -> bool {
        error.kind() == ErrorKind::Corrupt
    }

    /// The time at which snapshots are written. The provided method returns
    /// [`Snapshots::OnAppend`] after 1 MiB.
    fn snapshots(&self) -> Snapshots {
        Snapshots::OnAppend { after: 1024 * 1024 }
    }
}

/// The end of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::session) struct LogTail {
    /// The last bytes.
    pub(in crate::session) bytes: Vec<u8>,
    /// The size of the whole log, in bytes.
    pub(in crate::session) size: u64,
}

impl LogTail {
    /// The end of a log of `size` bytes.
    pub(in crate::session) fn new(bytes: impl Into<Vec<u8>>, size: u64) -> Self {
        Self {
            bytes: bytes.into(),
            size,
        }
    }

    /// Returns `true` if the bytes are the whole log.
    pub(in crate::session) fn is_whole(&self) -> bool {
        self.bytes.len() as u64 >= self.size
    }
}

/// The time at which a log gets a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::session) enum Snapshots {
    /// Never: an opening reads the whole log.
    #[cfg(any(feature = "postgres", feature = "redis"))]
    Never,
    /// With the append by which it becomes due.
    OnAppend {
        /// The bytes since the last snapshot, below which none is written.
        after: u64,
    },
}
