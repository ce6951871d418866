//! What the analysis of one command allocates. A program of its own, for it counts all that the
//! process allocates.
#![allow(clippy::unwrap_used)]

use std::alloc::System;

use agentcore::permission::PermissionRules;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The bytes of each command.
const COMMAND: usize = 32 * 1024;

/// The most that one decision may allocate, freed memory counted again.
const MOST: usize = 128 * 1024 * 1024;

#[test]
fn decision_about_a_long_command_allocates_some_copies_of_it() {
    let permissions = PermissionRules::new()
        .workspace("/nonexistent/project")
        .home("/nonexistent")
        .allow("Bash")
        .unwrap()
        .deny("Bash(curl:*)")
        .unwrap()
        .deny("Bash(git push:*)")
        .unwrap()
        .deny("Read(.env)")
        .unwrap();
    for (start, piece) in [
        ("cat -", "z"),
        ("cat -", "n"),
        ("rm -", "r"),
        ("sort -", "u"),
        ("git log -", "p"),
        ("cat --", "z"),
        ("ls -R", " src"),
        ("touch", " src/*"),
        ("unknown", " -a b"),
        ("unknown", " src"),
        ("", "cd src; "),
        ("", "cd -; pushd x; popd; "),
        ("", "ln -s a b; "),
        ("git", " -C x"),
    ] {
        let count = (COMMAND - start.len()) / piece.len();
        let command = format!("{start}{}", piece.repeat(count));
        let before = ALLOCATOR.stats().bytes_allocated;
        let decision = permissions.explain_command(&command).decision;
        let allocated = ALLOCATOR.stats().bytes_allocated - before;
        assert!(
            allocated < MOST,
            "{start}{piece}..: {} MiB ({decision})",
            allocated / 1024 / 1024
        );
    }
}
