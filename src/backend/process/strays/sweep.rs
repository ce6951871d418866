//! [`Sweep`], which finds and ends the processes of a command, even if they fork quickly.

use std::collections::HashMap;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::evidence::{Evidence, Relation};
use super::proc;
use super::process::Process;

/// The number of scans of processes that were started during a scan, before all processes are
/// scanned again.
const ROUNDS: usize = 256;
/// The maximum size of a range of new ids; above it, all processes are examined instead.
const MAX_RANGE: i32 = 4_096;
/// The number of scans without a result that are enough where scans cannot be proven complete.
const EMPTY_SCANS: u32 = 3;
/// The pauses between two scans: longer each time, up to the last.
const PAUSE: Duration = Duration::from_millis(1);
const MAX_PAUSE: Duration = Duration::from_millis(16);

/// The search for the processes of one command.
///
/// A process that is killed leaves children without a parent to recognize them by, and a process
/// that forks faster than the search is never reached. So all recognized processes are stopped
/// first: a stopped process cannot fork, exit or change. They are killed when a scan finds no new
/// process.
#[derive(Debug)]
pub(super) struct Sweep {
    evidence: Evidence,
    is_session_valid: bool,
    known: HashMap<i32, KnownProcess>,
    /// The members of the group in the last scan: they may have left it since.
    members: Vec<i32>,
    /// True if the last scan left processes whose relation is unclear.
    has_unclear: bool,
    /// The last id that was assigned when the last scan was complete.
    seen_up_to: Option<i32>,
}

#[derive(Clone, Copy, Debug)]
struct KnownProcess {
    process: Process,
    state: StrayState,
}

impl KnownProcess {
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
    /// It is running.
    Seen,
    Stopped,
    Killed,
    /// It exited on its own, or may not be sent signals.
    Ended,
}

/// The treatment of recognized processes by a scan.
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
    /// The number of processes recognized for the first time.
    pub(super) new: usize,
    /// True if every process was examined, including those started meanwhile.
    pub(super) is_complete: bool,
}

impl Sweep {
    pub(super) fn new(evidence: Evidence) -> Self {
        Self {
            evidence,
            is_session_valid: true,
            known: HashMap::new(),
            members: Vec::new(),
            has_unclear: false,
            seen_up_to: None,
        }
    }

    /// Stops and kills processes until a complete scan finds none. Returns `false` if the deadline
    /// was reached before. All recognized processes are killed in either case.
    pub(super) fn end(&mut self, deadline: Instant) -> bool {
        let mut empty_scans = 0;
        let mut pause = PAUSE;
        let mut scan = self.resume_scan();
        loop {
            empty_scans = if scan.new == 0 { empty_scans + 1 } else { 0 };
            let is_settled = scan.new == 0 && (scan.is_complete || empty_scans >= EMPTY_SCANS);
            if is_settled && !self.kill() {
                self.wait_for_killed(deadline);
                return true;
            }

            if Instant::now() >= deadline {
                self.kill();
                return false;
            }

            if scan.new == 0 {
                sleep(pause);
                pause = (pause * 2).min(MAX_PAUSE);
            }

            scan = self.scan(ScanMode::Stop);
        }
    }

    /// Scans the processes that may have changed since the last complete scan, if that scan found
    /// none; otherwise all processes.
    fn resume_scan(&mut self) -> ScanResult {
        match self.seen_up_to {
            Some(before) if self.known.is_empty() => {
                let members = std::mem::take(&mut self.members);
                let new = self.recognize(&members, ScanMode::Stop);
                self.scan_from(before, new, ScanMode::Stop)
            }
            _ => self.scan(ScanMode::Stop),
        }
    }

    /// Waits until the killed processes have ended, or until the deadline: the kernel may hold a
    /// process up.
    fn wait_for_killed(&self, deadline: Instant) {
        let killed_processes = self
            .known
            .values()
            .filter(|known| known.state == StrayState::Killed);
        for known in killed_processes {
            while again(&known.process).is_some() && Instant::now() < deadline {
                sleep(PAUSE);
            }
        }
    }

    /// Scans all processes once, and stops the recognized processes in [`ScanMode::Stop`].
    pub(super) fn scan(&mut self, mode: ScanMode) -> ScanResult {
        let mut scan = ScanResult {
            new: 0,
            is_complete: false,
        };

        self.is_session_valid &= !self.evidence.is_leader_replaced();
        self.members.clear();
        self.has_unclear = false;
        self.seen_up_to = None;
        if mode == ScanMode::Stop {
            scan.new += self.stop_seen();
        }

        let last_id = proc::last_id();
        let Ok(mut ids) = proc::ids() else {
            return scan;
        };

        // Newest first, also after process ids wrapped around: the processes of a fork loop are the
        // newest.
        let newest_id = proc::last_id().unwrap_or(i32::MAX);
        ids.sort_unstable_by_key(|id| newest_id.wrapping_sub(*id).cast_unsigned());
        scan.new += self.recognize(&ids, mode);
        match last_id {
            Some(last_id) => self.scan_from(last_id, scan.new, mode),
            None => scan,
        }
    }

    /// Scans the processes whose ids were assigned after `before`, newest first, until none was
    /// assigned meanwhile: then the scan is complete.
    fn scan_from(&mut self, mut before: i32, new: usize, mode: ScanMode) -> ScanResult {
        let mut scan = ScanResult {
            new,
            is_complete: false,
        };

        for _ in 0..ROUNDS {
            match proc::last_id() {
                Some(last) if last == before => {
                    scan.is_complete = !self.has_unclear;
                    self.seen_up_to = scan.is_complete.then_some(last);
                    return scan;
                }
                Some(last) if last > before && last - before <= MAX_RANGE => {
                    let ids: Vec<i32> = (before + 1..=last).rev().collect();
                    scan.new += self.recognize(&ids, mode);
                    before = last;
                }
                _ => return scan,
            }
        }

        scan
    }

    /// Returns how many of the ids are strays that were not known.
    fn recognize(&mut self, ids: &[i32], mode: ScanMode) -> usize {
        let mut unknown_processes = Vec::new();
        let mut unclear_processes = Vec::new();
        let mut new = 0;
        for id in ids {
            let Some(process) = proc::read(*id) else {
                continue;
            };

            if self.is_known(&process) {
                continue;
            }

            match self.evidence.relation(&process, self.is_session_valid) {
                Relation::Stray => new += self.add(process, mode),
                Relation::Unknown => unknown_processes.push(process),
                Relation::Unclear => unclear_processes.push(process),
                Relation::Member => self.members.push(*id),
                Relation::Other => {}
            }
        }

        new += self.recognize_unclear(unclear_processes, &mut unknown_processes, mode);
        new + self.add_children(unknown_processes, mode)
    }

    /// Examines processes again, after longer and longer pauses, until the relation of each is
    /// clear. Returns the number of strays among them, and adds the other processes to `unknown`.
    fn recognize_unclear(
        &mut self,
        mut unclear: Vec<Process>,
        unknown: &mut Vec<Process>,
        mode: ScanMode,
    ) -> usize {
        let mut new = 0;
        let mut pause = PAUSE;
        while !unclear.is_empty() && pause <= MAX_PAUSE {
            sleep(pause);
            pause *= 2;
            for process in std::mem::take(&mut unclear) {
                let Some(process) = again(&process) else {
                    continue;
                };

                match self.evidence.relation(&process, self.is_session_valid) {
                    Relation::Stray => new += self.add(process, mode),
                    Relation::Unclear => unclear.push(process),
                    _ => unknown.push(process),
                }
            }
        }

        self.has_unclear |= !unclear.is_empty();
        unknown.append(&mut unclear);
        new
    }

    /// Adds the processes whose parents belong to the command, and their children in turn.
    fn add_children(&mut self, mut unknown: Vec<Process>, mode: ScanMode) -> usize {
        let mut new = 0;
        loop {
            let old_count = unknown.len();
            let (children, other_processes): (Vec<_>, Vec<_>) = unknown
                .into_iter()
                .partition(|process| self.is_parent(process.parent));
            for child in children {
                new += self.add(child, mode);
            }

            if other_processes.is_empty() || other_processes.len() == old_count {
                return new;
            }

            unknown = other_processes;
        }
    }

    fn is_known(&self, process: &Process) -> bool {
        let entry = self.known.get(&process.id);
        entry.is_some_and(|entry| entry.process.started == process.started)
    }

    /// Returns `true` if that process, as it is now, belongs to the command.
    fn is_parent(&self, id: i32) -> bool {
        proc::read(id).is_some_and(|parent| {
            self.is_known(&parent) || self.is_session_valid && self.evidence.is_member(&parent)
        })
    }

    fn add(&mut self, process: Process, mode: ScanMode) -> usize {
        // An id that was assigned during the scan may be a thread's.
        if !proc::is_process(process.id) {
            return 0;
        }

        let mut entry = KnownProcess {
            process,
            state: StrayState::Seen,
        };
        if mode == ScanMode::Stop {
            entry.signal(Signal::STOP, StrayState::Stopped);
        }
        self.known.insert(process.id, entry);
        1
    }

    fn stop_seen(&mut self) -> usize {
        let mut count = 0;
        for known in self.known.values_mut() {
            if known.state == StrayState::Seen {
                known.signal(Signal::STOP, StrayState::Stopped);
                count += 1;
            }
        }

        count
    }

    /// Kills the stopped processes. Returns `true` if there were any.
    fn kill(&mut self) -> bool {
        let mut is_any = false;
        for known in self.known.values_mut() {
            if known.state == StrayState::Stopped {
                known.signal(Signal::KILL, StrayState::Killed);
                is_any = true;
            }
        }

        is_any
    }
}

/// Reads the process again; `None` if it has ended.
fn again(process: &Process) -> Option<Process> {
    proc::read(process.id).filter(|now| now.started == process.started)
}
