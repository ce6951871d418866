//! Subagents: agents that a run starts by their type.
//!
//! | | |
//! |---|---|
//! | [`SubagentDefinition`] | one type: its description, its prompt, its tools and its model |
//! | [`SubagentRegistry`] | the types that a run may start |
//! | [`tools::task`](crate::tools::task), [`tools::delegate`](crate::tools::delegate) | the tools that start subagents |
//! | [`Handoffs`] | agents that hand the conversation over to each other |
//!
//! A subagent works for its caller: it has a conversation of its own, and its answer is the result
//! of a tool call. With [`Handoffs`], the next agent continues the conversation itself.

mod definition;
mod handoff;
mod handoff_hook;
mod handoff_run;
#[cfg(feature = "yaml")]
mod load;
mod registry;

pub use definition::SubagentDefinition;
pub use handoff::{Handoffs, HandoffsBuilder};
pub use handoff_run::HandoffRun;
pub use registry::SubagentRegistry;
