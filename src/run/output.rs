//! The result of a run.

use std::sync::Arc;

use serde_json::Value;

use crate::error::Error;
use crate::message::Messages;
use crate::sdk::PermissionDenial;
use crate::session::{AgentState, PendingCall};
use crate::usage::Usage;

use super::exit_reason::ExitReason;

/// The result of a run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RunOutput {
    /// The text of the last response. Empty if that has no text, for example because the run
    /// reached a limit after the calls in it.
    pub text: String,
    /// The session's state after the run.
    pub state: AgentState,
    /// The whole history. An input that was removed, because it was refused or too long, is not
    /// part of it.
    pub messages: Messages,
    /// The tokens of this run, without subagents, as the providers reported them. Most providers
    /// report the usage of a response at its end, so the usage of a partial response is too low. If
    /// money or tokens are limited, the unreported usage is estimated.
    pub usage: Usage,
    /// The cost in USD, subagents included; `None` when some price is not known.
    pub cost: Option<f64>,
    /// The number of turns that were begun. A turn that was repeated, because its response was
    /// empty or the context was too long, counts once. Model calls that hooks and retries add do
    /// not count.
    pub turns: u32,
    /// The reason the run ended.
    pub end: ExitReason,
    /// The session's id, to continue it with [`Agent::session`](crate::Agent::session).
    pub session_id: Arc<str>,
    /// The calls that were not allowed.
    pub permission_denials: Vec<PermissionDenial>,
    /// The value that matches the schema of [`Run::output_schema`](super::Run::output_schema).
    pub structured: Option<Value>,
}

impl RunOutput {
    /// Returns the pending calls of a run that ended with
    /// [`AwaitingApproval`](ExitReason::AwaitingApproval).
    pub fn pending(&self) -> &[PendingCall] {
        &self.state.pending
    }
}

impl Error {
    /// Returns the partial output of the run that ended with this error. Its history is valid, and
    /// its session can be continued. Returns `None` if the error is not from a run.
    pub fn partial(&self) -> Option<&RunOutput> {
        self.attachment()
    }
}
