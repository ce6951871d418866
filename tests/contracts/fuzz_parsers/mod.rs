//! Random hostile input for every parser of untrusted text.
//!
//! `AGENTCORE_FUZZ_ROUNDS` sets the number of inputs for each parser, and `AGENTCORE_FUZZ_SEED` the
//! seed of the first. With `--nocapture`, each test prints its slowest input.

#[cfg(feature = "http")]
mod answers;
#[cfg(feature = "config")]
mod configs;
mod generator;
mod models;
#[cfg(feature = "gateway")]
mod notes;
#[cfg(feature = "jsonl")]
mod sessions;
mod texts;
#[cfg(all(feature = "tools", unix))]
mod tools;

use std::time::{Duration, Instant};

use fastrand::Rng;

/// The default number of inputs: enough to test that a target works.
const ROUNDS: u64 = 300;
/// The stack size of a runtime's worker.
const STACK: usize = 2 * 1024 * 1024;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

/// Runs `round` with many generators, each from its own seed, on a small stack. A round returns the
/// size of its input. The test fails on a panic, an abort or a round that does not end.
fn fuzz(parser: &str, mut round: impl FnMut(&mut Rng) -> usize + Send) {
    let rounds = setting("AGENTCORE_FUZZ_ROUNDS", ROUNDS);
    let first = setting("AGENTCORE_FUZZ_SEED", 1);
    let (mut slowest, mut worst) = (Duration::ZERO, (0, 0));
    let run = || {
        for seed in first..first + rounds {
            let started = Instant::now();
            let size = round(&mut Rng::with_seed(seed));
            let time = started.elapsed();
            if time > slowest {
                (slowest, worst) = (time, (seed, size));
            }
        }
    };

    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK);
        thread.spawn_scoped(scope, run).unwrap().join().unwrap();
    });

    let (seed, size) = worst;
    println!(
        "{parser}: {rounds} inputs, slowest {slowest:?} for {size} bytes (seed {seed}); peak of the \
         process {}",
        peak()
    );
}

/// Returns the peak memory of this process, if the system reports it.
fn peak() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.unwrap_or("unknown").trim().to_owned()
}
