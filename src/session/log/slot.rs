//! The sessions in use by a store.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::error::{Error, Result};
use crate::session::check_id;
use crate::util::sync::lock;

use super::log::Log;
use super::open_log::OpenLog;
use super::shared::LogShared;

/// The cell of a session's log: the [`OpenLog`] while a lease has opened it.
pub(super) struct LogCell<L: Log> {
    log: Mutex<Option<OpenLog<L>>>,
    /// Locked before `log` by a load, so that a load never finds `log` locked by another load.
    load_lock: Mutex<()>,
    /// Notified when `log` was unlocked by anything but a load.
    unlocked: Notify,
}

/// A locked [`LogCell`].
pub(super) struct LogGuard<'a, L: Log> {
    // Dropped first.
    log: MutexGuard<'a, Option<OpenLog<L>>>,
    _notify: NotifyOnDrop<'a>,
}

struct NotifyOnDrop<'a>(&'a Notify);

impl Drop for NotifyOnDrop<'_> {
    fn drop(&mut self) {
        self.0.notify_waiters();
    }
}

impl<L: Log> Default for LogCell<L> {
    fn default() -> Self {
        Self {
            log: Mutex::default(),
            load_lock: Mutex::default(),
            unlocked: Notify::new(),
        }
    }
}

impl<L: Log> LogCell<L> {
    /// Locks the log, which may wait for a read or a write of a whole log.
    pub(super) fn lock(&self) -> LogGuard<'_, L> {
        LogGuard {
            log: lock(&self.log),
            _notify: NotifyOnDrop(&self.unlocked),
        }
    }

    /// Returns a future that ends when the log is next unlocked, counted from this call.
    pub(super) fn unlocked(&self) -> Notified<'_> {
        self.unlocked.notified()
    }

    /// Calls `read` with the log and returns its result. Waits only for other loads. Returns `None`
    /// while anything else has locked the log.
    pub(super) fn try_read<T>(&self, read: impl FnOnce(Option<&OpenLog<L>>) -> T) -> Option<T> {
        let _load_lock = lock(&self.load_lock);
        let log = match self.log.try_lock() {
            Ok(log) => log,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(read(log.as_ref()))
    }
}

impl<L: Log> Deref for LogGuard<'_, L> {
    type Target = Option<OpenLog<L>>;

    fn deref(&self) -> &Self::Target {
        &self.log
    }
}

impl<L: Log> DerefMut for LogGuard<'_, L> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.log
    }
}

/// A session in use: its entry in the map of the store.
pub(super) struct SessionSlot<L: Log> {
    handle_count: usize,
    /// True if one of the handles has the lease or is about to take it.
    is_leased: bool,
    /// Locked only on threads for blocking work, and by the last handle.
    log_cell: Arc<LogCell<L>>,
}

/// A handle to a session in use, which keeps its slot in the map. Dropping the last one closes the
/// session.
pub(super) struct SlotHandle<L: Log> {
    pub(super) shared: Arc<LogShared<L>>,
    pub(super) id: Arc<str>,
    pub(super) log_cell: Arc<LogCell<L>>,
    /// True if the handle has the lease or is about to take it.
    has_lease: bool,
    /// True if it is dropped on an async thread, which must not block.
    pub(super) is_async: bool,
}

/// The outcome of leaving a slot.
enum Leaving {
    /// This is the last handle to a session that is open with this token: it has to be closed
    /// first.
    Last(u64),
    Done,
}

impl<L: Log> Drop for SlotHandle<L> {
    fn drop(&mut self) {
        while let Leaving::Last(token) = self.leave() {
            // The slot stays in the map until the session is closed: without it, another caller
            // would see the session as free.
            if let Some(runtime) = self.runtime() {
                let handle = self.for_blocking_drop();
                runtime.spawn_blocking(move || drop(handle));
                return;
            }
            self.close(token);
        }
    }
}

impl<L: Log> LogShared<L> {
    /// Returns another handle to the session; `None` if it is not in use.
    pub(super) fn join(self: &Arc<Self>, id: &Arc<str>) -> Option<SlotHandle<L>> {
        let mut slots = lock(&self.slots);
        let slot = slots.get_mut(id)?;
        slot.handle_count += 1;
        Some(self.handle(id, slot, false))
    }

    /// Returns another handle to the session; `None` if it is not leased.
    pub(super) fn join_if_leased(self: &Arc<Self>, id: &Arc<str>) -> Option<SlotHandle<L>> {
        let is_leased = lock(&self.slots).get(id).is_some_and(|slot| slot.is_leased);
        is_leased.then(|| self.join(id)).flatten()
    }

    /// Returns `true` if a handle has the lease or is about to take it; `None` if this process does
    /// not use the session.
    pub(super) fn is_leased(&self, id: &str) -> Option<bool> {
        lock(&self.slots).get(id).map(|slot| slot.is_leased)
    }

    /// Reserves the lease of the session in this process, and returns a handle that has it.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::SessionBusy`](crate::ErrorKind::SessionBusy) while another handle has
    /// the lease, and the error of [`check_id`].
    pub(super) fn reserve(self: &Arc<Self>, id: &str) -> Result<SlotHandle<L>> {
        check_id(id)?;
        let id = Arc::<str>::from(id);
        let mut slots = lock(&self.slots);
        let slot = slots.entry(id.clone()).or_insert_with(|| SessionSlot {
            handle_count: 0,
            is_leased: false,
            log_cell: Arc::default(),
        });

        if slot.is_leased {
            return Err(Error::session_busy(&id));
        }

        slot.is_leased = true;
        slot.handle_count += 1;
        Ok(self.handle(&id, slot, true))
    }

    fn handle(
        self: &Arc<Self>,
        id: &Arc<str>,
        slot: &SessionSlot<L>,
        has_lease: bool,
    ) -> SlotHandle<L> {
        SlotHandle {
            shared: self.clone(),
            id: id.clone(),
            log_cell: slot.log_cell.clone(),
            has_lease,
            is_async: false,
        }
    }
}

impl<L: Log> SlotHandle<L> {
    /// Releases the lease, and then the slot, unless the session has to be closed first.
    fn leave(&mut self) -> Leaving {
        let mut slots = lock(&self.shared.slots);
        let Some(slot) = slots.get_mut(&self.id) else {
            return Leaving::Done;
        };

        if std::mem::take(&mut self.has_lease) {
            slot.is_leased = false;
        }

        let open_token = match slot.handle_count {
            1 => self.log_cell.lock().as_ref().map(|log| log.token),
            _ => None,
        };

        if let Some(token) = open_token {
            return Leaving::Last(token);
        }

        slot.handle_count -= 1;
        if slot.handle_count == 0 {
            slots.remove(&self.id);
        }

        Leaving::Done
    }

    /// Returns the runtime on whose threads the session is closed; `None` if it may be closed on
    /// this thread.
    fn runtime(&self) -> Option<Handle> {
        if self.is_async {
            Handle::try_current().ok()
        } else {
            None
        }
    }

    /// Returns a handle that replaces this one, to be dropped on a thread that may block.
    fn for_blocking_drop(&self) -> Self {
        Self {
            shared: self.shared.clone(),
            id: self.id.clone(),
            log_cell: self.log_cell.clone(),
            has_lease: false,
            is_async: false,
        }
    }

    /// Closes the log that was opened with this token. Does nothing if a later lease has closed it
    /// already.
    fn close(&self, token: u64) {
        let mut open_log = self.log_cell.lock();
        if open_log.as_ref().is_some_and(|log| log.token == token) {
            *open_log = None;
        }
    }

    /// Closes the session, and removes its log as [`Log::remove`] does.
    pub(super) fn remove(&self, expected_size: Option<u64>) -> Result<bool> {
        *self.log_cell.lock() = None;
        self.shared.log.remove(&self.id, expected_size)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread::{self, ThreadId};

    use crate::session::SessionStore;
    use crate::session::log::log_store::LogStore;
    use crate::session::log::memory_log::{Gate, LogStep, MemoryLog};

    /// Creates a store whose logs wait for a permit before they close. Returns it, the sender of
    /// the permits, and the receiver of the threads that closed logs.
    fn store_with_gate() -> (LogStore<MemoryLog>, Sender<()>, Receiver<ThreadId>) {
        let (gate, permits, _) = Gate::new();
        let (closes, closed) = channel();
        let log = MemoryLog::default().on_step(move |step| {
            if let LogStep::Close = step {
                gate.pass();
                let _ = closes.send(thread::current().id());
            }
            Ok(())
        });
        (LogStore::new(log), permits, closed)
    }

    #[tokio::test]
    async fn session_is_closed_on_another_thread() {
        let (store, gate_sender, close_receiver) = store_with_gate();
        for _ in 0..3 {
            let lease = store.lease("s").await.unwrap();
            drop(lease);
            gate_sender.send(()).unwrap();
            assert_ne!(close_receiver.recv().unwrap(), thread::current().id());
        }
    }

    #[tokio::test]
    async fn next_lease_waits_until_the_session_is_closed() {
        let (store, gate_sender, close_receiver) = store_with_gate();
        drop(store.lease("s").await.unwrap());
        assert!(
            store.load("other").await.unwrap().is_none(),
            "other sessions are not blocked"
        );
        let next = store.lease("s");
        let gate_future = async { gate_sender.send(()).unwrap() };
        let (next, ()) = futures::future::join(next, gate_future).await;
        let next = next.unwrap();
        close_receiver.recv().unwrap();
        assert!(close_receiver.try_recv().is_err(), "the new log stays open");
        gate_sender.send(()).unwrap();
        drop(next);
        close_receiver.recv().unwrap();
    }

    #[test]
    fn session_is_closed_in_place_without_a_runtime() {
        let (store, gate_sender, close_receiver) = store_with_gate();
        let lease = futures::executor::block_on(store.lease("s")).unwrap();
        gate_sender.send(()).unwrap();
        drop(lease);
        assert_eq!(close_receiver.try_recv(), Ok(thread::current().id()));
    }

    #[test]
    fn runtime_shutdown_closes_the_session() {
        let (store, gate_sender, close_receiver) = store_with_gate();
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.build().unwrap();
        let lease = runtime.block_on(store.lease("s")).unwrap();
        gate_sender.send(()).unwrap();
        runtime.spawn(async move {
            let _lease = lease;
            std::future::pending::<()>().await;
        });

        drop(runtime);
        close_receiver.recv().unwrap();
        gate_sender.send(()).unwrap();
        drop(futures::executor::block_on(store.lease("s")).unwrap());
    }
}
