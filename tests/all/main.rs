//! Behaviour of the crate through its public API, one module a subject.

mod backend_memory;
#[cfg(feature = "http")]
mod tool_http;
mod tool_schema;
mod tools;
