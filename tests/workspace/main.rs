//! Backends, files, commands, and the tools and hooks over them.
#![allow(clippy::unwrap_used, unreachable_pub)]

#[path = "../kit/mod.rs"]
mod kit;

#[cfg(all(feature = "tools", unix))]
mod backend_local;
mod backend_memory;
#[cfg(all(feature = "tools", unix))]
mod backend_process;
#[cfg(all(feature = "tools", unix))]
mod checkpoints;
mod debug_texts;
#[cfg(all(feature = "docker", target_os = "linux"))]
mod docker;
#[cfg(all(feature = "tools", unix))]
mod hooks_eviction;
#[cfg(feature = "tools")]
mod hooks_filesystem;
mod hooks_memory;
#[cfg(feature = "tools")]
mod hooks_moved_results;
#[cfg(feature = "yaml")]
mod hooks_skills;
#[cfg(all(feature = "jsonl", feature = "tools", target_os = "linux"))]
mod host_environment;
#[cfg(all(feature = "tools", unix))]
mod hostile_edits;
#[cfg(all(feature = "tools", unix))]
mod hostile_grep;
#[cfg(all(feature = "tools", unix))]
mod hostile_names;
#[cfg(all(feature = "tools", unix))]
mod hostile_patterns;
#[cfg(feature = "time")]
mod memory_notes;
#[cfg(all(feature = "tools", unix))]
mod path_cases;
#[cfg(all(feature = "tools", unix))]
mod permission_arrivals;
#[cfg(all(feature = "tools", unix))]
mod permission_links;
#[cfg(all(feature = "tools", unix))]
mod permission_names;
#[cfg(feature = "tools")]
mod permission_protected;
#[cfg(feature = "tools")]
mod permission_readable;
#[cfg(all(feature = "tools", unix))]
mod permission_tree_copies;
mod permission_trees;
#[cfg(all(feature = "time", feature = "yaml"))]
mod prompt_context;
#[cfg(all(feature = "sandbox", feature = "tools", target_os = "linux"))]
mod sandbox;
#[cfg(all(feature = "tools", target_os = "linux"))]
mod strays;
#[cfg(all(feature = "tools", unix))]
mod tools_background;
#[cfg(feature = "calc")]
mod tools_calculate;
#[cfg(feature = "time")]
mod tools_datetime;
#[cfg(all(feature = "tools", unix))]
mod tools_files;
#[cfg(feature = "tools")]
mod tools_keys;
#[cfg(all(feature = "tools", unix))]
mod tools_loads;
#[cfg(feature = "tools")]
mod tools_odd_input;
#[cfg(all(feature = "tools", unix))]
mod tools_search;
#[cfg(all(feature = "tools", unix))]
mod tools_shell;
