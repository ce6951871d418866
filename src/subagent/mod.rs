//! Subagents: agents that a run starts by their type.
//!
//! A [`SubagentDefinition`] describes one type, and a [`SubagentRegistry`] contains the types that
//! a run may start. The tools of [`tools::task`](crate::tools::task) and
//! [`tools::delegate`](crate::tools::delegate) start them.
//!
//! A subagent works for its caller. The agents of [`Handoffs`] hand the whole conversation over to
//! each other instead.

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
