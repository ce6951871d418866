//! Sessions in memory.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use tokio::time::Instant;

use crate::error::Result;
use crate::message::Message;
use crate::util::sync::lock;

use super::agent_state::AgentState;
use super::info::SessionInfo;
use super::lease::Lease;
use super::snapshot::title_of;
use super::store::{Record, SessionStore, StoredSession, busy, check_id, exists, taken_over};

const DEFAULT_TTL: Duration = Duration::from_secs(60 * 60);
const SWEEP_INTERVAL: Duration = Duration::from_secs(5 * 60);

/// Sessions in memory, forgotten when nobody has touched them for the time to live (an hour
/// unless told otherwise).
///
/// Expired sessions are swept on access, at most every five minutes, and by
/// [`sweep`](ThreadStore::sweep); a session that a run holds is never swept. There is no global
/// store: clones share one.
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
pub struct ThreadStore(Arc<Inner>);

struct Inner {
    ttl: Duration,
    threads: Mutex<Threads>,
}

struct Threads {
    /// Boxed, for a map has room for more than it holds.
    entries: HashMap<Arc<str>, Box<Entry>>,
    swept_at: Instant,
    clock: u64,
    /// The newest token, of any session: one that is begun anew after it was removed has others.
    token: u64,
}

struct Entry {
    session: StoredSession,
    /// What the user said first; a title stays when the history is cut.
    said_first: Option<Arc<str>>,
    last_access: Instant,
    /// Order of writes, for lists.
    written: u64,
    created_at: SystemTime,
    updated_at: SystemTime,
    /// The newest lease; `held` says whether a run still has it.
    token: u64,
    held: bool,
    /// Whether it was deleted while it was held: what its run writes from then on is refused.
    deleted: bool,
    /// A leased session that has nothing in it yet does not exist for readers.
    exists: bool,
}

impl Default for ThreadStore {
    fn default() -> Self {
        Self::new()
    }
}

impl ThreadStore {
    /// A store that keeps sessions for an hour after their last access.
    pub fn new() -> Self {
        Self::with_ttl(DEFAULT_TTL)
    }

    /// A store with another time to live.
    pub fn with_ttl(ttl: Duration) -> Self {
        Self(Arc::new(Inner {
            ttl,
            threads: Mutex::new(Threads {
                entries: HashMap::new(),
                swept_at: Instant::now(),
                clock: 0,
                token: 0,
            }),
        }))
    }

    /// The session's state; a new empty one is made when there is none.
    pub fn load_or_create(&self, id: &str) -> AgentState {
        self.with(id, |threads| {
            let exists = threads.entries.get(id).is_some_and(|entry| entry.exists);
            let entry = match exists {
                true => threads.entry(id),
                false => threads.written(id),
            };
            entry.session.state.clone()
        })
    }

    /// The session's state, or `None` when there is none (any more).
    pub fn get(&self, id: &str) -> Option<AgentState> {
        self.session(id).map(|session| session.state)
    }

    /// Stores a state and refreshes its time to live.
    pub fn save(&self, id: &str, state: AgentState) {
        self.with(id, |threads| {
            threads.written(id).set(StoredSession::new(state));
        });
    }

    /// Removes the session, also while a run holds it; false when there was none.
    pub fn delete(&self, id: &str) -> bool {
        self.with(id, |threads| match threads.entries.get_mut(id) {
            Some(entry) if entry.held => {
                // The lease outlives the data: it is given back to the entry it was taken of.
                entry.session = StoredSession::new(AgentState::new(id));
                entry.said_first = None;
                entry.deleted = true;
                std::mem::take(&mut entry.exists)
            }
            Some(_) => threads.entries.remove(id).is_some_and(|entry| entry.exists),
            None => false,
        })
    }

    /// Removes every expired session now and returns how many there were.
    pub fn sweep(&self) -> usize {
        lock(&self.0.threads).sweep(self.0.ttl)
    }

    /// How many sessions there are, expired ones that nobody swept yet included.
    pub fn len(&self) -> usize {
        let threads = lock(&self.0.threads);
        threads
            .entries
            .values()
            .filter(|entry| entry.exists)
            .count()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn session(&self, id: &str) -> Option<StoredSession> {
        self.with(id, |threads| {
            let entry = threads.entries.get_mut(id).filter(|entry| entry.exists)?;
            entry.last_access = Instant::now();
            Some(entry.session.clone())
        })
    }

    fn with<R>(&self, id: &str, f: impl FnOnce(&mut Threads) -> R) -> R {
        let mut threads = lock(&self.0.threads);
        if threads.swept_at.elapsed() >= SWEEP_INTERVAL {
            threads.sweep(self.0.ttl);
        }
        threads.expire(id, self.0.ttl);
        f(&mut threads)
    }

    fn write(&self, lease: &Lease, f: impl FnOnce(&mut Threads)) -> Result<()> {
        let id = lease.session_id();
        self.with(id, |threads| {
            let is_owned = threads
                .entries
                .get(id)
                .is_some_and(|entry| entry.token == lease.token() && !entry.deleted);
            if !is_owned {
                return Err(taken_over(id));
            }
            f(threads);
            Ok(())
        })
    }

    fn release(&self, id: &str, token: u64) {
        let mut threads = lock(&self.0.threads);
        let Some(entry) = threads.entries.get_mut(id) else {
            return;
        };
        if entry.token == token {
            entry.held = false;
            entry.deleted = false;
            entry.last_access = Instant::now();
        }
        if !entry.exists && !entry.held {
            threads.entries.remove(id);
        }
    }
}

impl Threads {
    /// The entry of `id`, made if need be; its access is now.
    fn entry(&mut self, id: &str) -> &mut Entry {
        let id = match self.entries.get_key_value(id) {
            Some((known, _)) => known.clone(),
            None => id.into(),
        };
        let entry = self.entries.entry(id.clone());
        let entry = entry.or_insert_with(|| Box::new(Entry::new(id)));
        entry.last_access = Instant::now();
        entry
    }

    /// The entry of `id`, which exists from now on and is being written.
    fn written(&mut self, id: &str) -> &mut Entry {
        self.clock += 1;
        let clock = self.clock;
        let entry = self.entry(id);
        entry.written = clock;
        entry.updated_at = SystemTime::now();
        if !std::mem::replace(&mut entry.exists, true) {
            entry.created_at = entry.updated_at;
        }
        entry
    }

    fn expire(&mut self, id: &str, ttl: Duration) {
        if self
            .entries
            .get(id)
            .is_some_and(|entry| entry.is_expired(ttl))
        {
            self.entries.remove(id);
        }
    }

    fn sweep(&mut self, ttl: Duration) -> usize {
        let before = self.entries.len();
        self.entries.retain(|_, entry| !entry.is_expired(ttl));
        self.swept_at = Instant::now();
        before - self.entries.len()
    }
}

impl Entry {
    fn new(id: Arc<str>) -> Self {
        Self {
            session: StoredSession::new(AgentState::new(id)),
            said_first: None,
            last_access: Instant::now(),
            written: 0,
            created_at: SystemTime::now(),
            updated_at: SystemTime::now(),
            token: 0,
            held: false,
            deleted: false,
            exists: false,
        }
    }

    fn is_expired(&self, ttl: Duration) -> bool {
        !self.held && self.last_access.elapsed() >= ttl
    }

    /// Replaces the session, but for its id.
    fn set(&mut self, mut session: StoredSession) {
        session.state.thread_id = self.session.state.thread_id.clone();
        self.session = session;
        self.note_first();
    }

    fn note_first(&mut self) {
        if self.said_first.is_none() {
            let mut said = self.session.state.messages.user_messages();
            self.said_first = said.find_map(title_of);
        }
    }

    fn info(&self) -> SessionInfo {
        let mut info = SessionInfo::of(&self.session);
        if self.session.state.title.is_none() {
            info.title = self.said_first.clone();
        }
        info.created_at = Some(self.created_at);
        info.updated_at = Some(self.updated_at);
        info
    }
}

#[async_trait]
impl SessionStore for ThreadStore {
    async fn load(&self, id: &str) -> Result<Option<StoredSession>> {
        Ok(self.session(id))
    }

    async fn append(&self, lease: &Lease, records: Vec<Record>) -> Result<()> {
        self.write(lease, |threads| {
            if records.is_empty() {
                return;
            }
            let entry = threads.written(lease.session_id());
            for record in records {
                if let Record::Message { message, .. } = &record
                    && let Message::User(_) = **message
                    && entry.said_first.is_none()
                {
                    entry.said_first = title_of(message);
                }
                entry.session.apply(record);
            }
        })
    }

    async fn save(&self, lease: &Lease, state: &AgentState) -> Result<()> {
        let state = state.stored();
        self.write(lease, |threads| {
            let entry = threads.written(lease.session_id());
            entry.set(StoredSession::new(state));
        })
    }

    async fn list(&self) -> Result<Vec<SessionInfo>> {
        let ttl = self.0.ttl;
        let threads = lock(&self.0.threads);
        let mut live: Vec<_> = threads
            .entries
            .iter()
            .filter(|(_, entry)| entry.exists && !entry.is_expired(ttl))
            .collect();
        live.sort_by_key(|(_, entry)| std::cmp::Reverse(entry.written));
        Ok(live.into_iter().map(|(_, entry)| entry.info()).collect())
    }

    async fn create(&self, id: &str, mut session: StoredSession) -> Result<()> {
        check_id(id)?;
        session.damage.clear();
        self.with(id, |threads| {
            let entry = threads.entries.get(id);
            if entry.is_some_and(|entry| entry.exists) {
                return Err(exists(id));
            }
            if entry.is_some_and(|entry| entry.held) {
                return Err(busy(id));
            }
            threads.written(id).set(session);
            Ok(())
        })
    }

    /// Unlike [`ThreadStore::delete`], not while a run holds it.
    async fn delete(&self, id: &str) -> Result<bool> {
        self.with(id, |threads| match threads.entries.get(id) {
            Some(entry) if entry.held => Err(busy(id)),
            _ => Ok(threads.entries.remove(id).is_some_and(|entry| entry.exists)),
        })
    }

    async fn prune(&self, older_than: Duration) -> Result<usize> {
        let ttl = self.0.ttl;
        let mut threads = lock(&self.0.threads);
        let before = threads.entries.len();
        // Looked at and removed in one go: nobody writes in between.
        threads.entries.retain(|_, entry| {
            !entry.exists
                || entry.held
                || entry.is_expired(ttl)
                || !entry.info().is_older_than(older_than)
        });
        Ok(before - threads.entries.len())
    }

    async fn lease(&self, id: &str) -> Result<Lease> {
        check_id(id)?;
        let leased = self.with(id, |threads| {
            let token = threads.token + 1;
            let entry = threads.entry(id);
            if entry.held {
                return None;
            }
            (entry.held, entry.token) = (true, token);
            let key = entry.session.state.thread_id.clone();
            threads.token = token;
            Some((key, token))
        });
        let (key, token) = leased.ok_or_else(|| busy(id))?;
        let store = Arc::downgrade(&self.0);
        Ok(Lease::new(key.clone(), token, move || {
            if let Some(inner) = store.upgrade() {
                ThreadStore(inner).release(&key, token);
            }
        }))
    }
}

impl fmt::Debug for ThreadStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadStore")
            .field("ttl", &self.0.ttl)
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
