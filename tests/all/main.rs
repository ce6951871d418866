//! Behaviour of the crate through its public API, one module a subject.
#![allow(clippy::unwrap_used)]

mod backend_memory;
#[cfg(feature = "http")]
mod fake_server;
mod messages_json;
mod messages_repair;
mod messages_validate;
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
mod sdk_content;
mod sdk_golden;
mod sdk_stream_event;
mod sdk_unknown;
mod sdk_wire;
mod text;
mod tokens;
mod tool_http;
mod tool_schema;
mod tool_schema_limits;
mod tools;
