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

/// The maximum length of a body that is kept.
const MAX_BYTES: usize = 8 * 1024 * 1024;

/// The time after which a body is not continued any more. It is dropped by the next request for it.
const MAX_AGE: Duration = Duration::from_secs(5 * 60);

/// The last long body of the runs over a connection. Clones share it.
///
/// Within a run, the body of one request continues that of the request before. A run whose history
/// begins with the same messages as an earlier one, by pointer, continues the last body of that
/// run. The body is lent: only one run has it at a time, and others write their own.
#[derive(Clone, Default)]
pub(in crate::providers) struct KeptBody(Arc<Mutex<Option<Kept>>>);

struct Kept {
    cache: Box<dyn Any + Send>,
    since: Instant,
}

impl KeptBody {
    /// Takes the body if it is one of this wire and begins with the first of `messages`. Otherwise
    /// returns an empty one. It is kept again when it is dropped.
    pub(super) fn lend<W: Wire>(&self, wire: &W, messages: &[Arc<Message>]) -> Lent<W> {
        let mut slot = lock(&self.0);
        slot.take_if(|kept| kept.since.elapsed() >= MAX_AGE);
        let is_continued = slot.as_ref().is_some_and(|kept| {
            let cache = kept.cache.downcast_ref::<Cache<W>>();
            cache.is_some_and(|cache| cache.wire == *wire && cache.begins_like(messages))
        });
        let kept = slot.take_if(|_| is_continued);
        drop(slot);
        let cache = kept.and_then(|kept| kept.cache.downcast().ok());
        Lent {
            cache: cache.unwrap_or_else(|| Box::new(Cache::new(wire.clone()))),
            home: self.clone(),
        }
    }

    fn put<W: Wire>(&self, cache: Box<Cache<W>>) {
        let kept = Kept {
            cache,
            since: Instant::now(),
        };
        // The former body is dropped without the lock.
        let former = lock(&self.0).replace(kept);
        drop(former);
    }
}

impl fmt::Debug for KeptBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptBody").finish_non_exhaustive()
    }
}

/// A body that a run continues. When the run drops it, it is kept if it is long enough.
pub(super) struct Lent<W: Wire> {
    pub(super) cache: Box<Cache<W>>,
    home: KeptBody,
}

impl<W: Wire> Lent<W> {
    /// Returns a copy that leaves this one as it is, and is not kept.
    pub(super) fn detached(&self) -> Self {
        Self {
            cache: Box::new(self.cache.detached()),
            home: KeptBody::default(),
        }
    }
}

impl<W: Wire> Drop for Lent<W> {
    fn drop(&mut self) {
        let len = self.cache.body_len();
        if (MIN_BYTES..=MAX_BYTES).contains(&len) && self.cache.is_for_every_run() {
            let empty = Box::new(Cache::new(self.cache.wire.clone()));
            self.home.put(std::mem::replace(&mut self.cache, empty));
        }
    }
}
