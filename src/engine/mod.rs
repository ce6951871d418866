//! The loop: one run from its request to its result.
//!
//! # One run
//!
//! 1. `active_run`: the run is created from its request, and driven through the steps below.
//! 2. `opening`: the session is leased, loaded and repaired, and the input is stored.
//! 3. `turn`: the model is called, its response is stored and its calls run, until the run ends.
//! 4. `closing`: the state is saved, the result message is emitted, and the lease is released.
//!
//! `ARCHITECTURE.md` lists the files in the order in which a prompt passes them.
//!
//! However a run ends, its stored history is valid input for a provider.

mod active_run;
mod argument_redactor;
mod attempt;
mod attempt_view;
mod call_ids;
mod call_starts;
mod closing;
mod compaction;
mod config;
mod context_size;
mod decision;
mod emitted_messages;
mod exit;
mod forwarded_runs;
mod history;
mod history_size;
mod hook_decision;
mod hooks_by_phase;
mod interrupted_calls;
mod live_runs;
mod model_call;
mod model_lifecycle;
mod opening;
mod parent_gate;
mod part_redactor;
mod partial_messages;
mod pending_calls;
mod refusal;
mod rejected_input;
mod repeats;
mod request;
mod response_redactor;
mod restore;
mod result_context;
mod result_limits;
mod run_input;
mod run_request;
mod running_call;
mod sanitize;
mod session_compaction;
mod session_writer;
mod steered_messages;
mod stopped_child;
mod structured_output;
mod system_prompt;
mod tool_batch;
mod tool_call;
mod tool_catalog;
mod tool_execution;
mod tool_permission;
mod turn;
mod turn_end;
mod usage;

pub(crate) use active_run::start;
pub(crate) use config::{Config, Limits, RequestOptions, store_or_default};
pub use config::{OnUnanswered, UnfinishedTasks};
#[cfg(feature = "server")]
pub(crate) use decision::check_decisions;
pub use decision::{Decision, Decisions};
pub(crate) use hooks_by_phase::Hooks;
pub(crate) use live_runs::LiveRuns;
pub(crate) use model_call::{check_prices, model_core};
#[cfg(any(test, feature = "testing"))]
pub(crate) use response_redactor::redact_stream;
pub(crate) use result_limits::MIN_RESULT_BYTES;
pub(crate) use run_request::{RunOptions, RunRequest};
pub(crate) use running_call::RunningCall;
pub(crate) use session_compaction::{WhenLeased, compact_session};
pub(crate) use stopped_child::progress_text;
