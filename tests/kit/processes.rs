//! Processes that tests start.

use std::cell::Cell;
use std::path::Path;
use std::time::{Duration, Instant};

/// The time limit of a command that [`timed_out`] ends: longer than any test waits.
pub const LIMIT: Duration = Duration::from_secs(300);

/// A shell, its child and a grandchild that ignores `SIGTERM`. Each writes its id to a file.
pub const FAMILY: &str = "echo $$ > one; sleep 300 & echo $! > two; \
    sh -c 'trap \"\" TERM; echo $$ > three; while true; do sleep 300; done' & wait";

/// A shell that ends at `SIGTERM`, and a child that then takes a moment to write `cleaned`. The
/// file `up` exists once the child runs.
pub const OUTLIVED: &str = "sh -c 'trap \"sleep 0.3; : > cleaned; exit 0\" TERM; : > up; \
    while true; do sleep 0.05; done' > /dev/null 2>&1 & wait";

/// Returns the ids of a [`FAMILY`] that runs in `folder`.
pub async fn family(folder: &Path) -> [u32; 3] {
    let path = |name| folder.join(name);
    [
        pid_in(&path("one")).await,
        pid_in(&path("two")).await,
        pid_in(&path("three")).await,
    ]
}

/// Waits until a file has a process id, and returns it.
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

/// Runs `work`, and advances tokio's clock by `limit` after `begun`, so that the time limit never
/// ends before `begun` does, also on a slow machine. Returns both outputs.
///
/// If the clock was advanced before the command's time limit began, it is advanced again after 20
/// seconds, which is longer than the time between the two signals of a command.
pub async fn timed_out<T, B>(
    work: impl Future<Output = T>,
    begun: impl Future<Output = B>,
    limit: Duration,
) -> (T, B) {
    let is_done = Cell::new(false);
    let work = async {
        let output = work.await;
        is_done.set(true);
        output
    };
    let begun = async {
        let output = begun.await;
        while !is_done.get() {
            tokio::time::pause();
            tokio::time::advance(limit).await;
            tokio::time::resume();
            let retry = Instant::now() + Duration::from_secs(20);
            while !is_done.get() && Instant::now() < retry {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        output
    };
    tokio::join!(work, begun)
}

/// Waits until a file exists.
pub async fn written(path: &Path) {
    until(&format!("{path:?} was not written"), || path.exists()).await;
}

/// Waits until `is_so` returns `true`. Panics with `what` after a minute.
pub async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
