//! The amount of work of a test: the cases of a property, the offsets of cuts, the processor time.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// The variable with the number of cases of each property. If it is set, recordings are cut at
/// every byte.
const CASES: &str = "AGENTCORE_PROPERTY_CASES";

/// The maximum length of a recording that is always cut at every byte.
const SHORT: usize = 600;
/// The distance between cuts in a longer recording, except where they are denser.
const STRIDE: usize = 7;

/// The time limit of work that should end by itself, with room for a busy machine.
const LONGEST: Duration = Duration::from_secs(1_200);

fn wanted_cases() -> Option<u32> {
    std::env::var(CASES).ok().map(|text| text.parse().unwrap())
}

/// The number of cases of a property: `default`, or the number that [`CASES`] has.
pub fn cases(default: u32) -> u32 {
    wanted_cases().unwrap_or(default)
}

/// Returns the offsets at which to cut a recorded stream, in order, including 0 and the length. A
/// short stream is cut at every offset. A longer one is cut near its line ends and multi-byte
/// characters, at its first and last offsets, and at every [`STRIDE`]th offset.
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

/// Returns the processor time of this thread; 0 where it is not available.
fn cpu_seconds() -> i64 {
    #[cfg(unix)]
    return rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime).tv_sec;
    #[cfg(not(unix))]
    return 0;
}

/// Runs `work` on a new thread, and asserts that it uses less than `max_cpu_seconds` of processor
/// time there.
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
