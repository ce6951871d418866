//! The agent, its builder and its sessions.
//!
//! [`AgentBuilder`] makes an [`Agent`], which is cheap to clone and serves any number of runs at
//! once. [`Agent::run`] starts a new session; [`Agent::session`] continues one.

#[expect(clippy::module_inception, reason = "the type has the module's name")]
mod agent;
mod allowed_tools;
mod as_tool;
mod builder;
mod builder_limits;
mod check;
mod child_result;
mod child_session;
#[cfg(feature = "http")]
mod environment;
mod filtered_source;
mod info;
mod of_run;
mod session;
mod session_changes;
#[cfg(feature = "config")]
mod template;

#[cfg(feature = "server")]
pub(crate) use crate::engine::check_decisions;
pub use crate::engine::{Decision, Decisions, OnUnanswered, UnfinishedTasks};
pub use crate::model::retry::RetryPolicy;
pub use agent::Agent;
pub(crate) use allowed_tools::AllowedTools;
pub use builder::AgentBuilder;
pub(crate) use child_result::output_of;
pub(crate) use child_session::{child_session_id, sub_session_id};
pub use info::{AgentInfo, HookInfo};
pub use session::Session;
