//! Behaviour of the crate through its public API, one module a subject.
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
mod auto_traits;
#[cfg(all(feature = "tools", unix))]
mod backend_local;
mod backend_memory;
#[cfg(all(feature = "tools", unix))]
mod backend_process;
mod background;
mod call_decisions;
#[cfg(all(feature = "tools", unix))]
mod checkpoints;
mod child_permissions;
mod child_runs;
#[cfg(all(feature = "tls", feature = "schema", feature = "tokens"))]
mod compile_fail;
#[cfg(feature = "http")]
mod context_windows;
#[cfg(feature = "http")]
mod costs;
mod deep_json;
#[cfg(all(feature = "docker", target_os = "linux"))]
mod docker;
#[cfg(all(feature = "http", feature = "tools", unix))]
mod examples;
#[cfg(feature = "http")]
mod fault_server;
#[cfg(feature = "http")]
mod faults_cancel;
#[cfg(all(feature = "http", target_os = "linux", target_env = "gnu"))]
mod faults_clock;
#[cfg(feature = "http")]
mod faults_kit;
#[cfg(feature = "http")]
mod faults_model;
#[cfg(feature = "http")]
mod faults_network;
#[cfg(feature = "http")]
mod faults_thinking;
mod first_program;
#[cfg(all(feature = "http", feature = "tls"))]
mod from_env;
mod fuzz_parsers;
mod hook_edges;
mod hook_faults;
mod hook_streams;
mod hook_texts;
mod hooks;
mod hooks_compaction;
mod hooks_context;
#[cfg(all(feature = "tools", unix))]
mod hooks_eviction;
#[cfg(feature = "tools")]
mod hooks_filesystem;
mod hooks_kit;
mod hooks_long_runs;
mod hooks_memory;
#[cfg(feature = "tools")]
mod hooks_moved_results;
#[cfg(feature = "otel")]
mod hooks_otel;
#[cfg(all(feature = "tools", feature = "yaml", feature = "http"))]
mod hooks_prefix;
#[cfg(feature = "yaml")]
mod hooks_skills;
mod hooks_summaries;
mod hooks_summarization;
mod hooks_todolist;
mod hooks_tracing;
mod hooks_tracing_ends;
#[cfg(all(feature = "tools", unix))]
mod hostile_edits;
#[cfg(all(feature = "tools", unix))]
mod hostile_grep;
#[cfg(all(feature = "tools", unix))]
mod hostile_patterns;
#[cfg(feature = "yaml")]
mod hostile_values;
mod house;
mod inputs;
mod inputs_too_long;
mod keys_answers;
mod keys_errors;
mod keys_kit;
#[cfg(feature = "http")]
mod keys_servers;
mod kit;
mod linear_work;
mod loop_cases;
mod loop_control;
mod loop_stops;
mod loop_streams;
mod messages_json;
mod messages_odd;
mod messages_order;
mod messages_repair;
mod messages_validate;
mod modes_and_limits;
#[cfg(feature = "http")]
mod ollama;
#[cfg(feature = "http")]
mod openai;
mod outside_figures;
mod panics;
#[cfg(all(feature = "tools", unix))]
mod path_cases;
#[cfg(unix)]
mod permission_bash_diff;
mod permission_corpus;
mod permission_decided;
mod permission_explain;
mod permission_gate;
mod permission_hook;
#[cfg(all(feature = "tools", unix))]
mod permission_links;
mod permission_park;
#[cfg(feature = "tools")]
mod permission_protected;
#[cfg(feature = "tools")]
mod permission_readable;
mod permission_rules;
mod permission_shell;
mod permission_shell_stack;
mod permission_urls;
mod pretty;
mod prices;
#[cfg(any(
    all(feature = "tools", unix),
    all(feature = "docker", target_os = "linux")
))]
mod processes;
mod prompt_stops;
#[cfg(feature = "http")]
mod provider_anthropic;
#[cfg(feature = "http")]
mod provider_anthropic_requests;
#[cfg(feature = "http")]
mod provider_fallback;
#[cfg(feature = "http")]
mod provider_http;
#[cfg(feature = "http")]
mod provider_sse;
#[cfg(all(feature = "tls", feature = "schema", feature = "tokens"))]
mod public_api;
#[cfg(feature = "http")]
mod real_servers;
#[cfg(feature = "http")]
mod recordings;
mod redaction;
mod reruns;
mod response_limits;
#[cfg(feature = "http")]
mod response_limits_providers;
mod result_limits;
mod run_edges;
mod run_oddities;
mod run_properties;
#[cfg(feature = "http")]
mod runtimes;
#[cfg(all(feature = "sandbox", feature = "tools", target_os = "linux"))]
mod sandbox;
mod sdk_content;
mod sdk_foreign;
mod sdk_golden;
mod sdk_stream_event;
mod sdk_unknown;
mod sdk_wire;
mod seams;
#[cfg(feature = "http")]
mod secrets;
#[cfg(feature = "http")]
mod serving;
mod session_stores;
mod sessions;
mod small_stack;
#[cfg(all(target_os = "linux", feature = "tools"))]
mod soak;
mod spied_store;
#[cfg(feature = "web")]
mod ssrf_cases;
mod store_default;
#[cfg(all(feature = "tools", target_os = "linux"))]
mod strays;
mod suppressed_results;
mod testing_kit;
mod text;
mod tokens;
#[cfg(feature = "http")]
mod tool_http;
#[cfg(feature = "http")]
mod tool_http_policy;
mod tool_schema;
mod tool_schema_limits;
mod tools;
#[cfg(feature = "calc")]
mod tools_calculate;
#[cfg(feature = "time")]
mod tools_datetime;
#[cfg(all(feature = "tools", unix))]
mod tools_files;
mod tools_in_runs;
#[cfg(all(feature = "tools", unix))]
mod tools_odd_input;
#[cfg(all(feature = "tools", unix))]
mod tools_search;
#[cfg(all(feature = "tools", unix))]
mod tools_shell;
mod two_validators;
#[cfg(feature = "web")]
mod web;
#[cfg(feature = "http")]
mod wire_texts;
#[cfg(all(feature = "tools", unix))]
mod workspace;
