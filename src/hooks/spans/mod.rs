//! Spans of a run, its model calls and its tool calls.

mod content;
mod hook;
mod span;
mod span_table;

pub use hook::TracingHook;
