//! The tools that start subagents: `Task`, `TaskOutput` and `TaskStop`.

mod children;
mod control_tools;
mod report;
mod subagent_tools;
mod task_tool;

pub use children::ChildHooks;
pub(crate) use children::Children;
pub(super) use control_tools::{DEFAULT_TIMEOUT, MAX_TIMEOUT, find_task};
pub use subagent_tools::{SubagentTools, task};
pub(super) use task_tool::begin_child;
