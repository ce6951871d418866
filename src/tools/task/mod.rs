//! The tools that start subagents: `Task`, `TaskOutput` and `TaskStop`.

mod background;
mod child;
mod foreground;
mod report;
mod subagent_tools;

pub(super) use background::{DEFAULT_TIMEOUT, MAX_TIMEOUT, find_task};
pub use child::ChildHooks;
pub(crate) use child::Children;
pub(super) use foreground::begin_child;
pub use subagent_tools::{SubagentTools, task};
