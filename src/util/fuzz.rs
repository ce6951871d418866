//! Random inputs for parsers inside the library.
//!
//! `AGENTCORE_FUZZ_ROUNDS` sets the number of inputs, and `AGENTCORE_FUZZ_SEED` the seed of the
//! first. With `--nocapture` each test prints its slowest input.

use std::time::{Duration, Instant};

use fastrand::Rng;

/// Runs `round` on a thread with `stack_size` bytes of stack, each time with a generator from its
/// own seed. A round returns the size of its input.
pub(crate) fn fuzz(
    parser: &str,
    default_rounds: u64,
    stack_size: usize,
    mut round: impl FnMut(&mut Rng) -> usize + Send,
) {
    let rounds = setting("AGENTCORE_FUZZ_ROUNDS", default_rounds);
    let first = setting("AGENTCORE_FUZZ_SEED", 1);
    let run = || {
        let mut slowest = (Duration::ZERO, 0, 0);
        for seed in first..first + rounds {
            let start_time = Instant::now();
            let size = round(&mut Rng::with_seed(seed));
            slowest = slowest.max((start_time.elapsed(), seed, size));
        }
        slowest
    };

    let (time, seed, size) = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(stack_size);
        let running = thread.spawn_scoped(scope, run).expect("a thread");
        running.join().expect("no input makes it panic")
    });
    println!("{parser}: {rounds} inputs, slowest {time:?} for {size} bytes (seed {seed})");
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().expect("a number"))
}
