//! The tools that delegate to subagents: `delegate_to_agent`, and the tools for background tasks.

mod async_tasks;
#[expect(
    clippy::module_inception,
    reason = "the function has the module's name"
)]
mod delegate;
mod task_line;

pub use delegate::delegate;
pub(crate) use task_line::task_line;
