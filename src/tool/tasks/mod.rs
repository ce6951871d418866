//! The background tasks of a run.
//!
//! [`BackgroundTasks`] is the scope that owns them, [`TaskContext`] the view of the task itself,
//! and [`TaskHandle`] the view of other code.

mod context;
mod entry;
mod handle;
mod open_tasks;
mod outcome_limits;
mod scope;
mod spec;

pub use context::TaskContext;
pub(crate) use context::TaskSink;
pub use entry::TaskOutcome;
pub use handle::TaskHandle;
pub(crate) use open_tasks::OpenTasks;
pub use scope::BackgroundTasks;
pub(crate) use scope::FinishedTask;
pub use spec::TaskSpec;
