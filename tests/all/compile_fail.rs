//! What the compiler says to the mistakes users make: `tests/ui/*.rs` beside the expected
//! `*.stderr`.
//!
//! `TRYBUILD=overwrite cargo test --all-features --test all compile_fail` writes the messages
//! anew. They are those of one compiler, so another one skips the test, and of all features
//! together, since they list what else there is.

use std::process::Command;

/// Whose words the `*.stderr` files are.
const COMPILER: &str = "rustc 1.95.";

#[test]
fn mistakes_are_explained() {
    let version = Command::new("rustc").arg("--version").output().unwrap();
    let version = String::from_utf8(version.stdout).unwrap();
    if !version.starts_with(COMPILER) {
        eprintln!("skipped: tests/ui speaks for {COMPILER}x, this is {version}");
        return;
    }
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
