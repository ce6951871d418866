//! The sessions of a store in memory: the order of their use, and the choice of the next one to
//! drop.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use super::dropped::DroppedSessions;
use crate::session::agent_state::{AgentState, PendingCall};
use crate::session::info::SessionInfo;
use crate::session::record::Record;
use crate::session::size::SessionSize;
use crate::session::stored::StoredSession;

/// The interval after which the next access removes all expired sessions.
const SWEEP_INTERVAL: Duration = Duration::from_secs(5 * 60);

/// The interval of the reports about sessions that were dropped to stay within the limits.
const WARN_INTERVAL: Duration = Duration::from_secs(60);

/// The multiple of the limits up to which sessions with pending calls are kept.
const MAX_EXCESS: usize = 2;

/// The limits of a store.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) sessions: usize,
    pub(super) bytes: u64,
}

/// The sessions of one store.
pub(super) struct Threads {
    pub(super) ttl: Duration,
    pub(super) bounds: Bounds,
    /// Boxed, because a node of a map has room for more entries than are in it.
    entries: BTreeMap<Arc<str>, Box<Entry>>,
    /// The sessions that may be dropped to stay within the limits, by their last use.
    idle: BTreeMap<u64, Arc<str>>,
    /// The sessions with pending calls that no run holds, by their last use.
    waiting: BTreeMap<u64, Arc<str>>,
    /// The number of entries that exist for readers.
    count: usize,
    /// The size of all entries.
    bytes: u64,
    swept_at: Instant,
    /// The place of the newest use in the order of all uses: the highest `use_order`.
    newest_order: u64,
    /// The newest token of all sessions, so that a session that is created again after its removal
    /// never reuses a token.
    token: u64,
    warned_at: Option<Instant>,
    /// The number of sessions dropped to stay within the limits since the last report.
    unreported: usize,
    pub(super) dropped: DroppedSessions,
}

pub(super) struct Entry {
    pub(super) session: StoredSession,
    last_access: Instant,
    /// The place of the last use in the order of all uses.
    use_order: u64,
    /// The place of the last write in the same order, for lists.
    pub(super) write_order: u64,
    created_at: SystemTime,
    updated_at: SystemTime,
    /// The token of the newest lease.
    token: u64,
    lease: LeaseState,
    /// True once the session was written. Until then, a leased session does not exist for readers.
    pub(super) exists: bool,
    size: SessionSize,
}

/// The state of a session's newest lease.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LeaseState {
    /// No run holds the session.
    Released,
    Held,
    /// A run holds the session, which was deleted since: later writes of the run are refused.
    HeldAfterDeletion,
}

impl Threads {
    pub(super) fn new(ttl: Duration) -> Self {
        Self {
            ttl,
            bounds: Bounds {
                sessions: usize::MAX,
                bytes: u64::MAX,
            },
            entries: BTreeMap::new(),
            idle: BTreeMap::new(),
            waiting: BTreeMap::new(),
            count: 0,
            bytes: 0,
            swept_at: Instant::now(),
            newest_order: 0,
            token: 0,
            warned_at: None,
            unreported: 0,
            dropped: DroppedSessions::default(),
        }
    }

    /// Returns the number of sessions that exist.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Returns the size of the sessions.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the sessions that exist and have not expired.
    pub(super) fn live(&self) -> impl Iterator<Item = &Entry> {
        let entries = self.entries.values().map(|entry| &**entry);
        entries.filter(move |entry| entry.exists && !self.is_expired(entry))
    }

    pub(super) fn get(&self, id: &str) -> Option<&Entry> {
        self.entries.get(id).map(|entry| &**entry)
    }

    pub(super) fn exists(&self, id: &str) -> bool {
        self.get(id).is_some_and(|entry| entry.exists)
    }

    /// Prepares for an access to `id`: removes that session if it has expired, and all expired
    /// sessions if a sweep is due.
    pub(super) fn begin(&mut self, id: &str) {
        self.sweep_if_due();
        if self.get(id).is_some_and(|entry| self.is_expired(entry)) {
            self.drop_session(id);
        }
    }

    /// Calls `f` on the entry of `id`, which counts as a use of the entry. Creates the entry if it
    /// does not exist. Then drops other entries if the store is over a limit.
    pub(super) fn with<R>(&mut self, id: &str, f: impl FnOnce(&mut Entry) -> R) -> R {
        self.newest_order += 1;
        let entry = match self.entries.get_mut(id) {
            Some(entry) => entry,
            None => {
                let id: Arc<str> = id.into();
                let entry = Box::new(Entry::new(id.clone()));
                self.bytes = self.bytes.saturating_add(entry.bytes());
                self.entries.entry(id).or_insert(entry)
            }
        };

        let (existed, bytes) = (entry.exists, entry.bytes());
        self.idle.remove(&entry.use_order);
        self.waiting.remove(&entry.use_order);
        entry.use_order = self.newest_order;
        entry.last_access = Instant::now();
        let result = f(entry);
        self.bytes = (self.bytes - bytes).saturating_add(entry.bytes());
        self.count = self.count + usize::from(entry.exists) - usize::from(existed);
        if entry.exists && !entry.is_held() {
            let id = entry.session.state.thread_id.clone();
            let list = if entry.has_pending_calls() {
                &mut self.waiting
            } else {
                &mut self.idle
            };
            list.insert(self.newest_order, id);
        }

        self.make_room();
        result
    }

    /// Writes the entry of `id`, which exists from now on.
    pub(super) fn write(&mut self, id: &str, f: impl FnOnce(&mut Entry)) {
        if !self.exists(id) {
            self.dropped.remove(id);
        }
        self.with(id, |entry| {
            entry.write_order = entry.use_order;
            entry.updated_at = SystemTime::now();
            if !std::mem::replace(&mut entry.exists, true) {
                entry.created_at = entry.updated_at;
            }
            f(entry);
        });
    }

    /// Leases the session for a run. Returns its id and the token of the lease, or `None` while
    /// another run holds it.
    pub(super) fn lease(&mut self, id: &str) -> Option<(Arc<str>, u64)> {
        if self.get(id).is_some_and(Entry::is_held) {
            return None;
        }
        self.token += 1;
        let token = self.token;
        Some(self.with(id, |entry| {
            (entry.lease, entry.token) = (LeaseState::Held, token);
            (entry.session.state.thread_id.clone(), token)
        }))
    }

    /// Releases the session. If it is not kept, it is removed, unless calls of it wait for
    /// approval.
    pub(super) fn release(&mut self, id: &str, token: u64, is_kept: bool) {
        if self.get(id).is_none() {
            return;
        }

        let is_discarded = self.with(id, |entry| {
            let is_newest = entry.token == token;
            if is_newest {
                entry.lease = LeaseState::Released;
            }

            let is_unkept = is_newest && !is_kept && !entry.has_pending_calls();
            !entry.is_held() && (!entry.exists || is_unkept)
        });

        if is_discarded {
            self.remove(id);
        }

        self.sweep_if_due();
    }

    /// Removes the session. Returns `false` if it did not exist.
    pub(super) fn remove(&mut self, id: &str) -> bool {
        let Some(entry) = self.entries.remove(id) else {
            return false;
        };
        self.idle.remove(&entry.use_order);
        self.waiting.remove(&entry.use_order);
        self.bytes -= entry.bytes();
        self.count -= usize::from(entry.exists);
        entry.exists
    }

    /// Removes the session that the caller has deleted, also if it was dropped before. Returns
    /// `false` if it did not exist.
    pub(super) fn delete(&mut self, id: &str) -> bool {
        self.dropped.remove(id);
        self.remove(id)
    }

    /// Removes a session that the caller has not deleted, and remembers it among the dropped ones.
    fn drop_session(&mut self, id: &str) {
        if let Some(entry) = self.entries.get(id).filter(|entry| entry.exists) {
            self.dropped.add(&entry.session.state);
        }
        self.remove(id);
    }

    /// Keeps the sessions for which `is_kept` returns `true`. Returns the number of the others,
    /// which are removed.
    pub(super) fn retain(&mut self, is_kept: impl Fn(&Self, &Entry) -> bool) -> usize {
        let removed_ids = self.ids_where(|threads, entry| !is_kept(threads, entry));
        for id in &removed_ids {
            self.remove(id);
        }
        removed_ids.len()
    }

    fn ids_where(&self, is_selected: impl Fn(&Self, &Entry) -> bool) -> Vec<Arc<str>> {
        let entries = self.entries.iter();
        let entries = entries.filter(|(_, entry)| is_selected(self, entry));
        entries.map(|(id, _)| id.clone()).collect()
    }

    /// Removes the expired sessions and returns their number.
    pub(super) fn sweep(&mut self) -> usize {
        self.swept_at = Instant::now();
        let expired_ids = self.ids_where(Self::is_expired);
        for id in &expired_ids {
            self.drop_session(id);
        }
        expired_ids.len()
    }

    /// Returns `true` if the time to live of an entry is over. It is not over before the latest
    /// expiry of its pending calls, unless the store is over a limit: calls that wait must not fill
    /// the memory for as long as they wait. Calls without an expiry, which may wait without end, do
    /// not extend it.
    pub(super) fn is_expired(&self, entry: &Entry) -> bool {
        let is_unused = !entry.is_held() && entry.last_access.elapsed() >= self.ttl;
        is_unused && (self.is_over_limit() || !entry.has_unexpired_call())
    }

    fn is_over_limit(&self) -> bool {
        self.is_over(1)
    }

    /// Returns `true` if the store is over a limit, each multiplied by `factor`.
    fn is_over(&self, factor: usize) -> bool {
        let Bounds { sessions, bytes } = self.bounds;
        self.count > sessions.saturating_mul(factor)
            || self.bytes > bytes.saturating_mul(factor as u64)
    }

    fn sweep_if_due(&mut self) {
        if self.swept_at.elapsed() >= SWEEP_INTERVAL {
            self.sweep();
        }
    }

    /// Drops the least recently used sessions until there is room. Keeps the session that was used
    /// last, and sessions in use. Drops sessions with pending calls only while the store is over
    /// twice a limit.
    pub(super) fn make_room(&mut self) {
        let mut dropped_count = 0;
        while self.is_over_limit() {
            let is_older = |(order, _): &(&u64, &Arc<str>)| **order < self.newest_order;
            let idle_entry = self.idle.first_key_value().filter(is_older);
            let waiting_entry = self.waiting.first_key_value().filter(is_older);
            let waiting_entry = waiting_entry.filter(|_| self.is_over(MAX_EXCESS));
            let Some((_, id)) = idle_entry.or(waiting_entry) else {
                break;
            };

            let id = id.clone();
            self.drop_session(&id);
            dropped_count += 1;
        }

        if dropped_count > 0 {
            self.report(dropped_count);
        }
    }

    fn report(&mut self, dropped: usize) {
        self.unreported += dropped;
        let is_early = |at: Instant| at.elapsed() < WARN_INTERVAL;
        if self.warned_at.is_some_and(is_early) {
            return;
        }

        self.warned_at = Some(Instant::now());
        let Bounds { sessions, bytes } = self.bounds;
        tracing::warn!(
            dropped = std::mem::take(&mut self.unreported),
            "the memory for sessions is full ({sessions} sessions or {bytes} bytes); those used \
             longest ago were dropped; set a store with `store(..)` to keep all",
        );
    }
}

impl Entry {
    fn new(id: Arc<str>) -> Self {
        Self {
            session: StoredSession::new(AgentState::new(id)),
            last_access: Instant::now(),
            use_order: 0,
            write_order: 0,
            created_at: SystemTime::now(),
            updated_at: SystemTime::now(),
            token: 0,
            lease: LeaseState::Released,
            exists: false,
            size: SessionSize::default(),
        }
    }

    /// Returns `true` while a run holds the session.
    pub(super) fn is_held(&self) -> bool {
        self.lease != LeaseState::Released
    }

    /// Returns `true` if the lease with this token may write the session.
    pub(super) fn may_be_written_with(&self, token: u64) -> bool {
        self.token == token && self.lease != LeaseState::HeldAfterDeletion
    }

    /// Returns the memory of the entry in bytes.
    fn bytes(&self) -> u64 {
        size_of::<Self>().saturating_add(self.size.total()) as u64
    }

    /// Returns the calls that wait for approval in this session. A call that was copied into a fork
    /// waits only in the original session.
    fn pending_calls(&self) -> impl Iterator<Item = &PendingCall> {
        let state = &self.session.state;
        let pending = state.pending.iter();
        pending.filter(move |call| call.session_id == state.thread_id)
    }

    /// Returns `true` if calls of this session wait for approval.
    fn has_pending_calls(&self) -> bool {
        self.pending_calls().next().is_some()
    }

    /// Returns `true` if a call waits for approval until a time that has not come yet. A call
    /// without an expiry does not count.
    fn has_unexpired_call(&self) -> bool {
        let expiries = self.pending_calls().filter_map(|call| call.expires_at_ms);
        let latest = expiries.max().map(Duration::from_millis);
        latest.is_some_and(|expiry| {
            let expiry = UNIX_EPOCH.checked_add(expiry);
            expiry.is_none_or(|expiry| expiry >= SystemTime::now())
        })
    }

    /// Replaces the state, but for its id. No call is open after that.
    pub(super) fn save(&mut self, state: AgentState) {
        // The title comes from the first input, which is read only if the title is not known.
        if self.session.first_text.is_none() || state.messages.is_empty() {
            return self.set(StoredSession::new(state));
        }
        let mut session = StoredSession::default();
        session.state = state;
        self.set(session);
    }

    /// Replaces the session, but for its id.
    pub(super) fn set(&mut self, mut session: StoredSession) {
        session.state.thread_id = self.session.state.thread_id.clone();
        let size = std::mem::take(&mut self.size);
        self.size = size.of_next(&self.session.state.messages, &session);

        // A title stays when the history is cut, unless its first input was removed.
        let is_empty = session.state.messages.is_empty();
        let first_text = self.session.first_text.take().filter(|_| !is_empty);
        session.first_text = first_text.or(session.first_text);
        self.session = session;
    }

    pub(super) fn append(&mut self, records: Vec<Record>) {
        for record in records {
            self.size.apply(&mut self.session, record);
        }
    }

    /// Deletes the data of a session that a run holds. The entry stays until the lease is released.
    /// Returns `false` if there was no data.
    pub(super) fn empty(&mut self) -> bool {
        let id = self.session.state.thread_id.clone();
        self.session = StoredSession::new(AgentState::new(id));
        self.size = SessionSize::default();
        self.lease = LeaseState::HeldAfterDeletion;
        std::mem::take(&mut self.exists)
    }

    pub(super) fn info(&self) -> SessionInfo {
        let mut info = SessionInfo::of(&self.session);
        info.created_at = Some(self.created_at);
        info.updated_at = Some(self.updated_at);
        info
    }
}
