//! The reaper of `docker` programs whose outcome is not used.

use std::process::Child;
use std::sync::Mutex;
use std::thread::{Builder, sleep};
use std::time::{Duration, Instant};

use crate::util::sync::lock;

use super::super::process::Group;

/// The time between two checks.
const INTERVAL: Duration = Duration::from_millis(50);

/// The calls that have not ended. One thread waits for all of them.
static REAPER: Mutex<Reaper> = Mutex::new(Reaper {
    calls: Vec::new(),
    is_running: false,
});

struct Reaper {
    /// Each with the time at which it is killed.
    calls: Vec<(Child, Instant)>,
    is_running: bool,
}

/// Lets a thread wait for the end of a call, and kill it with its group after `limit`.
pub(super) fn reap(child: Child, limit: Duration) {
    let mut reaper = lock(&REAPER);
    reaper.calls.push((child, Instant::now() + limit));
    if !reaper.is_running {
        // Without a thread the calls wait for the next one.
        let thread = Builder::new().name("agentcore-docker".to_owned());
        reaper.is_running = thread.spawn(run).is_ok();
    }
}

fn run() {
    loop {
        let mut reaper = lock(&REAPER);
        reaper
            .calls
            .retain_mut(|(child, deadline)| !has_ended(child, *deadline));
        if reaper.calls.is_empty() {
            reaper.is_running = false;
            return;
        }

        drop(reaper);
        sleep(INTERVAL);
    }
}

fn has_ended(child: &mut Child, deadline: Instant) -> bool {
    match child.try_wait() {
        Ok(None) => {
            if Instant::now() >= deadline {
                // Its end is found by the next check.
                Group::new(child.id(), None).end();
            }
            false
        }
        Ok(Some(_)) | Err(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::path::Path;
    use std::process::Command;

    use super::*;

    #[test]
    fn calls_that_hang_are_killed_by_one_thread() {
        let pids: Vec<_> = (0..20)
            .map(|_| {
                let child = Command::new("sleep").arg("600").process_group(0).spawn();
                let child = child.unwrap();
                let pid = child.id();
                reap(child, Duration::ZERO);
                pid
            })
            .collect();
        let is_left = |pid: &u32| Path::new(&format!("/proc/{pid}")).exists();
        for _ in 0..600 {
            if !pids.iter().any(is_left) {
                return;
            }
            sleep(INTERVAL);
        }
        panic!("a process is left");
    }
}
