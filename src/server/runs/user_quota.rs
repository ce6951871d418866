//! The quota of one user: the open streams, the bytes that they and other large replies hold, and
//! the bodies and threads of requests.

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

/// The maximum number of threads of one user that requests load or hold in memory at the same time.
const MAX_USER_LOADS: usize = 4;

/// The maximum number of requests of one user that list threads at the same time.
const MAX_USER_THREAD_LISTS: usize = 1;

/// The time that a request waits for the space and the permits that other requests hold.
pub(crate) const MAX_WAIT: Duration = Duration::from_secs(30);

/// The maximum number of threads that are loaded at the same time, for all users.
pub(super) const MAX_LOADS: usize = 16;

/// The maximum number of requests that list the threads of one store at the same time, since each
/// may read all of it.
const MAX_THREAD_LISTS: usize = 2;

/// The maximum number of requests of one user that list files or skills at the same time. In a
/// container, each may take a process for each folder.
const MAX_USER_FILE_LISTS: usize = 2;

/// The maximum of a semaphore on a 32-bit machine: 512 MiB. The docs of [`RunLimits`] name it.
const MAX_READER_BYTES: u32 = u32::MAX >> 3;

/// The refusal of a stream: the user has as many open streams as the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooManyStreams {
    pub(super) limit: usize,
}

impl fmt::Display for TooManyStreams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limit } = self;
        write!(
            f,
            "you have {limit} open streams, which is the limit; close one and try again"
        )
    }
}

/// The limits of one user and their current use: open streams, unsent bytes, bodies, loads, lists
/// of threads, and lists of files and skills.
#[derive(Debug)]
pub(crate) struct UserQuota {
    stream_count: AtomicUsize,
    max_streams: usize,
    /// The memory of the streams' indexes.
    index_bytes: AtomicUsize,
    /// The space for the bytes that are written and not sent.
    bytes: Arc<Semaphore>,
    max_bytes: u32,
    /// The space for the bodies of requests.
    bodies: Arc<Semaphore>,
    /// The user's permits to load a thread and hold it.
    loads: Arc<Semaphore>,
    /// The user's permits to list threads.
    thread_lists: Arc<Semaphore>,
    /// The user's permits to list files or skills.
    file_lists: Arc<Semaphore>,
    shared: SharedQuota,
}

/// The quota that all users share. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct SharedQuota {
    /// The permits to load a thread.
    loads: Arc<Semaphore>,
    /// The permits to list the threads of each store, as long as a request uses them.
    thread_lists: Arc<Mutex<HashMap<StoreId, Weak<Semaphore>>>>,
}

impl Default for SharedQuota {
    fn default() -> Self {
        Self {
            loads: Arc::new(Semaphore::new(MAX_LOADS)),
            thread_lists: Arc::default(),
        }
    }
}

impl SharedQuota {
    /// The permits to list the threads of a store.
    fn thread_lists_of(&self, store: &StoreId) -> Arc<Semaphore> {
        let mut lists = lock(&self.thread_lists);
        lists.retain(|_, lists| lists.strong_count() > 0);
        let semaphore = lists.get(store).and_then(Weak::upgrade);
        semaphore.unwrap_or_else(|| {
            let semaphore = Arc::new(Semaphore::new(MAX_THREAD_LISTS));
            lists.insert(store.clone(), Arc::downgrade(&semaphore));
            semaphore
        })
    }
}

impl UserQuota {
    pub(super) fn new(limits: &RunLimits, shared: SharedQuota) -> Self {
        let max_bytes = u32::try_from(limits.reader_bytes_per_user)
            .unwrap_or(u32::MAX)
            .clamp(1, MAX_READER_BYTES);
        Self {
            stream_count: AtomicUsize::new(0),
            max_streams: limits.readers_per_user,
            index_bytes: AtomicUsize::new(0),
            bytes: Arc::new(Semaphore::new(max_bytes as usize)),
            max_bytes,
            bodies: Arc::new(Semaphore::new(MAX_BODIES)),
            loads: Arc::new(Semaphore::new(MAX_USER_LOADS)),
            thread_lists: Arc::new(Semaphore::new(MAX_USER_THREAD_LISTS)),
            file_lists: Arc::new(Semaphore::new(MAX_USER_FILE_LISTS)),
            shared,
        }
    }

    /// Waits for the space of the body of a request, of at most `len` bytes.
    pub(crate) async fn acquire_body_space(self: &Arc<Self>, len: usize) -> Space {
        let len = u32::try_from(len.min(MAX_BODIES)).unwrap_or(u32::MAX);
        Space {
            permit: self.bodies.clone().acquire_many_owned(len).await.ok(),
            _quota: self.clone(),
        }
    }

    /// Waits for the permit to load a thread of the user.
    ///
    /// # Cancel safety
    ///
    /// The future may be dropped; the load then loses its turn among the waiting loads.
    pub(crate) async fn acquire_load(self: &Arc<Self>) -> StorePermit {
        self.store_permit(&self.loads, &self.shared.loads).await
    }

    /// Waits for the permit to list the threads of a store.
    ///
    /// # Cancel safety
    ///
    /// The future may be dropped; the request then loses its turn among the waiting requests.
    pub(crate) async fn acquire_thread_list(self: &Arc<Self>, store: &StoreId) -> StorePermit {
        let shared_semaphore = self.shared.thread_lists_of(store);
        self.store_permit(&self.thread_lists, &shared_semaphore)
            .await
    }

    /// Waits for the permit to list files or skills of the user.
    ///
    /// # Cancel safety
    ///
    /// The future may be dropped; the request then loses its turn among the waiting requests.
    pub(crate) async fn acquire_file_list(self: &Arc<Self>) -> FileListPermit {
        FileListPermit {
            // The semaphore is never closed.
            _permit: self.file_lists.clone().acquire_owned().await.ok(),
            _quota: self.clone(),
        }
    }

    async fn store_permit(
        self: &Arc<Self>,
        own_semaphore: &Arc<Semaphore>,
        shared_semaphore: &Arc<Semaphore>,
    ) -> StorePermit {
        // The semaphores are never closed.
        let own_permit = own_semaphore.clone().acquire_owned().await.ok();
        let shared_permit = shared_semaphore.clone().acquire_owned().await.ok();
        StorePermit {
            _own_permit: own_permit,
            shared_permit,
            _quota: self.clone(),
        }
    }

    /// Waits for the space of a piece of `len` bytes, which is taken before the piece is written.
    ///
    /// # Cancel safety
    ///
    /// The future may be dropped; the piece then loses its turn among the waiting pieces.
    pub(crate) async fn acquire_space(self: &Arc<Self>, len: usize) -> Space {
        let mut permit = None;
        if len > FREE_BYTES {
            let len = u32::try_from(len).unwrap_or(u32::MAX).min(self.max_bytes);
            // The semaphore is never closed.
            permit = self.bytes.clone().acquire_many_owned(len).await.ok();
        }
        Space {
            permit,
            _quota: self.clone(),
        }
    }
}

/// The permit of one open stream, out of the streams that a user may have. Dropping it returns the
/// permit.
#[derive(Debug)]
pub(crate) struct StreamPermit {
    quota: Arc<UserQuota>,
    /// The memory of the stream's index, which counts toward that of the user's streams.
    index_bytes: usize,
}

impl StreamPermit {
    /// Takes the permit for one more open stream.
    ///
    /// # Errors
    ///
    /// Returns an error if the user has as many open streams as the limit.
    pub(crate) fn take(quota: Arc<UserQuota>) -> Result<Self, TooManyStreams> {
        let limit = quota.max_streams;
        let add = |count: usize| (count < limit).then_some(count + 1);
        match quota
            .stream_count
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, add)
        {
            Ok(_) => Ok(Self {
                quota,
                index_bytes: 0,
            }),
            Err(_) => Err(TooManyStreams { limit }),
        }
    }

    /// Waits for the space of a piece of the stream, as [`UserQuota::acquire_space`].
    pub(crate) async fn acquire_space(&self, len: usize) -> Space {
        self.quota.acquire_space(len).await
    }

    /// Waits for the permit to load a thread, as [`UserQuota::acquire_load`].
    pub(crate) async fn acquire_load(&self) -> StorePermit {
        self.quota.acquire_load().await
    }

    /// Counts the memory of the stream's index, which grows with its run. Returns `false` if the
    /// indexes of the user's streams have more than [`MAX_INDEXES`].
    pub(super) fn grow_index(&mut self, bytes: usize) -> bool {
        let added = bytes.saturating_sub(self.index_bytes);
        if added == 0 {
            return true;
        }
        let add = |sum: usize| sum.checked_add(added).filter(|sum| *sum <= MAX_INDEXES);
        let sum = &self.quota.index_bytes;
        let outcome = sum.fetch_update(Ordering::AcqRel, Ordering::Acquire, add);
        self.index_bytes += outcome.map_or(0, |_| added);
        outcome.is_ok()
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        let quota = &self.quota;
        quota.stream_count.fetch_sub(1, Ordering::AcqRel);
        quota
            .index_bytes
            .fetch_sub(self.index_bytes, Ordering::AcqRel);
    }
}

/// The permit to load a thread, or to list threads, held until the content is dropped. A request
/// that has it never waits for [`Space`]: space becomes free when a client reads, and a request
/// that has space may wait for a load, so the two would wait for each other.
#[derive(Debug)]
pub(crate) struct StorePermit {
    _own_permit: Option<OwnedSemaphorePermit>,
    /// The permit out of those that all users share; `None` once it is released.
    shared_permit: Option<OwnedSemaphorePermit>,
    _quota: Arc<UserQuota>,
}

impl StorePermit {
    /// Awaits an operation of the store, with the permit. After [`MAX_WAIT`], the shared permit is
    /// released, so that a store that hangs does not stop the loads and lists of other users.
    pub(crate) async fn hold_during<F: Future>(mut self, operation: F) -> F::Output {
        let mut operation = pin!(operation);
        if let Ok(output) = timeout(MAX_WAIT, &mut operation).await {
            return output;
        }
        self.release_shared_permit();
        operation.await
    }

    /// Releases the shared permit, because the thread is loaded, the threads are listed or the
    /// store hangs. The user's own permit stays.
    pub(crate) fn release_shared_permit(&mut self) {
        self.shared_permit = None;
    }
}

/// The permit to list files or skills, held until the reply has its space.
#[derive(Debug)]
pub(crate) struct FileListPermit {
    _permit: Option<OwnedSemaphorePermit>,
    _quota: Arc<UserQuota>,
}

/// The permits for the bytes of one piece, which is a chunk of a stream or a whole reply, or for
/// those of the body of a request.
#[derive(Debug)]
pub(crate) struct Space {
    permit: Option<OwnedSemaphorePermit>,
    /// Held with the piece, which may be sent after its stream has ended: a new stream of the user
    /// must find the same space.
    _quota: Arc<UserQuota>,
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
