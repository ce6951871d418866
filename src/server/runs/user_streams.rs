//! The open streams of one user, the bytes that they and other large replies hold, and the bodies
//! and threads of requests.

use std::collections::HashMap;
use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::util::sync::lock;

use super::limits::RunLimits;
use super::store_id::StoreId;

/// The maximum length of a piece that takes no space of its user. Each stream has at most one such
/// piece.
const FREE_BYTES: usize = 64 * 1024;

/// The maximum size of the bodies of one user's requests, in bytes. Uploads have a limit of their
/// own.
const MAX_BODIES: usize = 64 * 1024 * 1024;

/// The maximum memory of the indexes of calls and messages of one user's streams, in bytes.
pub(super) const MAX_INDEXES: usize = 256 * 1024 * 1024;

/// The maximum number of threads of one user that requests hold in memory at the same time.
const MAX_USER_LOADS: usize = 4;

/// The maximum number of lists of one user's threads in progress.
const MAX_USER_LISTS: usize = 1;

/// The time that a request waits for the space and the permits that other requests hold.
pub(crate) const MAX_WAIT: Duration = Duration::from_secs(30);

/// The maximum number of threads of all users that are loaded at the same time.
pub(super) const MAX_LOADS: usize = 16;

/// The maximum number of lists of a store's threads in progress, since each may read all of it.
pub(super) const MAX_LISTS: usize = 2;

/// The maximum number of lists of files and skills in progress of one user. In a container, each
/// may take a process for each folder.
const MAX_USER_SEARCHES: usize = 2;

/// The reason a reader cannot be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReaderRefusal {
    /// The user has too many; the limit.
    TooMany(usize),
}

impl fmt::Display for ReaderRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::TooMany(limit) = self;
        write!(
            f,
            "you have {limit} open streams, which is the limit; close one and try again"
        )
    }
}

/// The open streams of one user.
#[derive(Debug)]
pub(super) struct UserStreams {
    count: AtomicUsize,
    limit: usize,
    /// The memory of the streams' indexes.
    index_bytes: AtomicUsize,
    /// The space for the bytes that are written and not sent.
    bytes: Arc<Semaphore>,
    max_bytes: u32,
    /// The space for the bodies of requests.
    bodies: Arc<Semaphore>,
    /// The threads of the user that are loaded.
    loads: Arc<Semaphore>,
    /// The lists of threads in progress of the user.
    lists: Arc<Semaphore>,
    /// The lists of files and skills in progress of the user.
    searches: Arc<Semaphore>,
    all: AllStreams,
}

/// The permits that all users share. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct AllStreams {
    /// The loads in progress.
    loads: Arc<Semaphore>,
    /// The lists of threads in progress, by the store.
    lists: Arc<Mutex<HashMap<StoreId, Weak<Semaphore>>>>,
}

impl Default for AllStreams {
    fn default() -> Self {
        Self {
            loads: Arc::new(Semaphore::new(MAX_LOADS)),
            lists: Arc::default(),
        }
    }
}

impl AllStreams {
    /// The permits to list the threads of a store.
    fn lists_of(&self, store: &StoreId) -> Arc<Semaphore> {
        let mut lists = lock(&self.lists);
        lists.retain(|_, lists| lists.strong_count() > 0);
        let of_store = lists.get(store).and_then(Weak::upgrade);
        of_store.unwrap_or_else(|| {
            let of_store = Arc::new(Semaphore::new(MAX_LISTS));
            lists.insert(store.clone(), Arc::downgrade(&of_store));
            of_store
        })
    }
}

impl UserStreams {
    pub(super) fn new(limits: &RunLimits, all: AllStreams) -> Self {
        let max_bytes = u32::try_from(limits.reader_bytes_per_user)
            .unwrap_or(u32::MAX)
            .clamp(1, u32::MAX >> 3);
        Self {
            count: AtomicUsize::new(0),
            limit: limits.readers_per_user,
            index_bytes: AtomicUsize::new(0),
            bytes: Arc::new(Semaphore::new(max_bytes as usize)),
            max_bytes,
            bodies: Arc::new(Semaphore::new(MAX_BODIES)),
            loads: Arc::new(Semaphore::new(MAX_USER_LOADS)),
            lists: Arc::new(Semaphore::new(MAX_USER_LISTS)),
            searches: Arc::new(Semaphore::new(MAX_USER_SEARCHES)),
            all,
        }
    }

    /// Waits for the space of the body of a request, of at most `len` bytes.
    pub(super) async fn body_space(self: &Arc<Self>, len: usize) -> Space {
        let len = u32::try_from(len.min(MAX_BODIES)).unwrap_or(u32::MAX);
        Space {
            permit: self.bodies.clone().acquire_many_owned(len).await.ok(),
            _streams: self.clone(),
        }
    }

    /// Waits for the permit to load a thread of the user.
    ///
    /// # Cancel safety
    ///
    /// The future may be dropped; the load then loses its turn among the waiting loads.
    pub(super) async fn load(self: &Arc<Self>) -> LoadPermit {
        self.permit(&self.loads, &self.all.loads).await
    }

    /// Waits for the permit to list the threads of a store.
    ///
    /// # Cancel safety
    ///
    /// The future may be dropped; the list then loses its turn among the waiting lists.
    pub(super) async fn list(self: &Arc<Self>, store: &StoreId) -> LoadPermit {
        let all = self.all.lists_of(store);
        self.permit(&self.lists, &all).await
    }

    /// Waits for the permit to list files or skills of the user.
    ///
    /// # Cancel safety
    ///
    /// The future may be dropped; the list then loses its turn among the waiting lists.
    pub(super) async fn search(self: &Arc<Self>) -> SearchPermit {
        SearchPermit {
            // The semaphore is never closed.
            _permit: self.searches.clone().acquire_owned().await.ok(),
            _streams: self.clone(),
        }
    }

    async fn permit(self: &Arc<Self>, own: &Arc<Semaphore>, all: &Arc<Semaphore>) -> LoadPermit {
        // The semaphores are never closed.
        let own = own.clone().acquire_owned().await.ok();
        let of_all = all.clone().acquire_owned().await.ok();
        LoadPermit {
            _own: own,
            of_all,
            _streams: self.clone(),
        }
    }

    /// Waits for the space of a piece of `len` bytes, which is taken before the piece is written.
    ///
    /// # Cancel safety
    ///
    /// The future may be dropped; the piece then loses its turn among the waiting pieces.
    pub(super) async fn space(self: &Arc<Self>, len: usize) -> Space {
        let mut permit = None;
        if len > FREE_BYTES {
            let len = u32::try_from(len).unwrap_or(u32::MAX).min(self.max_bytes);
            // The semaphore is never closed.
            permit = self.bytes.clone().acquire_many_owned(len).await.ok();
        }
        Space {
            permit,
            _streams: self.clone(),
        }
    }
}

/// The permit of one open stream, out of the streams that a user may have. Dropping it returns the
/// permit.
#[derive(Debug)]
pub(crate) struct ReaderPermit {
    streams: Arc<UserStreams>,
    /// The memory of the stream's index, which counts toward that of the user's streams.
    index_bytes: usize,
}

impl ReaderPermit {
    /// Takes a place, unless the user has as many open streams as the limit.
    pub(super) fn take(streams: Arc<UserStreams>) -> Result<Self, ReaderRefusal> {
        let limit = streams.limit;
        let add = |count: usize| (count < limit).then_some(count + 1);
        match streams
            .count
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, add)
        {
            Ok(_) => Ok(Self {
                streams,
                index_bytes: 0,
            }),
            Err(_) => Err(ReaderRefusal::TooMany(limit)),
        }
    }

    /// Waits for the space of a piece of the stream, as [`UserStreams::space`].
    pub(crate) async fn space(&self, len: usize) -> Space {
        self.streams.space(len).await
    }

    /// Waits for the permit to load a thread, as [`UserStreams::load`].
    pub(crate) async fn load(&self) -> LoadPermit {
        self.streams.load().await
    }

    /// Counts the memory of the stream's index, which grows with its run. Returns `false` if the
    /// indexes of the user's streams have more than [`MAX_INDEXES`].
    pub(super) fn grow_index(&mut self, bytes: usize) -> bool {
        let added = bytes.saturating_sub(self.index_bytes);
        if added == 0 {
            return true;
        }
        let add = |sum: usize| sum.checked_add(added).filter(|sum| *sum <= MAX_INDEXES);
        let sum = &self.streams.index_bytes;
        let outcome = sum.fetch_update(Ordering::AcqRel, Ordering::Acquire, add);
        self.index_bytes += outcome.map_or(0, |_| added);
        outcome.is_ok()
    }
}

impl Drop for ReaderPermit {
    fn drop(&mut self) {
        let streams = &self.streams;
        streams.count.fetch_sub(1, Ordering::AcqRel);
        streams
            .index_bytes
            .fetch_sub(self.index_bytes, Ordering::AcqRel);
    }
}

/// The permit to load a thread, or to list threads. It is held until the content of the thread is
/// dropped. Its holder never waits for the [`Space`] of a stream or reply: that is free only once a
/// client reads, and its holder may wait for a load.
#[derive(Debug)]
pub(crate) struct LoadPermit {
    _own: Option<OwnedSemaphorePermit>,
    /// `None` once the thread is loaded, or the threads are listed.
    of_all: Option<OwnedSemaphorePermit>,
    _streams: Arc<UserStreams>,
}

impl LoadPermit {
    /// Awaits an operation that loads the thread or lists threads. After [`MAX_WAIT`], the server
    /// no longer counts it: a store that hangs must not stop those of others.
    pub(crate) async fn hold_during<F: Future>(mut self, operation: F) -> F::Output {
        let mut operation = pin!(operation);
        if let Ok(output) = timeout(MAX_WAIT, &mut operation).await {
            return output;
        }
        self.end_load();
        operation.await
    }

    /// Lets another user load a thread, once this one is loaded.
    pub(crate) fn end_load(&mut self) {
        self.of_all = None;
    }
}

/// The permit to list files or skills, held until the reply has its space.
#[derive(Debug)]
pub(crate) struct SearchPermit {
    _permit: Option<OwnedSemaphorePermit>,
    _streams: Arc<UserStreams>,
}

/// The space of one piece.
#[derive(Debug)]
pub(crate) struct Space {
    permit: Option<OwnedSemaphorePermit>,
    /// Held with the piece, which may be sent after its stream has ended: a new stream of the user
    /// must find the same space.
    _streams: Arc<UserStreams>,
}

/// The bytes of a piece, which hold its space until the last copy is dropped.
struct HeldPiece {
    bytes: Vec<u8>,
    _space: Space,
}

impl AsRef<[u8]> for HeldPiece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Space {
    /// Returns the bytes of a piece. The space that it does not need is freed at once, the rest
    /// with the last copy of the bytes.
    pub(crate) fn hold(mut self, bytes: Vec<u8>) -> Bytes {
        let needed = if bytes.len() > FREE_BYTES {
            bytes.len()
        } else {
            0
        };
        let permits = self
            .permit
            .as_ref()
            .map_or(0, OwnedSemaphorePermit::num_permits);
        if let Some(permit) = &mut self.permit {
            drop(permit.split(permits.saturating_sub(needed)));
        }
        if needed.min(permits) == 0 {
            return bytes.into();
        }
        Bytes::from_owner(HeldPiece {
            bytes,
            _space: self,
        })
    }
}
