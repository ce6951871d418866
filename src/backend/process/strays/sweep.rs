//! [`Sweep`], which finds and ends the processes of a command, even if they fork quickly.

use std::collections::HashMap;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::evidence::{Evidence, Relation};
use super::proc;
use super::process::Process;

/// The maximum number of times that a scan examines the processes that were started meanwhile.
/// After that it is not complete, and all processes are scanned again.
const ROUNDS: usize = 256;
/// The maximum size of a range of new ids; above it, all processes are scanned again instead.
const MAX_RANGE: i32 = 4_096;
/// The number of scans without a result that are enough where scans cannot be proven complete.
const EMPTY_SCANS: u32 = 3;
/// The pauses between two scans: longer each time, up to the last.
const PAUSE: Duration = Duration::from_millis(1);
const MAX_PAUSE: Duration = Duration::from_millis(16);

/// The search for the processes of one command.
///
/// A process that is killed leaves children without a parent to recognize them by, and a process
/// that forks faster than the search is never reached. So all strays that are found are stopped
/// first: a stopped process cannot fork, exit or change. They are killed when a scan finds no new
/// process.
#[derive(Debug)]
pub(super) struct Sweep {
    evidence: Evidence,
    /// True if the ids of the group and the session are still the command's.
    is_session_valid: bool,
    strays: HashMap<i32, Stray>,
    /// The members of the group in the last scan: they may have left it since.
    members: Vec<i32>,
    /// True if the last scan left processes that were still starting a program.
    has_starting: bool,
    /// The newest id at the end of the last scan; `None` if that scan was not complete.
    seen_up_to: Option<i32>,
}

#[derive(Clone, Copy, Debug)]
struct Stray {
    process: Process,
    state: StrayState,
}

impl Stray {
    /// Sends a signal, which puts the process into `state`.
    fn signal(&mut self, signal: Signal, state: StrayState) {
        self.state = if proc::signal(&self.process, signal) {
            state
        } else {
            StrayState::Ended
        };
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StrayState {
    Running,
    Stopped,
    Killed,
    /// It exited on its own, or may not be sent signals.
    Ended,
}

/// The treatment of strays by a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScanMode {
    /// They are recorded.
    Observe,
    /// They are recorded and stopped.
    Stop,
}

/// The result of a scan of all processes.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScanResult {
    /// The number of strays that were recorded for the first time.
    pub(super) new_strays: usize,
    /// True if every process was examined, including those started meanwhile.
    pub(super) is_complete: bool,
}

impl Sweep {
    pub(super) fn new(evidence: Evidence) -> Self {
        Self {
            evidence,
            is_session_valid: true,
            strays: HashMap::new(),
            members: Vec::new(),
            has_starting: false,
            seen_up_to: None,
        }
    }

    /// Returns `true` if the group has processes other than its watcher, or if that is unknown. The
    /// watcher cannot be identified, but it ends last: one process alone is the watcher.
    pub(super) fn has_members(&self) -> bool {
        let Ok(ids) = proc::ids() else { return true };
        let processes = ids.into_iter().filter_map(proc::read);
        let members = processes.filter(|process| self.evidence.is_member(process));
        members.count() > 1
    }

    /// Stops and kills processes until a complete scan finds none. Returns `false` if the deadline
    /// was reached before. All recorded strays are killed in either case.
    pub(super) fn end(&mut self, deadline: Instant) -> bool {
        let mut empty_scans = 0;
        let mut pause = PAUSE;
        let mut scan = self.resume_scan();
        loop {
            empty_scans = if scan.new_strays == 0 {
                empty_scans + 1
            } else {
                0
            };
            let is_settled =
                scan.new_strays == 0 && (scan.is_complete || empty_scans >= EMPTY_SCANS);
            if is_settled && !self.kill() {
                self.wait_for_killed(deadline);
                return true;
            }

            if Instant::now() >= deadline {
                self.kill();
                return false;
            }

            if scan.new_strays == 0 {
                sleep(pause);
                pause = (pause * 2).min(MAX_PAUSE);
            }

            scan = self.scan(ScanMode::Stop);
        }
    }

    /// Scans the processes that may have changed since the last scan, if that was complete and no
    /// stray is recorded; otherwise all processes.
    fn resume_scan(&mut self) -> ScanResult {
        match self.seen_up_to {
            Some(before) if self.strays.is_empty() => {
                let members = std::mem::take(&mut self.members);
                let new_strays = self.add_strays(&members, ScanMode::Stop);
                self.scan_from(before, new_strays, ScanMode::Stop)
            }
            _ => self.scan(ScanMode::Stop),
        }
    }

    /// Waits until the killed processes have ended, or until the deadline: the kernel may hold a
    /// process up.
    fn wait_for_killed(&self, deadline: Instant) {
        let killed_processes = self
            .strays
            .values()
            .filter(|stray| stray.state == StrayState::Killed);
        for stray in killed_processes {
            while again(&stray.process).is_some() && Instant::now() < deadline {
                sleep(PAUSE);
            }
        }
    }

    /// Scans all processes once, and stops the strays in [`ScanMode::Stop`].
    pub(super) fn scan(&mut self, mode: ScanMode) -> ScanResult {
        let mut scan = ScanResult {
            new_strays: 0,
            is_complete: false,
        };

        self.is_session_valid &= !self.evidence.is_leader_replaced();
        self.members.clear();
        self.has_starting = false;
        self.seen_up_to = None;
        if mode == ScanMode::Stop {
            scan.new_strays += self.stop_running();
        }

        let last_id = proc::last_id();
        let Ok(mut ids) = proc::ids() else {
            return scan;
        };

        // Newest first, also after process ids wrapped around: the processes of a fork loop are the
        // newest.
        let newest_id = proc::last_id().unwrap_or(i32::MAX);
        ids.sort_unstable_by_key(|id| newest_id.wrapping_sub(*id).cast_unsigned());
        scan.new_strays += self.add_strays(&ids, mode);
        match last_id {
            Some(last_id) => self.scan_from(last_id, scan.new_strays, mode),
            None => scan,
        }
    }

    /// Scans the processes whose ids were assigned after `before`, newest first, until none was
    /// assigned meanwhile: then the scan is complete.
    fn scan_from(&mut self, mut before: i32, new_strays: usize, mode: ScanMode) -> ScanResult {
        let mut scan = ScanResult {
            new_strays,
            is_complete: false,
        };

        for _ in 0..ROUNDS {
            match proc::last_id() {
                Some(last) if last == before => {
                    scan.is_complete = !self.has_starting;
                    self.seen_up_to = scan.is_complete.then_some(last);
                    return scan;
                }
                Some(last) if last > before && last - before <= MAX_RANGE => {
                    let ids: Vec<i32> = (before + 1..=last).rev().collect();
                    scan.new_strays += self.add_strays(&ids, mode);
                    before = last;
                }
                _ => return scan,
            }
        }

        scan
    }

    /// Records the strays among the ids. Returns the number of those that were not recorded before.
    fn add_strays(&mut self, ids: &[i32], mode: ScanMode) -> usize {
        let mut undecided_processes = Vec::new();
        let mut starting_processes = Vec::new();
        let mut new = 0;
        for id in ids {
            let Some(process) = proc::read(*id) else {
                continue;
            };

            if self.is_recorded(&process) {
                continue;
            }

            match self.evidence.relation(&process, self.is_session_valid) {
                Relation::Stray => new += usize::from(self.add(process, mode)),
                Relation::DecidedByParent => undecided_processes.push(process),
                Relation::Starting => starting_processes.push(process),
                Relation::Member => self.members.push(*id),
                Relation::Unrelated => {}
            }
        }

        new += self.add_starting(starting_processes, &mut undecided_processes, mode);
        new + self.add_children(undecided_processes, mode)
    }

    /// Examines processes again, after longer and longer pauses, until each has started its
    /// program. Returns the number of strays among them, and adds the other processes to
    /// `undecided`.
    fn add_starting(
        &mut self,
        mut starting: Vec<Process>,
        undecided: &mut Vec<Process>,
        mode: ScanMode,
    ) -> usize {
        let mut new = 0;
        let mut pause = PAUSE;
        while !starting.is_empty() && pause <= MAX_PAUSE {
            sleep(pause);
            pause *= 2;
            for process in std::mem::take(&mut starting) {
                let Some(process) = again(&process) else {
                    continue;
                };

                match self.evidence.relation(&process, self.is_session_valid) {
                    Relation::Stray => new += usize::from(self.add(process, mode)),
                    Relation::Starting => starting.push(process),
                    _ => undecided.push(process),
                }
            }
        }

        self.has_starting |= !starting.is_empty();
        undecided.append(&mut starting);
        new
    }

    /// Adds the processes whose parents belong to the command, and their children in turn.
    fn add_children(&mut self, mut undecided: Vec<Process>, mode: ScanMode) -> usize {
        let mut new = 0;
        loop {
            let old_count = undecided.len();
            let (children, other_processes): (Vec<_>, Vec<_>) = undecided
                .into_iter()
                .partition(|process| self.is_parent(process.parent));
            for child in children {
                new += usize::from(self.add(child, mode));
            }

            if other_processes.is_empty() || other_processes.len() == old_count {
                return new;
            }

            undecided = other_processes;
        }
    }

    fn is_recorded(&self, process: &Process) -> bool {
        let entry = self.strays.get(&process.id);
        entry.is_some_and(|entry| entry.process.started == process.started)
    }

    /// Returns `true` if that process, as it is now, belongs to the command.
    fn is_parent(&self, id: i32) -> bool {
        proc::read(id).is_some_and(|parent| {
            self.is_recorded(&parent) || self.is_session_valid && self.evidence.is_member(&parent)
        })
    }

    /// Records a stray. Returns `false` if the id is a thread's.
    fn add(&mut self, process: Process, mode: ScanMode) -> bool {
        // An id that was assigned during the scan may be a thread's.
        if !proc::is_process(process.id) {
            return false;
        }

        let mut entry = Stray {
            process,
            state: StrayState::Running,
        };
        if mode == ScanMode::Stop {
            entry.signal(Signal::STOP, StrayState::Stopped);
        }
        self.strays.insert(process.id, entry);
        true
    }

    /// Stops the strays that are running. Returns their number.
    fn stop_running(&mut self) -> usize {
        let mut count = 0;
        for stray in self.strays.values_mut() {
            if stray.state == StrayState::Running {
                stray.signal(Signal::STOP, StrayState::Stopped);
                count += 1;
            }
        }

        count
    }

    /// Kills the stopped processes. Returns `true` if there were any.
    fn kill(&mut self) -> bool {
        let mut has_killed = false;
        for stray in self.strays.values_mut() {
            if stray.state == StrayState::Stopped {
                stray.signal(Signal::KILL, StrayState::Killed);
                has_killed = true;
            }
        }

        has_killed
    }
}

/// Reads the process again; `None` if it has ended.
fn again(process: &Process) -> Option<Process> {
    proc::read(process.id).filter(|now| now.started == process.started)
}
