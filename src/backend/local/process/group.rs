//! A process group and its end.

use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// All processes a command started that did not leave for a group of their own. Dropping it
/// kills them, without waiting.
#[derive(Debug)]
pub(super) struct Group {
    leader: Option<Pid>,
    over: AtomicBool,
}

impl Group {
    /// The group whose leader has, or is about to get, this process id.
    pub(super) fn new(leader: u32) -> Self {
        let leader = i32::try_from(leader).ok().and_then(Pid::from_raw);
        Self {
            leader,
            over: AtomicBool::new(false),
        }
    }

    pub(super) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Kills what is left. The group must not be used again: its id may soon be another's.
    pub(super) fn end(&self) {
        if !self.over.swap(true, Ordering::AcqRel) {
            self.signal(Signal::KILL);
        }
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
    }
}
