//! The chunks of the AI SDK that a run has.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

use crate::sdk::SdkMessage;

/// A chunk of a UI message stream.
#[derive(Debug, Serialize)]
#[serde(
    tag = "type",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase"
)]
pub(super) enum Chunk<'a> {
    Start,
    StartStep,
    FinishStep,
    /// The parts of the step so far are removed.
    ResetStep,
    TextStart {
        id: &'a str,
    },
    TextDelta {
        id: &'a str,
        delta: &'a str,
    },
    TextEnd {
        id: &'a str,
    },
    ReasoningStart {
        id: &'a str,
    },
    ReasoningDelta {
        id: &'a str,
        delta: &'a str,
    },
    ReasoningEnd {
        id: &'a str,
    },
    ToolInputStart {
        tool_call_id: &'a str,
        tool_name: &'a str,
        dynamic: bool,
    },
    ToolInputDelta {
        tool_call_id: &'a str,
        input_text_delta: Cow<'a, str>,
    },
    ToolInputAvailable {
        tool_call_id: &'a str,
        tool_name: &'a str,
        input: &'a Value,
        dynamic: bool,
    },
    ToolOutputAvailable {
        tool_call_id: &'a str,
        output: Cow<'a, Value>,
        dynamic: bool,
        /// True for the progress of a call.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        preliminary: bool,
    },
    ToolOutputError {
        tool_call_id: &'a str,
        error_text: String,
        dynamic: bool,
    },
    ToolOutputDenied {
        tool_call_id: &'a str,
    },
    ToolApprovalRequest {
        approval_id: &'a str,
        tool_call_id: &'a str,
        reason: &'a str,
        /// The hash of the arguments, which the client returns with the answer.
        signature: &'a str,
    },
    SteeringMessage {
        id: &'a str,
        parts: [Value; 1],
    },
    /// The tasks and files; a later one with the id replaces it.
    DataState {
        id: &'static str,
        data: Value,
    },
    /// A message of the run that has no chunk of its own.
    DataAgentcore {
        data: &'a SdkMessage,
        transient: bool,
    },
    Finish {
        finish_reason: &'static str,
        message_metadata: Value,
    },
    Abort {
        reason: &'a str,
    },
    Error {
        error_text: &'a str,
    },
}
