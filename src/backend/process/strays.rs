//! Finding what left its process group.
//!
//! Whoever calls `setsid`, or is a daemon, is no longer in the group of the command that started
//! it. Making this process the reaper of such orphans would do for the whole program around this
//! crate, which may wait for children of its own. So commands carry a mark in their environment,
//! which children inherit, and the mark is looked for.

use std::time::Duration;

/// The variable whose value no two commands share.
pub(in super::super) const MARK: &str = "AGENTCORE_COMMAND";

/// How many times processes are looked for: one that forks may outrun a look.
const PASSES: usize = 16;
/// Between two looks: a killed process takes a moment to go.
const PAUSE: Duration = Duration::from_millis(1);

/// More of an environment is not looked at.
#[cfg(target_os = "linux")]
const MAX_ENVIRONMENT: usize = 256 * 1024;

/// Kills every process that carries the mark and may be looked at. Blocks.
#[cfg(target_os = "linux")]
pub(super) fn end(mark: &str) {
    let needle = format!("{MARK}={mark}\0");
    for _ in 0..PASSES {
        if kill_marked(needle.as_bytes()) == 0 {
            return;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Nobody can be found where there is no `/proc`.
#[cfg(not(target_os = "linux"))]
pub(super) fn end(_mark: &str) {
    let _ = (PASSES, PAUSE);
}

#[cfg(target_os = "linux")]
fn kill_marked(needle: &[u8]) -> usize {
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return 0;
    };
    let names = processes.flatten().map(|entry| entry.file_name());
    let ids = names.filter_map(|name| name.to_str()?.parse().ok());
    let mut buffer = Vec::with_capacity(MAX_ENVIRONMENT);
    ids.filter(|id| kill_if_marked(*id, needle, &mut buffer))
        .count()
}

#[cfg(target_os = "linux")]
fn kill_if_marked(id: i32, needle: &[u8], buffer: &mut Vec<u8>) -> bool {
    use std::fs::File;
    use std::io::Read;

    use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};

    let mut is_marked = || {
        buffer.clear();
        // A zombie has none, and that of others cannot be read.
        let read = File::open(format!("/proc/{id}/environ"))
            .and_then(|file| file.take(MAX_ENVIRONMENT as u64).read_to_end(buffer));
        read.is_ok() && memchr::memmem::find(buffer, needle).is_some()
    };
    let Some(pid) = Pid::from_raw(id).filter(|_| is_marked()) else {
        return false;
    };
    match pidfd_open(pid, PidfdFlags::empty()) {
        // Its id may be another's by now: the mark is read again while the id is held.
        Ok(held) => is_marked() && pidfd_send_signal(&held, Signal::KILL).is_ok(),
        Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM) => {
            kill_process(pid, Signal::KILL).is_ok()
        }
        Err(_) => false,
    }
}
