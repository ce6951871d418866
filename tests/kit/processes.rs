//! Processes that tests started, and whether they are still there.

use std::path::Path;
use std::time::{Duration, Instant};

/// A shell, its child and a grandchild that ignores `SIGTERM`, each of which writes its id.
pub const FAMILY: &str = "echo $$ > one; sleep 300 & echo $! > two; \
    sh -c 'trap \"\" TERM; echo $$ > three; while true; do sleep 300; done' & wait";

/// The ids of a [`FAMILY`] that began in `folder`.
pub async fn family(folder: &Path) -> [u32; 3] {
    let path = |name| folder.join(name);
    [
        pid_in(&path("one")).await,
        pid_in(&path("two")).await,
        pid_in(&path("three")).await,
    ]
}

/// Reads a process id from a file once it is there.
pub async fn pid_in(path: &Path) -> u32 {
    let read = || {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.trim().parse().ok()
    };
    until(&format!("{path:?} was not written"), || read().is_some()).await;
    read().unwrap()
}

pub fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit(") ")
        .next()
        .and_then(|rest| rest.chars().next());
    state.is_some_and(|state| state != 'Z' && state != 'X')
}

pub async fn dies(pid: u32) {
    until(&format!("process {pid} is still alive"), || !is_alive(pid)).await;
}

/// Waits for something that is about to happen.
pub async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
