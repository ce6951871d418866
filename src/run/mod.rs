//! One run: the stream a reader polls, and what can be done to it from outside.
//!
//! [`Run`] is the loop. Nothing is spawned: the loop advances only while it is polled. `run.await`
//! is the same loop, collected.
//!
//! * [`RunHandle`] interrupts and steers a run from anywhere.
//! * [`Responder`] answers its questions; holding one is a promise to do so.
//! * [`RunContext`] is the run as hooks see it.

mod attempts;
mod budget;
mod context;
mod engine_access;
mod exit_reason;
mod granted_questions;
mod handle;
mod output;
mod parent_call;
mod poll_clock;
mod questions;
mod queue;
mod responder;
mod result_watchers;
#[expect(clippy::module_inception, reason = "the type has the module's name")]
mod run;
mod running_call;
mod settings;
mod shared;
mod stall;
mod state_cell;
mod stats;
mod stop;
mod system_prompt;
mod tree_limits;
mod typed;

pub use budget::Budget;
pub(crate) use budget::{Estimate, HighestPrice, Reservation};
pub use context::RunContext;
pub use exit_reason::ExitReason;
pub use handle::RunHandle;
pub use output::RunOutput;
pub(crate) use parent_call::MAX_DEPTH;
pub use parent_call::ParentCall;
pub(crate) use poll_clock::{PollClock, RunTimer};
pub use responder::Responder;
pub use run::Run;
pub(crate) use running_call::{CallClock, RunningCall};
pub(crate) use settings::RunSettings;
pub(crate) use shared::{OutputFormat, Shared};
pub use stats::{ModelStats, RunStats};
pub(crate) use stop::{CLOSING_TIME, Stop};
pub use system_prompt::SystemPromptHandle;
pub(crate) use tree_limits::TreeLimits;
pub use typed::TypedRun;
