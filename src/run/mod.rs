//! One run: its stream of messages, and the handles that control it.
//!
//! [`Run`] is a stream of messages and, awaited, the final output. It spawns no async task: the run
//! advances only while it is polled.
//!
//! * [`RunHandle`] interrupts and steers a run from any thread.
//! * [`Responder`] answers the questions of a run, which waits for the answers as long as a
//!   responder exists.
//! * [`RunContext`] gives hooks access to the run.

mod attempts;
mod budget;
mod call_clock;
mod child_texts;
mod context;
mod engine_access;
mod estimate;
mod exit_reason;
mod granted_questions;
mod handle;
mod output;
mod parent;
mod parent_call;
mod poll_clock;
mod questions;
mod queue;
mod reservation;
mod responder;
mod result_watchers;
#[expect(clippy::module_inception, reason = "the type has the module's name")]
mod run;
mod settings;
mod shared;
mod stall;
mod state_cell;
mod stats;
mod steering;
mod stop;
mod system_prompt;
mod task_reports;
mod tree_limits;
mod typed;

pub use budget::Budget;
pub(crate) use budget::TIME_LIMIT_REACHED;
pub(crate) use call_clock::{CallClock, PausedClock};
pub use context::RunContext;
pub(crate) use estimate::{Estimate, HighestPrice};
pub use exit_reason::ExitReason;
pub(crate) use granted_questions::GrantedQuestions;
pub use handle::RunHandle;
pub use output::RunOutput;
pub(crate) use parent::Parent;
pub use parent_call::ParentCall;
pub(crate) use poll_clock::{PollClock, RunTimer};
pub(crate) use reservation::Reservation;
pub(crate) use responder::OpenQuestions;
pub use responder::Responder;
pub use run::Run;
pub(crate) use settings::RunSettings;
pub(crate) use shared::{OutputFormat, RunShared};
pub use stats::{ModelStats, RunStats};
#[cfg(feature = "server")]
pub(crate) use steering::SteerRefusal;
pub(crate) use steering::SteeredMessage;
pub(crate) use stop::{CLOSING_TIME, Stop};
pub use system_prompt::SystemPromptHandle;
pub(crate) use tree_limits::{TreeLimits, check_wrapping_hooks};
pub use typed::TypedRun;
