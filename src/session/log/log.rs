//! The storage of the logs of sessions.

use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};

use super::repair::Repair;

/// Receives the pieces of a log.
pub(in crate::session) type Each<'a> = &'a mut dyn FnMut(&[u8]) -> Result<()>;

/// Receives pages of ids.
pub(in crate::session) type EachPage<'a> = &'a mut dyn FnMut(Vec<Arc<str>>) -> Result<()>;

/// Returns the ids that [`Log::for_each_page`] passes on, for a log that reads them in pages.
#[cfg(any(
    all(any(feature = "jsonl", feature = "sqlite"), unix),
    feature = "postgres",
    feature = "redis"
))]
pub(in crate::session) fn collect_ids<L: Log>(log: &L) -> Result<Vec<Arc<str>>> {
    let mut ids = Vec::new();
    log.for_each_page(&mut |page| {
        ids.extend(page);
        Ok(())
    })?;
    Ok(ids)
}

/// A storage of logs: one sequence of bytes for each session, which is only appended to.
///
/// [`LogStore`](crate::session::LogStore) makes a [`SessionStore`](crate::SessionStore) of it.
/// `LogStore` has the checksums, the snapshots, the leases within the process, the lists and forks,
/// and reads damaged logs; a `Log` stores bytes and grants one writer at a time.
///
/// * Bytes are appended in whole lines. A log neither reads nor changes them.
/// * An id is any text that is not empty. Different ids have different logs. A log may refuse an id
///   that it cannot store, with [`ErrorKind::InvalidRequest`].
/// * Every method may block. `LogStore` calls them on the runtime's threads for blocking work,
///   where `tokio::runtime::Handle::current().block_on(..)` drives an async client. Without a
///   runtime it calls them in place.
/// * A writer is dropped on such a thread, or on an async one while the runtime shuts down. Its
///   `Drop` must not need a runtime.
///
/// [`conformance::session_log`](crate::testing::conformance::session_log) checks an implementation.
///
/// # Example
///
/// Logs in memory:
///
#[cfg_attr(feature = "testing", doc = "```")]
#[cfg_attr(not(feature = "testing"), doc = "```ignore")]
/// use std::collections::{HashMap, HashSet};
/// use std::sync::{Arc, Mutex, MutexGuard};
///
/// use agentcore::session::{Log, LogStore, LogTail, Repair};
/// use agentcore::testing::conformance;
/// use agentcore::{Error, Result};
///
/// #[derive(Clone, Default)]
/// struct MemoryLog(Arc<Mutex<Logs>>);
///
/// #[derive(Default)]
/// struct Logs {
///     bytes: HashMap<Arc<str>, Vec<u8>>,
///     open: HashSet<Arc<str>>,
/// }
///
/// struct Writer {
///     log: MemoryLog,
///     id: Arc<str>,
/// }
///
/// impl Drop for Writer {
///     fn drop(&mut self) {
///         self.log.logs().open.remove(&self.id);
///     }
/// }
///
/// impl MemoryLog {
///     fn logs(&self) -> MutexGuard<'_, Logs> {
///         self.0.lock().unwrap()
///     }
/// }
///
/// impl Log for MemoryLog {
///     type Writer = Writer;
///
///     fn ids(&self) -> Result<Vec<Arc<str>>> {
///         Ok(self.logs().bytes.keys().cloned().collect())
///     }
///
///     fn tail(&self, id: &str, len: u64) -> Result<Option<LogTail>> {
///         let logs = self.logs();
///         let bytes = logs.bytes.get(id).filter(|bytes| !bytes.is_empty());
///         Ok(bytes.map(|bytes| LogTail::of(bytes, len)))
///     }
///
///     fn open(&self, id: &str, len: u64) -> Result<(Writer, LogTail)> {
///         if !self.logs().open.insert(id.into()) {
///             return Err(Error::session_busy(id));
///         }
///         let (log, id) = (self.clone(), id.into());
///         let writer = Writer { log, id };
///         let tail = self.tail(&writer.id, len)?;
///         Ok((writer, tail.unwrap_or_default()))
///     }
///
///     fn append(&self, writer: &mut Writer, bytes: &[u8]) -> Result<u64> {
///         let mut logs = self.logs();
///         let log = logs.bytes.entry(writer.id.clone()).or_default();
///         log.extend_from_slice(bytes);
///         Ok(log.len() as u64)
///     }
///
///     fn repair(&self, writer: &mut Writer, repair: &Repair<'_>) -> Result<Option<String>> {
///         let mut logs = self.logs();
///         if let (Some(end), Some(log)) = (repair.truncate_to(), logs.bytes.get_mut(&writer.id)) {
///             log.truncate(end as usize);
///         }
///         Ok(None)
///     }
///
///     fn remove(&self, id: &str, expected_size: Option<u64>) -> Result<bool> {
///         let mut logs = self.logs();
///         if logs.open.contains(id) {
///             return Err(Error::session_busy(id));
///         }
///         let size = logs.bytes.get(id).map(|bytes| bytes.len() as u64);
///         if expected_size.is_some() && expected_size != size {
///             return Ok(false);
///         }
///         Ok(logs.bytes.remove(id).is_some_and(|bytes| !bytes.is_empty()))
///     }
/// }
///
/// # let run = async {
/// conformance::session_log(MemoryLog::default, |log| log).await?;
/// let make = || async { LogStore::new(MemoryLog::default()) };
/// conformance::session_store(make, |store| async { store }).await
/// # };
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(run)?;
/// # Ok::<(), agentcore::Error>(())
/// ```
pub trait Log: Send + Sync + 'static {
    /// The exclusive right to write one log, in this process and all others. Dropping it releases
    /// the right.
    type Writer: Send + 'static;

    /// Returns the ids of all logs, in any order. Logs without bytes may be omitted.
    fn ids(&self) -> Result<Vec<Arc<str>>>;

    /// Reads the end of a log: at least its last `len` bytes, or the whole log if it is shorter.
    /// Returns `None` for a log without bytes. `len` is not zero.
    ///
    /// A write in progress may be included in part.
    fn tail(&self, id: &str, len: u64) -> Result<Option<LogTail>>;

    /// Takes the right to write a log, which need not exist, and reads its end as
    /// [`tail`](Self::tail) does. For a log without bytes, it returns the default [`LogTail`]. Here
    /// `len` may be zero: the provided [`is_open`](Self::is_open) needs no bytes.
    ///
    /// A log that was opened and never written does not exist.
    ///
    /// If the lock is one on an open file, check after locking that the file still has its name: it
    /// may have been removed in between. Release the lock explicitly when the writer is dropped: a
    /// child process that was forked meanwhile keeps the file open, and the lock with it.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::SessionBusy`] while another writer has the session:
    /// [`Error::session_busy`].
    fn open(&self, id: &str, len: u64) -> Result<(Self::Writer, LogTail)>;

    /// Returns `true` while a writer of the log is open, in this process or in another one.
    ///
    /// The provided method opens a writer for a moment, during which other writers are refused.
    ///
    /// # Errors
    ///
    /// Returns an error if the storage does not answer.
    fn is_open(&self, id: &str) -> Result<bool> {
        match self.open(id, 0) {
            Ok(_writer) => Ok(false),
            Err(error) if error.kind() == ErrorKind::SessionBusy => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Appends `bytes` and returns the size of the log.
    ///
    /// When it returns `Ok`, they are durable. When it fails, either none of them is stored, or the
    /// outcome is unknown and this writer refuses every further append.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Conflict`] if another writer has taken the session over, or if the log
    /// was changed from outside: [`Error::session_taken_over`].
    fn append(&self, writer: &mut Self::Writer, bytes: &[u8]) -> Result<u64>;

    /// Appends to several logs, each as [`append`](Self::append) does, and returns the outcomes in
    /// the same order. No writer occurs twice. An append that fails must not fail the other
    /// appends.
    ///
    /// The provided method calls [`append`](Self::append) for each. A log that stores all of them
    /// with one flush returns `true` from [`appends_together`](Self::appends_together).
    fn append_all(&self, appends: &mut [(&mut Self::Writer, &[u8])]) -> Vec<Result<u64>> {
        appends
            .iter_mut()
            .map(|(writer, bytes)| self.append(writer, bytes))
            .collect()
    }

    /// Returns `true` if [`append_all`](Self::append_all) costs little more than one
    /// [`append`](Self::append). The store then uses one thread for all writes, and appends
    /// together what several sessions have written while the previous appends were stored. The
    /// provided method returns `false`.
    fn appends_together(&self) -> bool {
        false
    }

    /// Sets the damaged parts of a log aside, then truncates it to [`Repair::truncate_to`]. Returns
    /// the location of the parts, for the user (`sessions/a.damaged`), or `None` if they were not
    /// stored.
    ///
    /// It is called again if a later step fails, and by each opening until a run has reported the
    /// damage, and must not set a part aside twice.
    fn repair(&self, writer: &mut Self::Writer, repair: &Repair<'_>) -> Result<Option<String>>;

    /// Removes a log and the parts that were set aside from it. Returns `false` if there is no log.
    /// With `expected_size`, removes it only if it has that size; no writer may open the log
    /// between the check and the removal.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::SessionBusy`] while a writer has the session.
    fn remove(&self, id: &str, expected_size: Option<u64>) -> Result<bool>;

    /// Passes the ids of all logs to `each`, in pages of any size and in any order. An id may be
    /// passed twice, and `each` may use the log.
    ///
    /// The provided method passes all [`ids`](Self::ids) as one page. A log that reads ids page by
    /// page bounds the memory of a list, and lets a dropped list end early: it passes each page as
    /// soon as it is read, even an empty page.
    ///
    /// # Errors
    ///
    /// Stops at the first error of `each` and returns it.
    fn for_each_page(&self, each: EachPage<'_>) -> Result<()> {
        each(self.ids()?)
    }

    /// Passes at least the ids that begin with `prefix` to `each`, as
    /// [`for_each_page`](Self::for_each_page) does.
    ///
    /// The provided method passes the ids of all logs. A log that reads ids in their order begins
    /// at the prefix and ends behind it.
    ///
    /// # Errors
    ///
    /// Stops at the first error of `each` and returns it.
    fn for_each_page_with(&self, prefix: &str, each: EachPage<'_>) -> Result<()> {
        let _ = prefix;
        self.for_each_page(each)
    }

    /// Passes a whole log to `each`, piece by piece and in order. Returns `false` for a log without
    /// bytes.
    ///
    /// The provided method reads the log with [`tail`](Self::tail) and passes it as one piece. A
    /// log that is read piece by piece bounds the memory that opening a long session takes.
    ///
    /// # Errors
    ///
    /// Stops at the first error of `each` and returns it. A log that is read piece by piece and
    /// cannot be read to its end, because it was removed or shortened meanwhile, returns
    /// [`ErrorKind::Conflict`].
    fn read(&self, id: &str, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<bool> {
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

    /// Returns the location of a log, for errors: a path, or the name of a server. The provided
    /// method returns `None`.
    fn place(&self, id: &str) -> Option<String> {
        let _ = id;
        None
    }

    /// Returns `true` if `error` concerns one log, so that lists and
    /// [`prune`](crate::SessionStore::prune) continue with the other logs. The provided method
    /// returns `true` for [`ErrorKind::Corrupt`], and for [`ErrorKind::Conflict`], by which a read
    /// reports that another process has changed the log.
    fn concerns_one_log(&self, error: &Error) -> bool {
        matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Conflict)
    }

    /// Returns the time at which snapshots are written. The provided method returns
    /// [`Snapshots::OnAppend`] with 1 MiB.
    fn snapshots(&self) -> Snapshots {
        Snapshots::OnAppend { after: 1024 * 1024 }
    }
}

/// The end of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogTail {
    /// The last bytes.
    pub bytes: Vec<u8>,
    /// The size of the whole log, in bytes.
    pub size: u64,
}

impl LogTail {
    /// Creates the end of a log of `size` bytes.
    pub fn new(bytes: impl Into<Vec<u8>>, size: u64) -> Self {
        let bytes = bytes.into();
        Self { bytes, size }
    }

    /// Creates the end of a log that is in memory: its last `len` bytes.
    pub fn of(log: &[u8], len: u64) -> Self {
        let len = usize::try_from(len).map_or(log.len(), |len| len.min(log.len()));
        Self::new(&log[log.len() - len..], log.len() as u64)
    }

    /// Returns `true` if the bytes are the whole log.
    pub(crate) fn is_whole(&self) -> bool {
        self.bytes.len() as u64 >= self.size
    }
}

/// The time at which a log gets a snapshot. Snapshots bound the bytes that are read when the log is
/// opened.
///
/// A snapshot is due when the log has grown by at least `after` bytes since the last snapshot, and
/// by at least the size of that snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Snapshots {
    /// Never: an opening reads the whole log.
    Never,
    /// With the append by which it becomes due: for local storage.
    OnAppend {
        /// The minimum growth since the last snapshot, in bytes.
        after: u64,
    },
    /// With the opening of a log whose snapshot is due: for storage over a network, so that no step
    /// of a run waits for the transfer. If the append fails, the log is opened again without it.
    OnOpen {
        /// The minimum growth since the last snapshot, in bytes.
        after: u64,
    },
}
