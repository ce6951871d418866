//! Runs: the loop, hooks, limits, permissions, child runs.
#![allow(clippy::unwrap_used, unreachable_pub)]

#[path = "../kit/mod.rs"]
mod kit;

mod agents_from_agents;
mod background;
mod background_floods;
mod background_reports;
mod call_decisions;
mod child_limits;
mod child_permissions;
mod child_runs;
mod child_sessions;
mod child_streams;
mod child_waits;
mod delegation;
mod edited_answers;
mod exact_counts;
mod first_program;
mod gate_decisions;
#[cfg(feature = "gateway")]
mod gateway;
mod handoffs;
mod history_inputs;
mod history_limits;
mod hook_depth;
mod hook_edges;
mod hook_faults;
mod hook_streams;
mod hook_texts;
mod hooks;
mod hooks_compaction;
mod hooks_context;
mod hooks_long_runs;
#[cfg(feature = "otel")]
mod hooks_otel;
mod hooks_summaries;
mod hooks_summarization;
mod hooks_todolist;
mod hooks_tracing;
mod hooks_tracing_ends;
mod human_tools;
mod inputs;
mod inputs_too_long;
mod json_values;
mod keys_answers;
mod keys_errors;
mod long_counts;
mod loop_cases;
mod loop_control;
mod loop_stops;
mod loop_streams;
mod model_lifecycle;
mod model_warnings;
mod modes_and_limits;
mod panics;
mod permission_decided;
mod permission_gate;
mod permission_hook;
mod permission_many;
mod permission_park;
mod prompt_stops;
mod prompt_tools;
mod redaction;
mod replies;
mod reruns;
mod response_limits;
mod result_limits;
mod run_edges;
mod run_oddities;
mod run_properties;
mod seams;
mod session_compaction;
#[cfg(all(target_os = "linux", feature = "tools"))]
mod soak;
mod source_timeouts;
mod state_views;
mod steered_inputs;
mod store_hangs;
#[cfg(feature = "yaml")]
mod subagent_files;
mod subagents;
mod suppressed_results;
mod tools_in_runs;
mod unmatched_rules;
mod unpolled_time;
