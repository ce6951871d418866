//! The repository itself: the rules of its files, its public names, its examples.
//!
//! * [`layers`]: the imports that are allowed between folders, without cycles.
//! * [`files`]: the length of a file, its module comment, and the contents of a `mod.rs`.
//! * [`functions`]: the length of a function.
//! * [`language`]: the openings of doc comments, and the words that they avoid.
//! * [`words`]: texts that never belong in a commit.
//! * [`dependencies`]: the crates that are used, the reasons, and their licenses.
//! * [`clock`]: the files that read the wall clock.
//! * [`model_names`]: the models that texts may name.
//! * [`price_table`]: the script behind `data/models.json`, which executes nothing that it reads.
//! * [`public_api`], [`compile_fail`]: the recorded public names and compiler messages.
//! * [`examples`], `agent_*`, [`approval_cli`]: the examples, as their users start them.
//!
//! [`tree`], [`lexer`] and [`paths`] read the sources for these tests.

#![allow(clippy::unwrap_used, unreachable_pub)]

#[cfg(all(feature = "http", feature = "tools", unix))]
mod agent_cli;
#[cfg(all(feature = "http", feature = "tools", feature = "jsonl", unix))]
mod agent_forks;
#[cfg(all(feature = "http", feature = "tools", unix))]
mod agent_help;
#[cfg(all(feature = "http", feature = "tools", unix))]
mod agent_interrupt;
#[cfg(all(feature = "http", feature = "tools", unix))]
mod agent_job;
#[cfg(all(feature = "http", feature = "tools", unix))]
mod agent_limits;
#[cfg(all(feature = "http", feature = "tools", unix))]
mod agent_notes;
#[cfg(all(feature = "http", feature = "tools", feature = "jsonl", unix))]
mod agent_previews;
#[cfg(all(feature = "http", feature = "tools", feature = "jsonl", unix))]
mod agent_rewind;
#[cfg(all(feature = "http", feature = "tools", feature = "jsonl", unix))]
mod agent_sessions;
#[cfg(all(feature = "http", feature = "tools", unix))]
mod agent_signals;
#[cfg(all(feature = "http", feature = "tools", feature = "jsonl", unix))]
mod agent_stores;
#[cfg(all(feature = "http", feature = "tools", feature = "yaml", unix))]
mod agent_subagents;
#[cfg(all(feature = "http", feature = "tools", unix))]
mod agent_terminal;
#[cfg(all(feature = "http", feature = "tools", feature = "jsonl", unix))]
mod agent_unfinished;
#[cfg(all(feature = "http", feature = "tools", feature = "jsonl", unix))]
mod agent_waiting;
#[cfg(all(feature = "http", feature = "tools", unix))]
mod agent_workspace;
#[cfg(all(feature = "http", feature = "tools", feature = "jsonl", unix))]
mod approval_cli;
mod clock;
#[cfg(all(feature = "tls", feature = "schema", not(feature = "tools")))]
mod compile_fail;
mod dependencies;
#[cfg(all(feature = "http", feature = "tools", unix))]
mod examples;
mod files;
mod functions;
mod language;
mod layers;
mod lexer;
mod model_names;
mod paths;
mod price_table;
#[cfg(all(feature = "tls", feature = "schema", feature = "tokens"))]
mod public_api;
#[cfg(all(feature = "http", feature = "tools", unix))]
#[path = "../kit/serving.rs"]
#[allow(dead_code)]
mod serving;
mod tree;
mod words;

/// Fails with `advice` and every violation, one a line.
#[track_caller]
fn assert_none(violations: &[String], advice: &str) {
    assert!(
        violations.is_empty(),
        "{advice}\n  {}\n",
        violations.join("\n  ")
    );
}
