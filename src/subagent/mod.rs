//! Subagents: agents that a run starts by their type.
//!
//! A [`SubagentDefinition`] describes one type, and a [`SubagentRegistry`] holds those that a run may
//! start. The tools of [`tools::task`](crate::tools::task) start them.

mod definition;
#[cfg(feature = "yaml")]
mod load;
mod registry;

pub use definition::SubagentDefinition;
pub use registry::SubagentRegistry;
