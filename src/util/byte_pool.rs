//! Memory that is shared.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A number of bytes that several holders may use together. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct BytePool(Arc<Pool>);

#[derive(Debug)]
struct Pool {
    used: AtomicUsize,
    max_bytes: usize,
}

/// A part of a pool that is in use, which is returned when it is dropped.
#[derive(Debug)]
pub(crate) struct PoolShare {
    pool: BytePool,
    bytes: usize,
}

impl BytePool {
    pub(crate) fn new(max_bytes: usize) -> Self {
        let used = AtomicUsize::new(0);
        Self(Arc::new(Pool { used, max_bytes }))
    }

    /// Returns an empty share.
    pub(crate) fn share(&self) -> PoolShare {
        let pool = self.clone();
        PoolShare { pool, bytes: 0 }
    }

    /// Returns the size of the pool in bytes.
    pub(crate) fn max_bytes(&self) -> usize {
        self.0.max_bytes
    }

    /// Returns the number of bytes in use.
    pub(crate) fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }

    /// The bytes that are left.
    pub(crate) fn room(&self) -> usize {
        self.max_bytes().saturating_sub(self.used())
    }
}

impl PoolShare {
    pub(crate) fn pool(&self) -> &BytePool {
        &self.pool
    }

    /// Sets the size of the share, which may exceed the pool.
    pub(crate) fn set(&mut self, bytes: usize) {
        let used = &self.pool.0.used;

        // The sum of all shares wraps around together, so that each one returned leaves the others.
        used.fetch_add(bytes.wrapping_sub(self.bytes), Ordering::Relaxed);
        self.bytes = bytes;
    }
}

impl Drop for PoolShare {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_counted_together_until_they_are_dropped() {
        let pool = BytePool::new(100);
        let (mut first, mut second) = (pool.share(), pool.clone().share());
        first.set(60);
        second.set(30);
        assert_eq!((pool.used(), pool.room()), (90, 10));
        first.set(200);
        assert_eq!((pool.used(), pool.room()), (230, 0));
        first.set(10);
        assert_eq!(pool.room(), 60);
        drop(first);
        drop(second);
        assert_eq!(pool.room(), 100);
    }
}
