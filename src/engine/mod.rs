//! The loop: one run from its request to its result.
//!
//! # One run
//!
//! 1. `active_run`: the run is created from its request, and driven through the steps below.
//! 2. `opening`: the session is leased and loaded, `restore` repairs it, the hooks'
//!    `before_agent` runs, calls without a result run again (`interrupted_calls`), and the input is
//!    stored. Calls that waited for approval are answered (`pending_calls`).
//! 3. `turn`: the limits are checked, the request is built (`request`) and passed through
//!    `modify_request`, the model is called inside the `wrap_model_call` hooks (`model_call`,
//!    `attempt`), its response is stored (`history`), its tool calls run concurrently
//!    (`tool_batch`), each checked (`tool_permission`) and executed (`tool_call`,
//!    `tool_execution`), and their results are stored in the order of the calls.
//! 4. `closing`: `after_agent` of every hook runs, the state is saved, the result message is
//!    emitted, and the lease is released.
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
mod forwarded_runs;
mod history;
mod history_size;
mod hook_opinion;
mod interrupted_calls;
mod live_runs;
mod model_call;
mod model_lifecycle;
mod opening;
mod parent_gate;
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
mod running_call;
mod sanitize;
mod session_compaction;
mod session_writer;
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

pub(crate) use active_run::{RunOptions, RunRequest, start};
pub(crate) use config::{Config, Hooks, Limits, RequestOptions, store_or_default};
pub use config::{OnUnanswered, UnfinishedTasks};
#[cfg(feature = "server")]
pub(crate) use decision::check_decisions;
pub use decision::{Decision, Decisions};
pub(crate) use live_runs::LiveRuns;
pub(crate) use model_call::{check_prices, model_core};
#[cfg(any(test, feature = "testing"))]
pub(crate) use response_redactor::redact_stream;
pub(crate) use result_limits::MIN_RESULT_BYTES;
pub(crate) use running_call::RunningCall;
pub(crate) use session_compaction::{WhenLeased, compact_session};
