//! Leases that are renewed while they are held, and released in the background.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use crate::error::Result;
use crate::util::sync::lock;

use super::pool::Pool;
use super::server::{Failure, LeaseKey, Outcome, Server};

/// The maximum time that the drop of a store waits until its leases are released.
const DROP_TIMEOUT: Duration = Duration::from_secs(2);
/// The interval after which a failed renewal is retried.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The leases of a store. Dropping it waits up to [`DROP_TIMEOUT`] until all are released, because
/// the process may be about to end; it does not wait if a lease is still held. On a runtime, a
/// thread for blocking work waits instead of the task that drops the store, and the runtime waits
/// for that thread when it is dropped.
pub(super) struct LeaseKeeper<S: Server>(Arc<KeeperShared<S>>);

struct KeeperShared<S: Server> {
    pool: Arc<Pool<S>>,
    table: Arc<LeaseTable>,
}

#[derive(Default)]
struct LeaseTable {
    leases: Mutex<Leases>,
    changed: Condvar,
}

#[derive(Default)]
struct Leases {
    held: HashMap<Arc<str>, LeaseKey>,
    /// The leases to be released.
    released: Vec<LeaseKey>,
    /// True while the thread of a [`Worker`] maintains them.
    has_worker: bool,
}

/// The next task of the [`Worker`].
#[derive(Debug, PartialEq)]
enum Task {
    Renew(Vec<LeaseKey>),
    Release(LeaseKey),
    End,
}

impl Leases {
    /// Takes the next task; `is_due` is `true` if it is time to renew. Renewals take precedence, so
    /// that many releases on a slow server do not delay them. Returns `None` if no task can be done
    /// before the next renewal.
    fn next(&mut self, is_due: bool) -> Option<Task> {
        if is_due && !self.held.is_empty() {
            return Some(Task::Renew(self.held.values().cloned().collect()));
        }
        match self.released.pop() {
            Some(lease) => Some(Task::Release(lease)),
            None if self.held.is_empty() => Some(Task::End),
            None => None,
        }
    }
}

/// A lease that is renewed. Dropping it releases it soon after.
pub(super) struct HeldLease<S: Server> {
    shared: Arc<KeeperShared<S>>,
    key: LeaseKey,
}

impl<S: Server> HeldLease<S> {
    pub(super) fn key(&self) -> &LeaseKey {
        &self.key
    }
}

impl<S: Server> LeaseKeeper<S> {
    pub(super) fn new(pool: Arc<Pool<S>>) -> Self {
        Self(Arc::new(KeeperShared {
            pool,
            table: Arc::default(),
        }))
    }

    /// Renews a lease that was just taken until the returned handle is dropped.
    pub(super) fn keep(&self, key: LeaseKey) -> Result<HeldLease<S>> {
        let lease = HeldLease {
            shared: self.0.clone(),
            key: key.clone(),
        };
        let mut leases = lock(&self.0.table.leases);
        leases.held.insert(key.id.clone(), key);
        let outcome = self.0.start_worker(&mut leases);
        drop(leases);
        outcome.map(|()| lease)
    }
}

impl<S: Server> Drop for LeaseKeeper<S> {
    fn drop(&mut self) {
        wait_for_releases(self.0.table.clone());
    }
}

/// Waits until the leases are released, on another thread if this one belongs to a runtime.
fn wait_for_releases(table: Arc<LeaseTable>) {
    match Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn_blocking(move || table.wait())),
        Err(_) => table.wait(),
    }
}

impl LeaseTable {
    /// Waits until the leases are released, unless some are still held.
    fn wait(&self) {
        let leases = lock(&self.leases);
        let is_busy = |leases: &mut Leases| leases.has_worker && leases.held.is_empty();
        drop(
            self.changed
                .wait_timeout_while(leases, DROP_TIMEOUT, is_busy)
                .unwrap_or_else(PoisonError::into_inner),
        );
    }
}

impl<S: Server> Drop for HeldLease<S> {
    fn drop(&mut self) {
        let mut leases = lock(&self.shared.table.leases);
        if leases.held.get(&self.key.id) == Some(&self.key) {
            leases.held.remove(&self.key.id);
        }
        leases.released.push(self.key.clone());
        // If no thread can be started, the lease expires.
        let _ = self.shared.start_worker(&mut leases);
        self.shared.table.changed.notify_all();
    }
}

impl<S: Server> KeeperShared<S> {
    /// Starts the thread, unless it runs.
    fn start_worker(self: &Arc<Self>, leases: &mut Leases) -> Result<()> {
        if leases.has_worker {
            return Ok(());
        }
        let shared = self.clone();
        thread::Builder::new()
            .name("agentcore-leases".into())
            .spawn(move || Worker(shared).run())?;
        leases.has_worker = true;
        Ok(())
    }
}

/// The worker that runs on the thread. It ends when no lease is held and none is to be released.
struct Worker<S: Server>(Arc<KeeperShared<S>>);

impl<S: Server> Worker<S> {
    fn run(self) {
        let interval = self.0.pool.options().lease_time / 3;
        let mut renew_at = Instant::now() + interval;
        loop {
            match self.next_task(renew_at) {
                Task::Renew(leases) => {
                    let renewed = self.call(|server, connection| server.renew(connection, &leases));
                    if let Err(Failure::Lost(error) | Failure::Refused(error)) = &renewed {
                        tracing::warn!(
                            %error,
                            "leases were not renewed; they expire unless that succeeds"
                        );
                    }

                    let wait = if renewed.is_ok() {
                        interval
                    } else {
                        interval.min(RETRY_INTERVAL)
                    };

                    renew_at = Instant::now() + wait;
                }
                Task::Release(lease) => {
                    let released =
                        self.call(|server, connection| server.release(connection, &lease));
                    if released.is_err() {
                        tracing::debug!(
                            session = %lease.id,
                            "a lease was not released and will expire"
                        );
                    }
                }
                Task::End => return,
            }
        }
    }

    /// Waits for the next task. Renewals are due at `renew_at`.
    fn next_task(&self, renew_at: Instant) -> Task {
        let table = &self.0.table;
        let mut leases = lock(&table.leases);
        loop {
            let time_left = renew_at.saturating_duration_since(Instant::now());
            match leases.next(time_left.is_zero()) {
                None => {
                    let outcome = table.changed.wait_timeout(leases, time_left);
                    (leases, _) = outcome.unwrap_or_else(PoisonError::into_inner);
                }
                Some(Task::End) => {
                    leases.has_worker = false;
                    table.changed.notify_all();
                    return Task::End;
                }
                Some(task) => return task,
            }
        }
    }

    /// Runs a call, and repeats it once if it fails, because an idle connection may have been lost
    /// long ago.
    fn call(&self, call: impl Fn(&S, &mut S::Connection) -> Outcome<()>) -> Outcome<()> {
        let pool = &self.0.pool;
        pool.once(&call).or_else(|_| pool.once(&call))
    }
}

impl<S: Server> Drop for Worker<S> {
    fn drop(&mut self) {
        if thread::panicking() {
            lock(&self.0.table.leases).has_worker = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_that_drops_a_store_does_not_wait_for_its_leases() {
        let table = Arc::<LeaseTable>::default();
        let mut leases = lock(&table.leases);
        leases.has_worker = true;
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.build().unwrap();

        // The wait takes the lock, which this thread has.
        let shared_table = table.clone();
        runtime.block_on(async { wait_for_releases(shared_table) });
        leases.has_worker = false;
        drop(leases);
        drop(runtime);
        assert_eq!(Arc::strong_count(&table), 1);
    }

    #[test]
    fn leases_are_renewed_before_others_are_released() {
        let lease = |id: &str, number| LeaseKey {
            id: id.into(),
            owner: "o".into(),
            number,
        };

        let mut leases = Leases::default();
        assert_eq!(leases.next(true), Some(Task::End));
        leases.held.insert("a".into(), lease("a", 1));
        leases.released = vec![lease("b", 2), lease("c", 3)];
        for left in [1, 0] {
            let renewal = Task::Renew(vec![lease("a", 1)]);
            assert_eq!(leases.next(true), Some(renewal));
            let Some(Task::Release(_)) = leases.next(false) else {
                panic!("it is given back")
            };

            assert_eq!(leases.released.len(), left);
        }

        assert_eq!(leases.next(false), None);
        leases.held.clear();
        assert_eq!(leases.next(false), Some(Task::End));
    }
}
