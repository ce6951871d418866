//! Behaviour of the crate through its public API, one module a subject.
#![allow(clippy::unwrap_used, unreachable_pub)]

mod backend_memory;
#[cfg(feature = "http")]
mod fake_server;
#[cfg(feature = "http")]
mod fault_server;
mod loop_cases;
mod messages_json;
mod messages_repair;
mod messages_validate;
#[cfg(feature = "http")]
mod ollama;
#[cfg(feature = "http")]
mod openai;
#[cfg(unix)]
mod permission_bash_diff;
mod permission_corpus;
mod permission_rules;
mod permission_shell;
mod pretty;
mod prices;
#[cfg(feature = "http")]
mod provider_anthropic;
#[cfg(feature = "http")]
mod provider_fallback;
#[cfg(feature = "http")]
mod provider_http;
#[cfg(feature = "http")]
mod provider_sse;
#[cfg(feature = "http")]
mod recordings;
mod sdk_content;
mod sdk_golden;
mod sdk_stream_event;
mod sdk_unknown;
mod sdk_wire;
mod testing_kit;
mod text;
mod tokens;
mod tool_http;
mod tool_schema;
mod tool_schema_limits;
mod tools;
