//! The store of sessions in memory.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;

use crate::error::{Error, Result};
use crate::util::sync::lock;

use super::threads::{Entry, Threads};
use crate::session::agent_state::AgentState;
use crate::session::errors::already_exists;
use crate::session::info::SessionInfo;
use crate::session::lease::Lease;
use crate::session::record::Record;
use crate::session::session_store::{SessionStore, check_id};
use crate::session::stored::StoredSession;

const DEFAULT_TTL: Duration = Duration::from_secs(60 * 60);

/// The maximum number of sessions in the default store of an agent.
const AGENT_SESSIONS: usize = 1_000;
const AGENT_BYTES: u64 = 64 * 1024 * 1024;

/// A store of sessions in memory. A session is dropped if it is not used for the time to live, by
/// default an hour. A session with a call that can be decided until a later time
/// ([`AgentBuilder::approval_expiry`](crate::AgentBuilder::approval_expiry)) stays until then,
/// unless the store is over a limit.
///
/// A run of a session that was dropped begins with an empty history, and emits and logs a warning
/// about that. The store remembers the last 10,000 sessions that it dropped. With
/// [`Session::must_exist`](crate::Session::must_exist) the run fails instead. To keep all sessions,
/// use a durable store.
///
/// Expired sessions are swept on access, at most every five minutes, and by
/// [`sweep`](ThreadStore::sweep); a session that a run has leased is never swept. There is no
/// global store: clones share one.
///
/// The number and the size of the sessions are not limited unless
/// [`max_sessions`](ThreadStore::max_sessions) or [`max_bytes`](ThreadStore::max_bytes) is set.
/// Over these limits, the least recently used sessions are dropped, with a warning in the log at
/// most once a minute. Sessions in use and the session that was used last are not dropped. Sessions
/// with pending calls are kept up to twice the limits; beyond that, they are dropped as well.
///
/// ```
/// use agentcore::ThreadStore;
///
/// let store = ThreadStore::new();
/// let mut state = store.load_or_create("th_8f3a2b");
/// state.messages.push(agentcore::Message::human("hello"));
/// store.save("th_8f3a2b", state);
/// assert_eq!(store.get("th_8f3a2b").map(|state| state.messages.len()), Some(1));
/// assert!(store.get("th_unknown").is_none());
/// ```
#[derive(Clone)]
pub struct ThreadStore(Arc<Mutex<Threads>>);

impl Default for ThreadStore {
    fn default() -> Self {
        Self::new()
    }
}

impl ThreadStore {
    /// Creates a store that drops sessions an hour after their last access.
    pub fn new() -> Self {
        Self::with_ttl(DEFAULT_TTL)
    }

    /// Creates a store that drops sessions `ttl` after their last access.
    pub fn with_ttl(ttl: Duration) -> Self {
        Self(Arc::new(Mutex::new(Threads::new(ttl))))
    }

    /// Creates the default store of an agent.
    pub(crate) fn of_agent() -> Self {
        Self::new()
            .max_sessions(AGENT_SESSIONS)
            .max_bytes(AGENT_BYTES)
    }

    /// Sets the maximum number of sessions, for all clones. Sessions with pending calls are kept up
    /// to twice the number. Defaults to no limit.
    #[must_use]
    pub fn max_sessions(self, sessions: usize) -> Self {
        let mut threads = lock(&self.0);
        threads.bounds.sessions = sessions;
        threads.make_room();
        drop(threads);
        self
    }

    /// Sets the maximum memory that the sessions take, in bytes as [`bytes`](ThreadStore::bytes)
    /// counts them, for all clones. Sessions with pending calls are kept up to twice the size.
    /// Defaults to no limit.
    #[must_use]
    pub fn max_bytes(self, bytes: u64) -> Self {
        let mut threads = lock(&self.0);
        threads.bounds.bytes = bytes;
        threads.make_room();
        drop(threads);
        self
    }

    /// Returns the session's state. Creates an empty session if there is none.
    pub fn load_or_create(&self, id: &str) -> AgentState {
        let mut threads = self.begin(id);
        if !threads.exists(id) {
            threads.write(id, |_| {});
        }
        threads.with(id, |entry| entry.session.state.clone())
    }

    /// Returns the session's state, or `None` if it does not exist or was removed.
    pub fn get(&self, id: &str) -> Option<AgentState> {
        self.session(id).map(|session| session.state)
    }

    /// Stores a state and refreshes its time to live.
    pub fn save(&self, id: &str, state: AgentState) {
        self.begin(id).write(id, |entry| entry.save(state));
    }

    /// Removes the session, even while a run has leased it. Returns `false` if there is none.
    pub fn delete(&self, id: &str) -> bool {
        let mut threads = self.begin(id);
        match threads.get(id) {
            Some(entry) if entry.is_held() => threads.with(id, Entry::empty),
            _ => threads.delete(id),
        }
    }

    /// Removes all expired sessions and returns their number.
    pub fn sweep(&self) -> usize {
        lock(&self.0).sweep()
    }

    /// Returns the number of sessions, including expired sessions that have not been swept yet.
    pub fn len(&self) -> usize {
        lock(&self.0).len()
    }

    /// Returns an estimate of the memory the sessions take, in bytes: texts, files and other data
    /// are counted, the allocator's overhead is estimated.
    pub fn bytes(&self) -> u64 {
        lock(&self.0).bytes()
    }

    /// Returns `true` if there are no sessions.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn session(&self, id: &str) -> Option<StoredSession> {
        let mut threads = self.begin(id);
        let exists = threads.exists(id);
        exists.then(|| threads.with(id, |entry| entry.session.clone()))
    }

    /// Locks the sessions for an access to `id`. First removes that session if it has expired, and
    /// all expired sessions if a sweep is due.
    fn begin(&self, id: &str) -> MutexGuard<'_, Threads> {
        let mut threads = lock(&self.0);
        threads.begin(id);
        threads
    }

    /// Calls `f` if the lease still permits writes of its session.
    fn write(&self, lease: &Lease, f: impl FnOnce(&mut Threads)) -> Result<()> {
        let id = lease.session_id();
        let mut threads = lock(&self.0);
        let entry = threads.get(id);
        if !entry.is_some_and(|entry| entry.may_be_written_with(lease.token())) {
            return Err(Error::session_taken_over(id));
        }
        f(&mut threads);
        Ok(())
    }

    /// Leases a new session that is removed when the lease is released, unless calls of it wait for
    /// an answer.
    pub(crate) fn lease_temporary(&self, id: &str) -> Result<Lease> {
        // Another agent with this store may have created it: it must not be removed.
        if self.session(id).is_some() {
            return Err(Error::session_busy(id));
        }
        self.lease_as(id, false)
    }

    /// Leases a session, which is kept or temporary after the lease.
    fn lease_as(&self, id: &str, is_kept: bool) -> Result<Lease> {
        check_id(id)?;
        let (key, token, dropped) = {
            let mut threads = self.begin(id);
            let leased = threads.lease(id);
            let (key, token) = leased.ok_or_else(|| Error::session_busy(id))?;
            (key, token, threads.dropped.get(id))
        };
        let store = Arc::downgrade(&self.0);
        let lease = Lease::new(key.clone(), token, move || {
            if let Some(threads) = store.upgrade() {
                lock(&threads).release(&key, token, is_kept);
            }
        });
        Ok(lease.with_dropped(dropped))
    }
}

#[async_trait]
impl SessionStore for ThreadStore {
    async fn load(&self, id: &str) -> Result<Option<StoredSession>> {
        Ok(self.session(id))
    }

    async fn append(&self, lease: &Lease, records: Vec<Record>) -> Result<()> {
        self.write(lease, |threads| {
            if !records.is_empty() {
                threads.write(lease.session_id(), |entry| entry.append(records));
            }
        })
    }

    async fn save(&self, lease: &Lease, state: &AgentState) -> Result<()> {
        let state = state.stored();
        self.write(lease, |threads| {
            threads.write(lease.session_id(), |entry| entry.save(state));
        })
    }

    async fn list(&self) -> Result<Vec<SessionInfo>> {
        let threads = lock(&self.0);
        let mut entries: Vec<_> = threads.live().collect();
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.write_order));
        Ok(entries.into_iter().map(Entry::info).collect())
    }

    async fn create(&self, id: &str, mut session: StoredSession) -> Result<()> {
        check_id(id)?;
        session.damage.clear();
        let mut threads = self.begin(id);
        if threads.exists(id) {
            return Err(already_exists(id));
        }
        if threads.get(id).is_some_and(Entry::is_held) {
            return Err(Error::session_busy(id));
        }
        threads.write(id, |entry| entry.set(session));
        Ok(())
    }

    // Unlike `ThreadStore::delete`, refuses to delete a session that a run holds.
    async fn delete(&self, id: &str) -> Result<bool> {
        let mut threads = self.begin(id);
        match threads.get(id) {
            Some(entry) if entry.is_held() => Err(Error::session_busy(id)),
            _ => Ok(threads.delete(id)),
        }
    }

    async fn prune(&self, older_than: Duration) -> Result<usize> {
        let mut threads = lock(&self.0);
        // Checked and removed under one lock, so that there is no write in between. Expired
        // sessions are left to a sweep, which remembers them as dropped.
        Ok(threads.retain(|threads, entry| {
            !entry.exists
                || entry.is_held()
                || threads.is_expired(entry)
                || !entry.info().is_older_than(older_than)
        }))
    }

    async fn lease(&self, id: &str) -> Result<Lease> {
        self.lease_as(id, true)
    }

    async fn is_leased(&self, id: &str) -> Result<bool> {
        Ok(lock(&self.0).get(id).is_some_and(Entry::is_held))
    }

    async fn revision(&self, id: &str) -> Result<Option<u64>> {
        let threads = lock(&self.0);
        let entry = threads.get(id).filter(|entry| entry.exists);
        let live_entry = entry.filter(|entry| !threads.is_expired(entry));
        Ok(live_entry.map(|entry| entry.write_order))
    }
}

impl fmt::Debug for ThreadStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let threads = lock(&self.0);
        f.debug_struct("ThreadStore")
            .field("ttl", &threads.ttl)
            .field("len", &threads.len())
            .finish_non_exhaustive()
    }
}
