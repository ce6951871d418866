//! The hooks that ship.
//!
//! | hook | what it does |
//! |---|---|
//! | [`SummarizationHook`] | puts a summary in place of what is old when the window fills up |
//! | [`ClearToolResults`] | sends old, long tool results shortened |
//! | [`CompactionHook`] | calls a function of yours when the history has grown too long |
//! | [`inject_context`] | puts a message first in every request |
//! | [`session_hooks`] | loads and saves sessions by hand |
//! | [`TracingHook`] | spans of model and tool calls |
//! | [`UsageLogger`] | logs what a run has used |
//!
//! They are ordinary hooks: each could be written outside this crate. Of those that wrap, put
//! tracing first and summarization last, next to the model.

mod clear_tool_results;
mod compaction;
mod inject_context;
mod session;
mod spans;
mod summarization;
mod usage_logger;

pub use clear_tool_results::ClearToolResults;
pub use compaction::CompactionHook;
pub use inject_context::inject_context;
pub use session::{SessionHooks, session_hooks};
pub use spans::TracingHook;
pub use summarization::{SummarizationHook, extract_summary, split_index};
pub use usage_logger::UsageLogger;
