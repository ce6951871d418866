//! Behaviour of the crate through its public API, one module a subject.
#![allow(clippy::unwrap_used, unreachable_pub)]

#[cfg(all(feature = "tools", unix))]
mod backend_local;
mod backend_memory;
#[cfg(all(feature = "tools", unix))]
mod backend_process;
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
#[cfg(all(feature = "tools", unix))]
mod path_cases;
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
#[cfg(all(feature = "tools", unix))]
mod tools_files;
#[cfg(all(feature = "tools", unix))]
mod tools_search;
#[cfg(all(feature = "tools", unix))]
mod tools_shell;
#[cfg(all(feature = "tools", unix))]
mod workspace;
