//! The agent: its parts, and the loop.
//!
//! [`AgentBuilder`] makes an [`Agent`], which is cheap to clone and serves any number of runs at
//! once. [`Agent::run`] starts a new session; [`Agent::session`] continues one.
//!
//! # One run
//!
//! 1. The session is leased, loaded and repaired; `before_agent` of every hook.
//! 2. The input is appended.
//! 3. Each turn: the limits are checked, the request is built and passed through
//!    `modify_request`, the model is called inside the `wrap_model_call` onion, its answer is
//!    stored, its tool calls run, their results are stored in the order of the calls.
//! 4. `after_agent` of every hook, the state is saved, the result message is sent, the lease is
//!    released.
//!
//! In every case, the stored history can be sent to a provider next.

mod above;
#[expect(clippy::module_inception, reason = "the type has the module's name")]
mod agent;
mod answer;
mod answer_redactor;
mod attempt;
mod booking;
mod bounds;
mod builder;
mod call_host;
mod call_model;
mod call_pieces;
mod compaction;
mod config;
mod decide;
mod decided;
mod drive;
mod ending;
#[cfg(feature = "http")]
mod environment;
mod execute;
mod ids;
mod info;
mod keep;
mod live_runs;
mod opening;
mod partials;
mod prepare;
mod repeats;
mod request;
mod rerun;
mod restore;
mod resume;
mod session;
mod take_back;
mod tidy;
mod tool_call;
mod tool_turn;
mod tools;
mod turn;

pub use crate::model::retry::RetryPolicy;
pub use agent::Agent;
pub use builder::AgentBuilder;
pub use config::Unanswered;
pub use info::{AgentInfo, HookInfo};
pub use resume::{Decision, Decisions};
pub use session::Session;
