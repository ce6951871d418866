//! Cases that would abort the process: each runs in one of its own.

use std::process::Command;

const CHILD: &str = "AGENTCORE_SMALL_STACK";
/// The stack of a runtime's worker.
pub const STACK: usize = 2 * 1024 * 1024;

/// Runs `case` on a thread with a small stack in a child process and expects it to end well.
/// `test` is the path of the test that calls this, from the root of the tests.
pub fn survives(test: &str, case: impl FnOnce() + Send + 'static) {
    if std::env::var_os(CHILD).is_some() {
        let thread = std::thread::Builder::new().stack_size(STACK);
        return thread.spawn(case).unwrap().join().unwrap();
    }

    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stdout}{stderr}");
    assert!(stdout.contains("1 passed"), "{stdout}");
}
