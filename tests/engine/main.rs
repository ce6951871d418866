//! Runs: the loop, hooks, limits, permissions, child runs.
#![allow(clippy::unwrap_used, unreachable_pub)]

#[path = "../kit/mod.rs"]
mod kit;

mod background;
mod call_decisions;
mod child_permissions;
mod child_runs;
mod child_waits;
mod edited_answers;
mod exact_counts;
mod first_program;
mod gate_decisions;
mod history_inputs;
mod history_limits;
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
mod inputs;
mod inputs_too_long;
mod json_values;
mod keys_answers;
mod keys_errors;
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
mod reruns;
mod response_limits;
mod result_limits;
mod run_edges;
mod run_oddities;
mod run_properties;
mod seams;
#[cfg(all(target_os = "linux", feature = "tools"))]
mod soak;
mod source_timeouts;
mod state_views;
mod store_hangs;
mod suppressed_results;
mod tools_in_runs;
mod unpolled_time;
