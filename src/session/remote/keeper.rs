//! Leases that are renewed while they are held, and released in the background.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::util::sync::lock;

use super::pool::Pool;
use super::server::{Failure, Held, Outcome, Server};

/// The time the last store of a process waits until its leases are released.
const FAREWELL: Duration = Duration::from_secs(2);
/// The interval after which a failed renewal is retried.
const SOON: Duration = Duration::from_secs(1);

/// The leases of a store. Dropping it waits, for a moment, until all are given back: the process
/// may be about to end.
pub(super) struct Keeper<S: Server>(Arc<Shared<S>>);

struct Shared<S: Server> {
    pool: Arc<Pool<S>>,
    leases: Mutex<Leases>,
    changed: Condvar,
}

#[derive(Default)]
struct Leases {
    held: HashMap<Arc<str>, Held>,
    /// The leases to be released.
    released: Vec<Held>,
    /// True while a thread maintains them.
    is_kept: bool,
}

/// The thread's next task.
#[derive(Debug, PartialEq)]
enum Task {
    Renew(Vec<Held>),
    Release(Held),
    Wait,
    End,
}

impl Leases {
    /// Renewals take precedence: many leases that are given back to a slow server delay none of
    /// them.
    fn next(&mut self, is_due: bool) -> Task {
        if is_due && !self.held.is_empty() {
            return Task::Renew(self.held.values().cloned().collect());
        }
        match self.released.pop() {
            Some(held) => Task::Release(held),
            None if self.held.is_empty() => Task::End,
            None => Task::Wait,
        }
    }
}

/// A lease. Dropping it gives it back, soon.
pub(super) struct Claim<S: Server> {
    shared: Arc<Shared<S>>,
    held: Held,
}

impl<S: Server> Claim<S> {
    pub(super) fn held(&self) -> &Held {
        &self.held
    }
}

impl<S: Server> Keeper<S> {
    pub(super) fn new(pool: Arc<Pool<S>>) -> Self {
        Self(Arc::new(Shared {
            pool,
            leases: Mutex::default(),
            changed: Condvar::new(),
        }))
    }

    /// Renews a lease that was just taken until the claim is dropped.
    pub(super) fn keep(&self, held: Held) -> Result<Claim<S>> {
        let claim = Claim {
            shared: self.0.clone(),
            held: held.clone(),
        };
        let mut leases = lock(&self.0.leases);
        leases.held.insert(held.id.clone(), held);
        let outcome = self.0.begin(&mut leases);
        drop(leases);
        outcome.map(|()| claim)
    }
}

impl<S: Server> Drop for Keeper<S> {
    fn drop(&mut self) {
        let leases = lock(&self.0.leases);
        let is_busy = |leases: &mut Leases| leases.is_kept && leases.held.is_empty();
        drop(
            self.0
                .changed
                .wait_timeout_while(leases, FAREWELL, is_busy)
                .unwrap_or_else(PoisonError::into_inner),
        );
    }
}

impl<S: Server> Drop for Claim<S> {
    fn drop(&mut self) {
        let mut leases = lock(&self.shared.leases);
        if leases.held.get(&self.held.id) == Some(&self.held) {
            leases.held.remove(&self.held.id);
        }
        leases.released.push(self.held.clone());
        // Without a thread it expires.
        let _ = self.shared.begin(&mut leases);
        self.shared.changed.notify_all();
    }
}

impl<S: Server> Shared<S> {
    /// Starts the thread, unless it runs.
    fn begin(self: &Arc<Self>, leases: &mut Leases) -> Result<()> {
        if leases.is_kept {
            return Ok(());
        }
        let shared = self.clone();
        thread::Builder::new()
            .name("agentcore-leases".into())
            .spawn(move || Thread(shared).work())?;
        leases.is_kept = true;
        Ok(())
    }
}

/// The worker that runs on the thread. It ends when there is nothing to take care of.
struct Thread<S: Server>(Arc<Shared<S>>);

impl<S: Server> Thread<S> {
    fn work(self) {
        let interval = self.0.pool.options().lease_time / 3;
        let mut next = Instant::now() + interval;
        loop {
            match self.next(next) {
                Task::Renew(held) => {
                    let renewed = self.call(|server, connection| server.renew(connection, &held));
                    if let Err(Failure::Lost(error) | Failure::Refused(error)) = &renewed {
                        tracing::warn!(
                            %error,
                            "leases were not renewed; they expire unless that succeeds"
                        );
                    }
                    let wait = match renewed.is_ok() {
                        true => interval,
                        false => interval.min(SOON),
                    };
                    next = Instant::now() + wait;
                }
                Task::Release(held) => {
                    let released =
                        self.call(|server, connection| server.release(connection, &held));
                    if released.is_err() {
                        tracing::debug!(
                            session = %held.id,
                            "a lease was not given back and will expire"
                        );
                    }
                }
                Task::Wait | Task::End => return,
            }
        }
    }

    /// Waits for the next task; renewals are due at `next`.
    fn next(&self, next: Instant) -> Task {
        let mut leases = lock(&self.0.leases);
        loop {
            let time_left = next.saturating_duration_since(Instant::now());
            match leases.next(time_left.is_zero()) {
                Task::Wait => {
                    let outcome = self.0.changed.wait_timeout(leases, time_left);
                    (leases, _) = outcome.unwrap_or_else(PoisonError::into_inner);
                }
                Task::End => {
                    leases.is_kept = false;
                    self.0.changed.notify_all();
                    return Task::End;
                }
                task => return task,
            }
        }
    }

    /// Tries twice: the connection may have been lost long ago.
    fn call(&self, call: impl Fn(&S, &mut S::Connection) -> Outcome<()>) -> Outcome<()> {
        let pool = &self.0.pool;
        pool.once(&call).or_else(|_| pool.once(&call))
    }
}

impl<S: Server> Drop for Thread<S> {
    fn drop(&mut self) {
        if thread::panicking() {
            lock(&self.0.leases).is_kept = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_are_renewed_before_others_are_given_back() {
        let lease = |id: &str, number| Held {
            id: id.into(),
            owner: "o".into(),
            number,
        };
        let mut leases = Leases::default();
        assert_eq!(leases.next(true), Task::End);
        leases.held.insert("a".into(), lease("a", 1));
        leases.released = vec![lease("b", 2), lease("c", 3)];
        for left in [1, 0] {
            assert_eq!(leases.next(true), Task::Renew(vec![lease("a", 1)]));
            let Task::Release(_) = leases.next(false) else {
                panic!("it is given back")
            };
            assert_eq!(leases.released.len(), left);
        }
        assert_eq!(leases.next(false), Task::Wait);
        leases.held.clear();
        assert_eq!(leases.next(false), Task::End);
    }
}
