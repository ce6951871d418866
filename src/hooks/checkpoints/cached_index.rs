//! The indexes of sessions, of which a limited number stays in memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::error::Result;
use crate::util::sync::lock;

use super::file_checkpoints::Inner;
use super::index::SessionIndex;

/// The maximum number of cached indexes. Beyond it, unused indexes are dropped.
const MAX_INDEXES: usize = 256;
/// The size of all cached indexes together, in bytes, beyond which unused indexes are dropped. It
/// is more than the largest index takes, so that one session does not displace all others.
pub(super) const MAX_INDEX_BYTES: usize = 96 * 1024 * 1024;

/// The index of a session, for one caller at a time; `None` until it is read.
pub(super) type SharedIndex = Arc<Mutex<Option<SessionIndex>>>;

/// An index that is held in memory.
#[derive(Default)]
pub(super) struct CachedIndex {
    pub(super) index: SharedIndex,
    /// The memory that it took when it was last used, in bytes.
    bytes: usize,
    last_use: Option<Instant>,
}

impl Inner {
    /// Returns this process's index of a session, which may not have been read yet.
    pub(super) fn index(&self, session: &Arc<str>) -> SharedIndex {
        let mut indexes = lock(&self.indexes);
        if indexes.len() >= MAX_INDEXES && !indexes.contains_key(session) {
            remove_oldest(&mut indexes, MAX_INDEXES - 1);
        }
        indexes.entry(session.clone()).or_default().index.clone()
    }

    /// Records the use of an index and its size in memory, and drops indexes that are not in use
    /// while all together are too large.
    fn record_size(&self, session: &Arc<str>, bytes: usize) {
        let mut indexes = lock(&self.indexes);
        if let Some(cached) = indexes.get_mut(session) {
            cached.bytes = bytes;
            cached.last_use = Some(Instant::now());
        }
        remove_oldest(&mut indexes, MAX_INDEXES);
    }

    /// Runs `work` on this process's index of a session, which may be behind the stored records.
    pub(super) fn with_cached_index<T>(
        &self,
        session: &Arc<str>,
        work: impl FnOnce(&Self, &mut SessionIndex) -> Result<T>,
    ) -> Result<T> {
        let shared = self.index(session);
        let mut slot = lock(&shared);
        let index = match &mut *slot {
            Some(index) => index,
            slot => slot.insert(self.storage.build_index(session, self.root.clone())?),
        };
        let result = work(self, index);
        self.record_size(session, index.memory());
        result
    }
}

/// Removes indexes that are not in use, the one that was used longest ago first, until at most
/// `max_count` remain, with at most [`MAX_INDEX_BYTES`] in all. They are read again when they are
/// needed.
fn remove_oldest(indexes: &mut HashMap<Arc<str>, CachedIndex>, max_count: usize) {
    let mut bytes = indexes.values().map(|cached| cached.bytes).sum::<usize>();
    while indexes.len() > max_count || bytes > MAX_INDEX_BYTES {
        let unused = indexes
            .iter()
            .filter(|(_, cached)| Arc::strong_count(&cached.index) == 1);
        let oldest = unused.min_by_key(|(_, cached)| cached.last_use);
        let Some(session) = oldest.map(|(session, _)| session.clone()) else {
            return;
        };
        let removed = indexes.remove(&session);
        bytes -= removed.map_or(0, |cached| cached.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::super::file_checkpoints::FileCheckpoints;
    use super::*;
    use crate::backend::MemoryBackend;

    #[tokio::test]
    async fn records_of_many_sessions_take_bounded_memory() {
        let files = FileCheckpoints::new(MemoryBackend::new());
        for n in 0..1_000 {
            files.checkpoints(&n.to_string()).await.unwrap();
            assert!(lock(&files.inner.indexes).len() <= MAX_INDEXES);
        }
    }

    #[tokio::test]
    async fn indexes_over_the_bytes_are_given_up_unless_they_are_in_use() {
        let files = FileCheckpoints::new(MemoryBackend::new());
        let inner = &files.inner;
        let [used, unused] = ["used", "unused"].map(Arc::<str>::from);
        let shared = inner.index(&used);
        inner.record_size(&used, MAX_INDEX_BYTES / 2);
        drop(inner.index(&unused));
        inner.record_size(&unused, MAX_INDEX_BYTES / 2);
        assert_eq!(lock(&inner.indexes).len(), 2);
        inner.record_size(&used, MAX_INDEX_BYTES / 2 + 1);
        assert_eq!(lock(&inner.indexes).keys().collect::<Vec<_>>(), [&used]);
        drop(shared);
        inner.record_size(&used, MAX_INDEX_BYTES + 1);
        assert!(lock(&inner.indexes).is_empty());
    }

    #[tokio::test]
    async fn index_that_was_used_longest_ago_is_given_up_first() {
        let files = FileCheckpoints::new(MemoryBackend::new());
        let inner = &files.inner;
        let names = ["a", "b", "c"].map(Arc::<str>::from);
        for name in &names {
            drop(inner.index(name));
            inner.record_size(name, MAX_INDEX_BYTES / 3);
        }
        inner.record_size(&names[0], MAX_INDEX_BYTES / 3);
        inner.record_size(&names[2], MAX_INDEX_BYTES / 2);
        let indexes = lock(&inner.indexes);
        assert_eq!(indexes.len(), 2);
        assert!(!indexes.contains_key(&names[1]));
        drop(indexes);

        for number in 0..MAX_INDEXES {
            drop(inner.index(&number.to_string().into()));
        }
        assert_eq!(lock(&inner.indexes).len(), MAX_INDEXES);
    }
}
