//! The rules of this repository, checked on its own files.
//!
//! * [`layers`]: which folder may import which, and that there are no circles.
//! * [`files`]: how long a file may be, that it says what it is for, what a `mod.rs` may hold.
//! * [`language`]: how doc comments open, and which words they avoid.
//! * [`words`]: what never belongs in a commit.
//! * [`dependencies`]: which crates are used and why, and under which licences.
//! * [`clock`]: who reads the clock on the wall.

mod clock;
mod dependencies;
mod files;
mod language;
mod layers;
mod lexer;
mod paths;
mod tree;
mod words;

/// Fails with every violation, one a line, under what to do about them.
#[track_caller]
fn assert_none(violations: &[String], advice: &str) {
    assert!(
        violations.is_empty(),
        "{advice}\n  {}\n",
        violations.join("\n  ")
    );
}
