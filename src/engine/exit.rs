//! The exit reasons of a run that its last response or an error ends.

use crate::error::{Error, ErrorKind, Result};
use crate::model::StopReason;
use crate::run::ExitReason;

/// Converts the stop reason of a last response, which has no calls, into the exit reason of its
/// run.
pub(super) fn exit_for_stop_reason(reason: Option<&StopReason>) -> ExitReason {
    match reason {
        Some(StopReason::StopSequence) => ExitReason::StopSequence,
        Some(StopReason::MaxTokens | StopReason::ContextWindow) => ExitReason::MaxTokens,
        Some(StopReason::Refusal) => ExitReason::Refused,
        _ => ExitReason::EndTurn,
    }
}

/// Returns the exit reason of a run that ends with this error, and adds the text of the error to
/// `error_texts`.
///
/// # Errors
///
/// Returns `error` if the run ends with [`ExitReason::Error`].
pub(super) fn exit_for_error(error: Error, error_texts: &mut Vec<String>) -> Result<ExitReason> {
    let exit = match error.kind() {
        ErrorKind::BudgetExhausted => ExitReason::MaxBudget,
        ErrorKind::Refused => ExitReason::Refused,
        _ => return Err(error),
    };
    error_texts.push(error.to_string());
    Ok(exit)
}
