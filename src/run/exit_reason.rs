//! The reasons for a run's end.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::sdk::ResultSubtype;

/// The reason a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ExitReason {
    /// The model ended its turn: its last response has no tool calls.
    EndTurn,
    /// The model generated a stop sequence.
    StopSequence,
    /// The last response was truncated at the output limit or at the end of the context window.
    MaxTokens,
    /// Calls wait for a later approval.
    AwaitingApproval,
    /// A hook stopped the run.
    HookStopped,
    /// The limit on turns was reached: `max_turns` of the [`AgentBuilder`](crate::AgentBuilder).
    MaxTurns,
    /// A limit on money or tokens was reached: `max_budget_usd` or `max_total_tokens` of the
    /// [`AgentBuilder`](crate::AgentBuilder), or what a parent run had left.
    MaxBudget,
    /// The time limit of the run was reached: `max_duration` of the
    /// [`AgentBuilder`](crate::AgentBuilder), or the time limit of a parent run. On the wire it has
    /// the subtype and the terminal reason of `MaxBudget`.
    MaxDuration,
    /// The response did not match the requested schema, not even after
    /// [`output_retries`](crate::AgentBuilder::output_retries) more tries.
    StructuredOutput,
    /// The run was stopped by [`RunHandle::interrupt`](crate::RunHandle::interrupt), by a
    /// permission gate, or because its parent run ended.
    Interrupted,
    /// The run was stopped by [`RunHandle::abort`](crate::RunHandle::abort).
    Aborted,
    /// The model refused.
    Refused,
    /// The model repeated the same call with the same result.
    LoopDetected,
    /// The run failed.
    Error,
}

impl ExitReason {
    /// Returns the name as it is stored and printed.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::EndTurn => "end_turn",
            Self::StopSequence => "stop_sequence",
            Self::MaxTokens => "max_tokens",
            Self::AwaitingApproval => "awaiting_approval",
            Self::HookStopped => "hook_stopped",
            Self::MaxTurns => "max_turns",
            Self::MaxBudget => "max_budget",
            Self::MaxDuration => "max_duration",
            Self::StructuredOutput => "structured_output",
            Self::Interrupted => "interrupted",
            Self::Aborted => "aborted",
            Self::Refused => "refused",
            Self::LoopDetected => "loop_detected",
            Self::Error => "error",
        }
    }

    /// Returns `true` for [`EndTurn`](Self::EndTurn), [`StopSequence`](Self::StopSequence),
    /// [`MaxTokens`](Self::MaxTokens), [`AwaitingApproval`](Self::AwaitingApproval) and
    /// [`HookStopped`](Self::HookStopped), whose result message has the subtype `success`.
    pub fn is_success(self) -> bool {
        self.subtype().is_success()
    }

    /// Returns the `subtype` of the result message.
    pub(crate) fn subtype(self) -> ResultSubtype {
        match self {
            Self::EndTurn
            | Self::StopSequence
            | Self::MaxTokens
            | Self::AwaitingApproval
            | Self::HookStopped => ResultSubtype::Success,
            Self::MaxTurns => ResultSubtype::ErrorMaxTurns,
            Self::MaxBudget | Self::MaxDuration => ResultSubtype::ErrorMaxBudgetUsd,
            Self::StructuredOutput => ResultSubtype::ErrorMaxStructuredOutputRetries,
            Self::Interrupted
            | Self::Aborted
            | Self::Refused
            | Self::LoopDetected
            | Self::Error => ResultSubtype::ErrorDuringExecution,
        }
    }

    /// Returns the `terminal_reason` of the result message. The wire format has no reason for a
    /// refusal or for repeated calls; both are `model_error`. A run that was stopped while tools
    /// were running has `aborted_tools`.
    pub(crate) fn terminal_reason(self) -> &'static str {
        match self {
            Self::EndTurn | Self::StopSequence | Self::MaxTokens => "completed",
            Self::AwaitingApproval => "tool_deferred",
            Self::HookStopped => "hook_stopped",
            Self::MaxTurns => "max_turns",
            Self::MaxBudget | Self::MaxDuration => "budget_exhausted",
            Self::StructuredOutput => "structured_output_retry_exhausted",
            Self::Interrupted | Self::Aborted => "aborted_streaming",
            Self::Refused | Self::LoopDetected => "model_error",
            Self::Error => "api_error",
        }
    }
}

impl fmt::Display for ExitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
