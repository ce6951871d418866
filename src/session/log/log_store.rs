//! A session store over a log for each session.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;

use crate::error::{Error, ErrorKind, Result};
use crate::session::json::read_import;
use crate::session::{
    AgentState, Lease, ListQuery, Record, SessionInfo, SessionPage, SessionStore, StoredSession,
    already_exists, cut, not_found,
};
use crate::util::Cancellation;
use crate::util::blocking::blocking;
use crate::util::new_thread::on_new_thread;

use super::fold::LogFold;
use super::log::{Log, LogTail};
use super::open_log::{OpenLog, stored_session};
use super::queue::Queue;
#[cfg(any(
    feature = "jsonl",
    feature = "sqlite",
    feature = "postgres",
    feature = "redis"
))]
use super::queue::Queues;
use super::scan::{Scan, scan_stored};
use super::shared::LogShared;
use super::snapshot;

/// The number of times that a load tries to read a log that is open. After that it reads the stored
/// log.
const MAX_LOAD_TRIES: usize = 4;

/// The number of bytes of a log's end by which changes are recognized.
const REVISION_LEN: u64 = 256;

/// A [`SessionStore`] over a [`Log`]. Clones share one store. The docs of [`Log`] have an example.
///
/// Every record has a checksum. A write that a crash cut off is dropped when the session is next
/// leased. Damaged parts are omitted, set aside by the log and reported; everything after them is
/// read. Before a part is set aside, the log is read again, because the fault may be that of the
/// reading. A session of a newer version is not changed.
///
/// Inside a tokio runtime, the log is used on the runtime's threads for blocking work. A write that
/// has begun is finished even if its future is dropped.
pub struct LogStore<L: Log>(Arc<LogShared<L>>);

impl<L: Log> LogStore<L> {
    /// Creates a store over `log`.
    pub fn new(log: L) -> Self {
        let mut shared = LogShared::new(log);
        if shared.log.appends_together() {
            shared.queues.writers = Some(Queue::default());
        }
        Self(Arc::new(shared))
    }

    /// Sets the limit of one session's log in bytes, for all clones of this store. Defaults to 256
    /// MiB. A log has all records of its session, and snapshots.
    ///
    /// A session over the limit is neither read nor written; the [`Io`](ErrorKind::Io) error names
    /// its size and this option. A write that would exceed the limit is refused, and the session
    /// stays readable. To continue it, copy it to a new id with [`fork`](SessionStore::fork), or
    /// with [`export`](SessionStore::export) and [`import`](SessionStore::import): the new log has
    /// only the present state.
    ///
    /// The memory of a session is limited, too: to a third of this limit, or to 16 MiB if that is
    /// more. It is estimated from the text of each record before the record is parsed: a text takes
    /// up to four times its bytes, short objects up to a hundred times theirs.
    ///
    /// A log is read piece by piece. No record may exceed 64 MiB: a write of one is refused, and a
    /// longer line is damage.
    #[must_use]
    pub fn with_max_session_bytes(self, bytes: u64) -> Self {
        self.set_max_session_bytes(bytes);
        self
    }

    /// Returns the log.
    pub fn log(&self) -> &L {
        &self.0.log
    }

    /// Creates a store whose errors name `size_option` as the option for the limit of a log.
    #[cfg(any(
        feature = "jsonl",
        feature = "sqlite",
        feature = "postgres",
        feature = "redis"
    ))]
    pub(in crate::session) fn named(log: L, size_option: &'static str, queues: Queues) -> Self {
        let mut shared = LogShared::new(log);
        shared.size_option = size_option;
        shared.queues = queues;
        Self(Arc::new(shared))
    }

    #[cfg(test)]
    pub(super) fn with_end_len(log: L, end_len: u64) -> Self {
        let mut shared = LogShared::new(log);
        shared.end_len = end_len;
        Self(Arc::new(shared))
    }

    #[cfg(test)]
    pub(super) fn shared(&self) -> &LogShared<L> {
        &self.0
    }

    /// Sets the maximum size of a session's log, in bytes, for all clones of this store.
    pub(in crate::session) fn set_max_session_bytes(&self, bytes: u64) {
        self.0.max_session_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Returns the session of a log that is open in this process. Returns `None` if it is not open,
    /// or if it is written again and again meanwhile.
    ///
    /// The wait for an opening or a write takes no thread, and holds nothing: a future that is not
    /// polled delays neither a write nor the release of the session.
    async fn load_leased(&self, id: &Arc<str>) -> Result<Option<Option<StoredSession>>> {
        for _ in 0..MAX_LOAD_TRIES {
            let Some(handle) = self.0.join_if_leased(id) else {
                return Ok(None);
            };

            let log_cell = handle.log_cell.clone();
            let unlocked = log_cell.unlocked();
            let read = move || Ok(handle.log_cell.try_read(|log| log.map(OpenLog::session)));
            match blocking(read).await? {
                Some(session) => return Ok(session),
                None => unlocked.await,
            }
        }
        Ok(None)
    }

    async fn prune_one(&self, id: &str, older_than: Duration) -> Result<bool> {
        if self.0.is_leased(id) == Some(true) {
            return Ok(false);
        }

        // Read without a lease and outside the writers' turn, so that nothing waits for it.
        let shared = self.0.clone();
        let own_id = id.to_owned();
        let old_log = self
            .listing(move |cancellation| shared.old_log(&own_id, older_than, cancellation))
            .await?;
        let Some((end, size)) = old_log else {
            return Ok(false);
        };

        // A log that was written meanwhile has another end, and stays.
        let handle = self.0.reserve(id)?;
        let shared = self.0.clone();
        let own_id = id.to_owned();
        self.writing(move || {
            let is_unchanged = shared.has_end(&own_id, end)?;
            Ok(is_unchanged && handle.remove(Some(size))?)
        })
        .await
    }

    async fn write<F>(&self, lease: &Lease, records: F) -> Result<()>
    where
        F: FnOnce(&LogFold) -> Vec<Record> + Send + 'static,
    {
        let id = lease.session_id();
        let handle = self
            .0
            .join(id)
            .ok_or_else(|| Error::session_taken_over(id))?;
        let token = lease.token();
        if let Some(queue) = &self.0.queues.writers
            && self.0.log.appends_together()
        {
            return handle.write_in_group(queue, token, Box::new(records)).await;
        }

        self.writing(move || {
            let mut log_guard = handle.log_cell.lock();

            // Also refuses a write that is run only after the session was leased again.
            let open_log = log_guard
                .as_mut()
                .filter(|log| log.token == token)
                .ok_or_else(|| Error::session_taken_over(&handle.id))?;
            let records = records(&open_log.fold);
            open_log.write_records(&handle.shared, records)
        })
        .await
    }

    async fn reading<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Cancellation) -> Result<T> + Send + 'static,
    {
        let cancellation = Cancellation::default();
        let _cancel_on_drop = cancellation.guard();
        in_turn(self.0.queues.readers.as_ref(), move || work(&cancellation)).await
    }

    /// Runs work that reads many logs, or a whole log twice. It delays no work of `reading`. It
    /// takes no thread while [`MAX_LISTINGS`](super::listings::MAX_LISTINGS) others work, also
    /// those that were dropped and have not ended yet.
    async fn listing<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Cancellation) -> Result<T> + Send + 'static,
    {
        let cancellation = Cancellation::default();
        let _cancel_on_drop = cancellation.guard();
        let permit = self.0.listings.permit().await;
        let work = move || {
            let _permit = permit;
            work(&cancellation)
        };
        in_turn(self.0.queues.listers.as_ref(), work).await
    }

    async fn writing<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce() -> Result<T> + Send + 'static,
    {
        in_turn(self.0.queues.writers.as_ref(), work).await
    }
}

#[async_trait]
impl<L: Log> SessionStore for LogStore<L> {
    async fn load(&self, id: &str) -> Result<Option<StoredSession>> {
        let shared = self.0.clone();
        let id = Arc::<str>::from(id);
        if let Some(session) = self.load_leased(&id).await? {
            return Ok(session);
        }

        self.reading(move |cancellation| {
            if id.is_empty() {
                return Ok(None);
            }

            // An incomplete tail may be a write in progress; the next lease decides.
            let scan = snapshot::read(&shared, &id, cancellation)?;
            Ok(scan.and_then(|scan| stored_session(&scan.fold, scan.damage)))
        })
        .await
    }

    async fn append(&self, lease: &Lease, records: Vec<Record>) -> Result<()> {
        self.write(lease, move |_| records).await
    }

    async fn save(&self, lease: &Lease, state: &AgentState) -> Result<()> {
        let state = state.clone();
        self.write(lease, move |fold| {
            if fold.exists() {
                fold.session().difference(&state)
            } else {
                StoredSession::new(state).records()
            }
        })
        .await
    }

    async fn lease(&self, id: &str) -> Result<Lease> {
        let mut handle = self.0.reserve(id)?;
        handle.is_async = true;

        // Declared after `handle`, so that it is dropped first: the opening stops before another
        // one can take the lease.
        let cancellation = Cancellation::default();
        let _cancel_on_drop = cancellation.guard();
        let worker = self.0.join(&handle.id);
        let shared = self.0.clone();
        let log_cell = handle.log_cell.clone();
        let id = handle.id.clone();
        let opening = blocking(move || {
            let _worker = worker;
            let mut log_guard = log_cell.lock();
            if cancellation.is_cancelled() {
                return Err(Error::session_busy(&id));
            }

            // A write of the previous lease may have been in progress until now.
            *log_guard = None;
            let open_log = OpenLog::new(&shared, &id, &cancellation)?;
            Ok(log_guard.insert(open_log).token)
        });

        let token = opening.await?;
        Ok(Lease::new(handle.id.clone(), token, move || drop(handle)))
    }

    async fn is_leased(&self, id: &str) -> Result<bool> {
        if id.is_empty() {
            return Ok(false);
        }
        // A writer that this process is closing belongs to no run.
        if let Some(is_leased) = self.0.is_leased(id) {
            return Ok(is_leased);
        }
        let shared = self.0.clone();
        let id = id.to_owned();
        self.reading(move |_| shared.log.is_open(&id)).await
    }

    async fn revision(&self, id: &str) -> Result<Option<u64>> {
        if id.is_empty() {
            return Ok(None);
        }
        let shared = self.0.clone();
        let id = id.to_owned();
        self.reading(move |_| {
            Ok(shared
                .log
                .tail(&id, REVISION_LEN)?
                .map(|tail| revision(&tail)))
        })
        .await
    }

    async fn create(&self, id: &str, mut session: StoredSession) -> Result<()> {
        session.state.thread_id = id.into();
        let mut handle = self.0.reserve(id)?;
        handle.is_async = true;

        // Encoded before its turn, so that other writes do not wait for that.
        let encoding = blocking(move || {
            let shared = &*handle.shared;
            let mut log_guard = handle.log_cell.lock();
            *log_guard = None;
            let open_log = OpenLog::new(shared, &handle.id, &Cancellation::default())?;
            if open_log.fold.exists() {
                return Err(already_exists(&handle.id));
            }

            let append = open_log.encode_records(shared, session.records())?;
            *log_guard = Some(open_log);
            drop(log_guard);
            Ok((handle, append))
        });

        let (handle, append) = encoding.await?;
        self.writing(move || {
            let mut log_guard = handle.log_cell.lock();
            let outcome = match (log_guard.as_mut(), append) {
                (Some(open_log), Some(append)) => open_log.write_encoded(&handle.shared, append),
                (Some(_), None) => Ok(()),
                (None, _) => Err(Error::session_taken_over(&handle.id)),
            };
            *log_guard = None;
            outcome
        })
        .await
    }

    async fn import(&self, id: &str, json: &[u8]) -> Result<()> {
        let max_memory = self.0.max_memory().saturating_mul(2);
        self.create(id, read_import(json, max_memory).await?).await
    }

    async fn fork_at(&self, from: &str, to: &str, messages: usize) -> Result<()> {
        let shared = self.0.clone();
        let id = from.to_owned();
        let forked = self.listing(move |cancellation| {
            let read = |fold| shared.read_whole(&id, cancellation, fold);
            let full_scan = read(LogFold::new(&id))?.ok_or_else(|| not_found(&id))?;
            let total = full_scan.fold.session().state.messages.len();
            let stored_session =
                stored_session(&full_scan.fold, Vec::new()).ok_or_else(|| not_found(&id))?;
            let mut forked = cut(&id, stored_session, messages)?;
            let state = &mut forked.state;
            state.parent = None;
            if state.messages.len() < total {
                let fold = LogFold::new(&id).capture_at(state.messages.len());
                let scan = read(fold)?.ok_or_else(|| not_found(&id))?;
                (state.todos, state.files) = scan.fold.into_captured();
            }

            Ok(forked)
        });

        self.create(to, forked.await?).await
    }

    async fn delete(&self, id: &str) -> Result<bool> {
        if id.is_empty() {
            return Ok(false);
        }
        let handle = self.0.reserve(id)?;
        self.writing(move || handle.remove(None)).await
    }

    async fn list(&self) -> Result<Vec<SessionInfo>> {
        let shared = self.0.clone();
        self.listing(move |cancellation| shared.list(cancellation))
            .await
    }

    async fn list_page(&self, query: ListQuery) -> Result<SessionPage> {
        let shared = self.0.clone();
        self.listing(move |cancellation| query.page(shared.list(cancellation)?))
            .await
    }

    async fn children(&self, id: &str) -> Result<Vec<Arc<str>>> {
        let shared = self.0.clone();
        let id = id.to_owned();
        self.listing(move |cancellation| shared.children(&id, cancellation))
            .await
    }

    async fn prune(&self, older_than: Duration) -> Result<usize> {
        let shared = self.0.clone();
        let ids = self
            .listing(move |cancellation| shared.ids_to_prune(cancellation))
            .await?;
        let mut removed_count = 0;
        let mut first_error = Ok(());
        for id in ids {
            match self.prune_one(&id, older_than).await {
                Ok(is_removed) => removed_count += usize::from(is_removed),
                Err(error) if error.kind() == ErrorKind::SessionBusy => {}
                Err(error) if self.0.log.concerns_one_log(&error) => {
                    first_error = first_error.and(Err(error));
                }
                Err(error) => return Err(error),
            }
        }

        first_error.map(|()| removed_count)
    }
}

/// Returns a number that differs for logs with different ends: their sizes differ or, after a
/// removal or a repair, their last records.
fn revision(tail: &LogTail) -> u64 {
    let start = tail.bytes.len().saturating_sub(REVISION_LEN as usize);
    let crc = crc32fast::hash(&tail.bytes[start..]);
    tail.size ^ (u64::from(crc) << 32)
}

/// Runs blocking work when it is its turn. The work is skipped if its future has been dropped by
/// then.
async fn in_turn<T, F>(queue: Option<&Queue>, work: F) -> Result<T>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T> + Send + 'static,
{
    match queue {
        Some(queue) => queue.run(work).await,
        None => blocking(work).await,
    }
}

impl<L: Log> LogShared<L> {
    /// Reads a whole log into an empty session.
    pub(super) fn read_whole(
        &self,
        id: &str,
        cancellation: &Cancellation,
        fold: LogFold,
    ) -> Result<Option<Scan>> {
        if id.is_empty() {
            return Ok(None);
        }
        if let Some(tail) = self.log.tail(id, 1)? {
            self.check_size(id, tail.size)?;
        }
        let fold = fold.limited(self.memory_limit(id));
        on_new_thread(|| scan_stored(&self.log, cancellation, fold, id))
    }
}

impl<L: Log> Clone for LogStore<L> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<L: Log> fmt::Debug for LogStore<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogStore").finish_non_exhaustive()
    }
}
