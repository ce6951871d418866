//! Tests that run in a process of their own, such as cases that would abort it.

use std::process::Command;

const CHILD: &str = "AGENTCORE_SMALL_STACK";
/// The stack size of a runtime's worker.
pub const STACK: usize = 2 * 1024 * 1024;

/// Runs `case` on a thread with a small stack in a child process, and asserts that it succeeds.
/// `test` is the path of the calling test within the test binary.
pub fn survives(test: &str, case: impl FnOnce() + Send + 'static) {
    if std::env::var_os(CHILD).is_some() {
        let thread = std::thread::Builder::new().stack_size(STACK);
        return thread.spawn(case).unwrap().join().unwrap();
    }

    let mut program = Command::new(std::env::current_exe().unwrap());
    passes_alone(&mut program, test, CHILD);
}

/// Runs a test in a child process that has the variable `mark`, and asserts that it passes.
/// `program` starts this test binary; `test` is the path of the test within it.
pub fn passes_alone(program: &mut Command, test: &str, mark: &str) {
    let output = program
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(mark, "1")
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stdout}{stderr}");
    assert!(stdout.contains("1 passed"), "{stdout}");
}
