//! Behaviour of the crate through its public API, one module a subject.
#![allow(clippy::unwrap_used)]

mod backend_memory;
mod messages_json;
mod messages_repair;
mod messages_validate;
mod pretty;
mod prices;
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
