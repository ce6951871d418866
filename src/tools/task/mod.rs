//! The tools that start subagents: `Task`, `TaskOutput` and `TaskStop`.

mod background;
mod child;
mod foreground;
mod report;
mod task_tools;

pub use child::ChildHooks;
pub use task_tools::{TaskTools, task};
