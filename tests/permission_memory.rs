//! The memory that the analysis of a command or a call allocates. The test is a program of its own,
//! because it counts all allocations of the process.
#![allow(clippy::unwrap_used)]

use std::alloc::System;
use std::sync::Mutex;

use agentcore::permission::{Behavior, PermissionRules};
use agentcore::{FuncTool, ToolCall};
use serde_json::json;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The length of each command in bytes.
const COMMAND: usize = 32 * 1024;

/// The most that one decision may allocate, including memory that it frees.
const MOST: usize = 128 * 1024 * 1024;

/// Held by the test whose allocations are counted.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn decision_about_a_long_command_allocates_some_copies_of_it() {
    let _alone = ALONE.lock();
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
        ("cp", " -S~ a"),
        ("unzip", " -d a b"),
        ("find .", " -exec a +"),
        ("a=x; rm ", "$a"),
        (&format!("a={}; rm", "x".repeat(COMMAND / 2)), " $a"),
        ("a=x; env env env env env rm ", "$a"),
        (
            "for a in xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; do ls ",
            "\"$a\"",
        ),
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

/// The value of each loop would be ten times as long as that of the loop around it.
#[test]
fn values_of_loops_within_loops_do_not_multiply() {
    let mut command = String::from("for a in xxxxxxxxxx; do");
    for pair in ["ab", "bc", "cd", "de", "ef", "fg", "gh"] {
        let (outer, inner) = pair.split_at(1);
        let words = format!("${outer}").repeat(10);
        command += &format!(" for {inner} in \"{words}\"; do");
    }
    assert!(allocated_for(&command) < MOST);
}

#[test]
fn decision_about_texts_that_may_be_commands_keeps_the_analysis_of_a_few() {
    let _alone = ALONE.lock();
    let rules = ["Bash(curl:*)", "Read(.env)", "WebFetch(domain:evil.test)"];
    let permissions = PermissionRules::new()
        .workspace("/nonexistent/project")
        .allow("plain")
        .unwrap();
    let permissions = rules.into_iter().fold(permissions, |permissions, rule| {
        permissions.deny(rule).unwrap()
    });
    let tool = FuncTool::new("plain", "", json!({"type": "object"}), |_, _| async { "" });
    let text = "cat {a,b}{a,b}{a,b} $(x) ".repeat(100);
    let call = ToolCall::new("c", "plain", json!({"texts": vec![text; 250]}));
    let before = ALLOCATOR.stats().bytes_allocated;
    let explanation = permissions.explain(&call, &tool);
    let allocated = ALLOCATOR.stats().bytes_allocated - before;
    assert_eq!(explanation.decision, Behavior::Ask, "{explanation}");
    assert!(
        allocated < MOST,
        "{} MiB ({explanation:.100})",
        allocated / 1024 / 1024
    );
}

#[test]
fn decision_about_a_variable_with_many_listed_values_allocates_some_copies_of_them() {
    let names = "a ".repeat(COMMAND / 4);
    let command = format!("y=$(ls {names}); {}", "x=$(ls); ".repeat(1600));
    assert!(allocated_for(&command) < MOST);
    assert!(allocated_for(&"x=$(ls a);".repeat(COMMAND / 10)) < MOST);
}

#[test]
fn decision_about_builds_in_many_folders_allocates_some_copies_of_them() {
    assert!(allocated_for(&"cd a;go build;".repeat(COMMAND / 14)) < MOST);
}

/// Returns the bytes that the decision about a command allocates.
fn allocated_for(command: &str) -> usize {
    let _alone = ALONE.lock();
    let permissions = PermissionRules::new()
        .workspace("/nonexistent/project")
        .home("/nonexistent")
        .allow("Bash")
        .unwrap();
    let before = ALLOCATOR.stats().bytes_allocated;
    let _decision = permissions.explain_command(command);
    ALLOCATOR.stats().bytes_allocated - before
}
