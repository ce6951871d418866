//! A process group and its end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep_until, timeout};

use crate::util::sync::lock;

use super::strays::Strays;

/// The time limit of waiting for a search for strays. A search takes less time, so the limit is
/// reached only if no thread is free to begin it.
const LIMIT: Duration = Duration::from_secs(4);
/// The first pause between two searches for the members of a group. Each pause is twice as long as
/// the previous one.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
/// The maximum pause between two searches.
const MAX_PAUSE: Duration = Duration::from_millis(100);

/// All processes that a command started: the processes in its group, and its strays, which moved to
/// a group of their own. Dropping it kills them, without waiting.
#[derive(Debug)]
pub(in super::super) struct Group {
    leader: Option<Pid>,
    is_over: AtomicBool,
    /// True once the leader was waited for, so that its id may be another process's.
    is_reaped: AtomicBool,
    strays: Mutex<Option<Strays>>,
}

impl Group {
    /// Creates the group whose leader has, or is about to have, this process id.
    pub(in super::super) fn new(leader: u32, strays: Option<Strays>) -> Self {
        let leader = i32::try_from(leader).ok().and_then(Pid::from_raw);
        Self {
            leader,
            is_over: AtomicBool::new(false),
            is_reaped: AtomicBool::new(false),
            strays: Mutex::new(strays),
        }
    }

    /// Asks the group to end, with `SIGTERM`. Records its strays first, because some are recognized
    /// only by their parents, which may end.
    pub(super) async fn terminate(&self) {
        self.with_strays(Strays::note).await;
        self.signal(Signal::TERM);
    }

    /// Waits until the group has no processes but its watcher, up to `deadline`. The leader must
    /// have been waited for. Where there is no process table, this takes until `deadline`.
    pub(super) async fn wait_until_empty(&self, deadline: Instant) {
        let mut pause = FIRST_PAUSE;
        while Instant::now() < deadline {
            let has_members = self.with_strays(|strays| strays.has_members()).await;
            if has_members == Some(false) {
                return;
            }
            sleep_until(deadline.min(Instant::now() + pause)).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }

    /// Runs `work` on the strays, on a thread for blocking work. Returns `None` if there is no
    /// search for strays, or no thread was free in time.
    async fn with_strays<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Strays) -> T + Send + 'static,
    ) -> Option<T> {
        let mut strays = lock(&self.strays).take()?;
        let task = spawn_blocking(move || {
            let value = work(&mut strays);
            (strays, value)
        });
        let (strays, value) = timeout(LIMIT, task).await.ok()?.ok()?;
        *lock(&self.strays) = Some(strays);
        Some(value)
    }

    /// Records that the leader was waited for.
    pub(in super::super) fn record_reaped_leader(&self) {
        self.is_reaped.store(true, Ordering::Release);
    }

    /// Kills the remaining processes. The group must not be used again: its id may soon be
    /// another's.
    pub(in super::super) fn end(&self) {
        if !self.is_over.swap(true, Ordering::AcqRel) {
            self.signal(Signal::KILL);
        }
    }

    /// Kills the remaining processes and the processes that left the group. Waits for their end, up
    /// to a short limit.
    pub(super) async fn end_all(self: &Arc<Self>) {
        let strays = lock(&self.strays).take();
        if let Some(strays) = strays {
            let group = self.clone();
            let task = spawn_blocking(move || strays.end(|| group.end()));
            // After a timeout, the task still runs by itself. If the runtime shuts down before it
            // begins, dropping the strays passes them to the sweeper.
            drop(timeout(LIMIT, task).await);
        }
        self.end();
    }

    /// Kills the remaining processes, without waiting. The sweeper kills the processes that left
    /// the group.
    pub(super) fn abandon(&self) {
        self.end();
        let strays = lock(&self.strays).take();
        drop(strays);
    }

    fn signal(&self, signal: Signal) {
        let Some(leader) = self.leader else { return };
        // A child that was started a moment ago may not lead its group yet. A missing process is
        // not an error.
        let is_sent = kill_process_group(leader, signal).is_ok();
        if !is_sent && !self.is_reaped.load(Ordering::Acquire) {
            let _ = kill_process(leader, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The strays are dropped, and so ended, afterwards.
        self.end();
    }
}
