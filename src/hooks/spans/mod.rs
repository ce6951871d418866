//! Spans of what a run does.

mod content;
mod hook;
mod open;
mod span;

pub use hook::TracingHook;
