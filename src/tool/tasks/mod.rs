//! The background tasks of a run.
//!
//! [`BackgroundTasks`] is the scope that owns them, [`TaskContext`] the view of the task itself,
//! and [`TaskHandle`] the view of other code.

mod background_tasks;
mod context;
mod entry;
mod handle;
mod open_tasks;
mod outcome_limits;
mod spec;

pub use background_tasks::BackgroundTasks;
pub(crate) use background_tasks::EndedTask;
pub use context::TaskContext;
pub(crate) use context::TaskSink;
pub use entry::TaskOutcome;
pub use handle::TaskHandle;
pub(crate) use open_tasks::OpenTasks;
pub use spec::TaskSpec;
