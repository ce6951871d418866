//! The result of a call that ran a child.

use crate::engine::progress_text;
use crate::error::{BoxError, Error, Result};
use crate::run::{ExitReason, RunOutput};
use crate::tool::ToolError;

/// Returns the output of a child that ended with a response. If it failed or was cut off, returns
/// an error with its last text and its calls.
pub(crate) fn output_of(outcome: Result<RunOutput>) -> Result<RunOutput, BoxError> {
    match outcome {
        Ok(output) if is_whole(output.end) => Ok(output),
        Ok(output) => {
            let reason = format!("the subagent was cut off ({})", output.end);
            Err(failure(reason, Some(&output)).into())
        }
        Err(error) => {
            let reason = format!("the subagent failed: {error}");
            Err(failure(reason, Error::partial(&error)).into())
        }
    }
}

fn is_whole(end: ExitReason) -> bool {
    matches!(end, ExitReason::EndTurn | ExitReason::StopSequence)
}

fn failure(mut text: String, output: Option<&RunOutput>) -> ToolError {
    if let Some(output) = output {
        let calls = output
            .messages
            .iter()
            .flat_map(|message| message.tool_calls());
        text.push_str(&progress_text(&output.text, calls));
    }
    ToolError::new(text)
}
