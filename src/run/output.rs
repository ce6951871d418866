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
    /// The last text of the model.
    pub text: String,
    /// The session's state after the run.
    pub state: AgentState,
    /// The whole history, without an input that was removed because it was refused or too long.
    pub messages: Messages,
    /// The tokens of this run, without subagents, as the providers reported them. Most report the
    /// usage of an answer at its end, so an interrupted one counts too little, unless money or
    /// tokens are limited: then the unreported usage is estimated.
    pub usage: Usage,
    /// The cost in USD, subagents included; `None` when some price is not known.
    pub cost: Option<f64>,
    /// The number of model calls, not counting those repeated because the answer was empty or the
    /// context was too long.
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
    /// Returns the calls that wait for approval, of a run that ended with
    /// [`AwaitingApproval`](ExitReason::AwaitingApproval).
    pub fn pending(&self) -> &[PendingCall] {
        &self.state.pending
    }
}

impl Error {
    /// Returns the result, so far, of the run that ended with this error: its history is valid, and
    /// the session can be continued. `None` for errors from elsewhere.
    pub fn partial(&self) -> Option<&RunOutput> {
        self.attachment()
    }
}
