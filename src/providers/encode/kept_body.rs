//! The body that stays after its run, for the next run with the same history.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use crate::message::Message;
use crate::util::sync::lock;

use super::cache::Cache;
use super::wire::Wire;

/// The length from which a body is kept. A shorter one is written about as fast as it is found.
const MIN_BYTES: usize = 64 * 1024;

/// The maximum memory of a body that is kept, in bytes.
const MAX_BYTES: usize = 8 * 1024 * 1024;

/// The maximum memory of all bodies that are kept, in bytes.
const MAX_TOTAL_BYTES: usize = 32 * 1024 * 1024;

/// The time after which a body is not continued any more. It is dropped by the next request over
/// its connection.
const MAX_AGE: Duration = Duration::from_secs(5 * 60);

/// The bodies that the connections of this process keep, at most one each, the oldest first.
static BODIES: Mutex<Vec<Entry>> = Mutex::new(Vec::new());

struct Entry {
    /// The address of the owner.
    owner: usize,
    cache: Box<dyn Any + Send>,
    /// The memory of the body, in bytes.
    size: usize,
    since: Instant,
}

/// The last long body of the runs over a connection. Clones share it.
///
/// Within a run, the body of one request continues that of the request before. A run whose history
/// begins with the same messages as an earlier one, by pointer, continues the last body of that
/// run. The body is lent: only one run has it at a time, and others write their own.
#[derive(Clone, Default)]
pub(in crate::providers) struct KeptBody(Arc<Owner>);

/// The owner of an entry in [`BODIES`], which is dropped with it.
#[derive(Default)]
struct Owner;

impl Owner {
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Removes the entry of this owner, if `condition` holds for it.
    fn take_if(&self, condition: impl FnOnce(&Entry) -> bool) -> Option<Entry> {
        let mut bodies = lock(&BODIES);
        let index = self.index_in(&bodies)?;
        condition(&bodies[index]).then(|| bodies.remove(index))
    }

    fn index_in(&self, bodies: &[Entry]) -> Option<usize> {
        let address = self.address();
        bodies.iter().position(|entry| entry.owner == address)
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        drop(self.take_if(|_| true));
    }
}

impl KeptBody {
    /// Takes the body if it is one of this wire and begins with the first of `messages`. Otherwise
    /// returns an empty one. It is kept again when it is dropped.
    pub(super) fn lend<W: Wire>(&self, wire: &W, messages: &[Arc<Message>]) -> BorrowedCache<W> {
        let is_expired = |entry: &Entry| entry.since.elapsed() >= MAX_AGE;
        let is_continued = |entry: &Entry| {
            let cache = entry.cache.downcast_ref::<Cache<W>>();
            cache.is_some_and(|cache| cache.wire == *wire && cache.begins_like(messages))
        };
        let entry = self
            .0
            .take_if(|entry| is_expired(entry) || is_continued(entry));
        let entry = entry.filter(|entry| !is_expired(entry));
        let cache = entry.and_then(|entry| entry.cache.downcast().ok());
        BorrowedCache {
            cache: cache.unwrap_or_else(|| Box::new(Cache::new(wire.clone()))),
            owner: Some(self.clone()),
        }
    }

    fn put<W: Wire>(&self, cache: Box<Cache<W>>) {
        let entry = Entry {
            owner: self.0.address(),
            size: cache.body_capacity(),
            cache,
            since: Instant::now(),
        };
        let mut bodies = lock(&BODIES);
        let former = self.0.index_in(&bodies).map(|index| bodies.remove(index));
        let mut dropped_entries = Vec::from_iter(former);
        bodies.push(entry);
        let mut total: usize = bodies.iter().map(|entry| entry.size).sum();
        while total > MAX_TOTAL_BYTES {
            let oldest = bodies.remove(0);
            total -= oldest.size;
            dropped_entries.push(oldest);
        }
        // The entries are dropped without the lock.
        drop(bodies);
    }
}

impl fmt::Debug for KeptBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptBody").finish_non_exhaustive()
    }
}

/// A body that a run continues. When the run drops it, it is kept if it is long enough.
pub(super) struct BorrowedCache<W: Wire> {
    pub(super) cache: Box<Cache<W>>,
    /// The connection that keeps it; `None` for a copy.
    owner: Option<KeptBody>,
}

impl<W: Wire> BorrowedCache<W> {
    /// Returns a copy that leaves this one as it is, and is not kept.
    pub(super) fn detached(&self) -> Self {
        Self {
            cache: self.cache.detached(),
            owner: None,
        }
    }
}

impl<W: Wire> Drop for BorrowedCache<W> {
    fn drop(&mut self) {
        let Some(owner) = self.owner.take() else {
            return;
        };
        let is_long = self.cache.body_len() >= MIN_BYTES;
        if is_long && self.cache.body_capacity() <= MAX_BYTES && self.cache.is_for_every_run() {
            let empty = Box::new(Cache::new(self.cache.wire.clone()));
            let cache = std::mem::replace(&mut self.cache, empty);
            // The last request of this run must not omit the reasoning of the next run.
            owner.put(cache.with_own_reasoning_start());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_have_their_own_entries_which_are_dropped_with_them() {
        let entry = |owner: &KeptBody| Entry {
            owner: owner.0.address(),
            cache: Box::new(()),
            size: 1,
            since: Instant::now(),
        };
        let [first, second] = [KeptBody::default(), KeptBody::default()];
        lock(&BODIES).extend([entry(&first), entry(&second)]);
        assert!(first.0.take_if(|_| false).is_none());
        assert!(first.0.take_if(|_| true).is_some());
        assert!(first.0.take_if(|_| true).is_none());
        let address = second.0.address();
        drop(second.clone());
        let has_entry = || lock(&BODIES).iter().any(|entry| entry.owner == address);
        assert!(has_entry());
        drop(second);
        assert!(!has_entry());
    }
}
