//! The amount of work of a test: cases of a property, places to cut at, processor time.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Sets the cases of each property; with it, recordings are cut at every byte.
const CASES: &str = "AGENTCORE_PROPERTY_CASES";

/// The recordings up to this length are always cut at every byte.
const SHORT: usize = 600;
/// The distance between the cuts in the plain parts of a longer recording.
const STRIDE: usize = 7;

/// The time after which work without an end is given up, also on a machine with much other work.
const LONGEST: Duration = Duration::from_secs(1_200);

fn wanted_cases() -> Option<u32> {
    std::env::var(CASES).ok().map(|text| text.parse().unwrap())
}

/// The number of cases of a property: `default`, or as many as the environment asks for.
pub fn cases(default: u32) -> u32 {
    wanted_cases().unwrap_or(default)
}

/// Returns the offsets at which to cut a recorded stream, in order, with 0 and the length. For a
/// short stream, these are all offsets. For a longer one, they are the offsets near the ends of
/// lines and in characters of several bytes, the first and the last ones, and some of the others.
pub fn cuts(bytes: &[u8]) -> Vec<usize> {
    let len = bytes.len();
    let is_special = |offset: usize| {
        let around = &bytes[offset.saturating_sub(3)..(offset + 3).min(len)];
        around
            .iter()
            .any(|byte| matches!(byte, b'\n' | b'\r') || !byte.is_ascii())
    };

    let is_thorough = len <= SHORT || wanted_cases().is_some();
    (0..=len)
        .filter(|offset| {
            let is_end = *offset < 16 || len - offset < 16;
            is_thorough || is_end || offset % STRIDE == 0 || is_special(*offset)
        })
        .collect()
}

/// The processor time of this thread, where the system tells it.
fn cpu_seconds() -> i64 {
    #[cfg(unix)]
    return rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime).tv_sec;
    #[cfg(not(unix))]
    return 0;
}

/// Does `work` on a thread of its own, and expects it to use fewer seconds of processor time there
/// than `max_cpu_seconds`.
pub fn ends_within<T: Send + 'static>(
    max_cpu_seconds: i64,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let result = work();
        drop(sender.send((result, cpu_seconds())));
    });
    let (result, seconds) = receiver.recv_timeout(LONGEST).expect("the work ends");
    assert!(
        seconds < max_cpu_seconds,
        "{seconds} s of processor time, not less than {max_cpu_seconds}"
    );
    result
}
