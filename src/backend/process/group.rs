//! A process group and its end.

use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::runtime::Handle;

use super::strays;

/// All processes a command started that did not leave for a group of their own, and, where they
/// carry a mark, also those that did. Dropping it kills them, without waiting.
#[derive(Debug)]
pub(in super::super) struct Group {
    leader: Option<Pid>,
    over: AtomicBool,
    mark: Option<String>,
    searched: AtomicBool,
}

impl Group {
    /// The group whose leader has, or is about to get, this process id.
    pub(in super::super) fn new(leader: u32, mark: Option<String>) -> Self {
        let leader = i32::try_from(leader).ok().and_then(Pid::from_raw);
        Self {
            leader,
            over: AtomicBool::new(false),
            mark,
            searched: AtomicBool::new(false),
        }
    }

    pub(super) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Kills what is left. The group must not be used again: its id may soon be another's.
    pub(in super::super) fn end(&self) {
        if !self.over.swap(true, Ordering::AcqRel) {
            self.signal(Signal::KILL);
        }
    }

    /// Kills those that left the group, once the group itself is over.
    pub(super) async fn end_strays(&self) {
        let Some(mark) = self.take_mark() else { return };
        match Handle::try_current() {
            // Nothing depends on what a panic there would say.
            Ok(runtime) => drop(runtime.spawn_blocking(move || strays::end(&mark)).await),
            Err(_) => strays::end(&mark),
        }
    }

    fn take_mark(&self) -> Option<String> {
        let searched = self.searched.swap(true, Ordering::AcqRel);
        self.mark.clone().filter(|_| !searched)
    }

    fn signal(&self, signal: Signal) {
        let Some(leader) = self.leader else { return };
        // Who was started a moment ago may not lead a group yet. No such process is no failure.
        if kill_process_group(leader, signal).is_err() {
            let _ = kill_process(leader, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end();
        if let Some(mark) = self.take_mark() {
            // Without a thread to look for them, they stay.
            let thread = std::thread::Builder::new().name("agentcore-strays".to_owned());
            drop(thread.spawn(move || strays::end(&mark)));
        }
    }
}
