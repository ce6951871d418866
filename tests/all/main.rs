//! Behaviour of the crate through its public API, one module a subject.
#![allow(clippy::unwrap_used, unreachable_pub)]

mod auto_traits;
#[cfg(all(feature = "tools", unix))]
mod backend_local;
mod backend_memory;
#[cfg(all(feature = "tools", unix))]
mod backend_process;
mod child_runs;
#[cfg(all(feature = "tls", feature = "schema", feature = "tokens"))]
mod compile_fail;
#[cfg(feature = "http")]
mod fake_server;
#[cfg(feature = "http")]
mod fault_server;
#[cfg(feature = "http")]
mod faults_cancel;
#[cfg(feature = "http")]
mod faults_kit;
#[cfg(feature = "http")]
mod faults_model;
#[cfg(feature = "http")]
mod faults_network;
mod hook_faults;
mod hook_streams;
mod hook_texts;
mod hooks;
mod hooks_context;
mod hooks_long_runs;
#[cfg(feature = "otel")]
mod hooks_otel;
mod hooks_summaries;
mod hooks_summarization;
mod hooks_tracing;
mod house;
mod kit;
mod loop_cases;
mod loop_control;
mod loop_stops;
mod loop_streams;
mod messages_json;
mod messages_repair;
mod messages_validate;
mod modes_and_limits;
#[cfg(feature = "http")]
mod ollama;
#[cfg(feature = "http")]
mod openai;
#[cfg(all(feature = "tools", unix))]
mod path_cases;
#[cfg(unix)]
mod permission_bash_diff;
mod permission_corpus;
mod permission_gate;
mod permission_park;
mod permission_rules;
mod permission_shell;
mod pretty;
mod prices;
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
mod run_oddities;
mod run_properties;
mod sdk_content;
mod sdk_golden;
mod sdk_stream_event;
mod sdk_unknown;
mod sdk_wire;
#[cfg(feature = "http")]
mod secrets;
mod sessions;
mod testing_kit;
mod text;
mod tokens;
#[cfg(feature = "http")]
mod tool_http;
mod tool_schema;
mod tool_schema_limits;
mod tools;
#[cfg(all(feature = "tools", unix))]
mod tools_files;
mod tools_in_runs;
#[cfg(all(feature = "tools", unix))]
mod tools_search;
#[cfg(all(feature = "tools", unix))]
mod tools_shell;
mod two_validators;
#[cfg(all(feature = "tools", unix))]
mod workspace;
