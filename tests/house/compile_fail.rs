//! The compiler's errors for mistakes that users make: `tests/ui/*.rs` with the expected
//! `*.stderr`.
//!
//! `TRYBUILD=overwrite cargo test --features testing --test house compile_fail` writes the errors.
//! They depend on the compiler, so another version skips the test, and on the features, since they
//! list other items. The compiler names closures and async blocks by the path of their file, and
//! lays out its text by the length of the path: cases use named functions and types instead, so
//! that a copy of the sources elsewhere gets the same errors.

use std::fs;
use std::process::Command;

/// The compiler that wrote the `*.stderr` files.
const COMPILER: &str = "rustc 1.95.";

#[test]
fn compiler_messages_are_as_recorded() {
    let version = Command::new("rustc").arg("--version").output().unwrap();
    let version = String::from_utf8(version.stdout).unwrap();
    if !version.starts_with(COMPILER) {
        eprintln!("skipped: tests/ui has the messages of {COMPILER}x, this is {version}");
        return;
    }
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}

#[test]
fn recorded_messages_contain_no_paths_or_closure_types() {
    let files = fs::read_dir("tests/ui")
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let recorded = files.filter(|path| path.extension().is_some_and(|end| end == "stderr"));
    let recorded: Vec<_> = recorded.collect();
    assert!(recorded.len() > 10);
    for path in recorded {
        let text = fs::read_to_string(&path).unwrap();
        for part in [
            "@$DIR",
            "closure@",
            "async block@",
            "full name for the type",
        ] {
            assert!(!text.contains(part), "{} has {part:?}", path.display());
        }
    }
}
