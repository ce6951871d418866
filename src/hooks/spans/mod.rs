//! Spans of the model calls and tool calls of a run.

mod content;
mod hook;
mod span;
mod span_table;

pub use hook::TracingHook;
