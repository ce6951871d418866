//! Steps as chunks of the AI SDK.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::message::ToolCall;
use crate::sdk::{ResultMessage, SdkMessage};

use super::super::ag_ui::error_text;
use super::super::out::Out;
use super::super::state::StreamState;
use super::super::step::{Author, CallProgress, CallResult, Output, Step, StepKind};
use super::chunk::Chunk;

/// The last event of every stream.
const DONE: &str = "[DONE]";

/// The encoder of the format. Subagents are omitted: the call that runs one has its result.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct AiSdk {
    is_started: bool,
    /// The id and the pieces so far of a text of the user: the client takes it as a whole.
    user_text: Option<(Arc<str>, String)>,
}

impl AiSdk {
    pub(in super::super) fn push(
        &mut self,
        message: &SdkMessage,
        state: &mut StreamState,
        out: &mut Out<'_>,
    ) {
        for step in state.push(message) {
            self.step(&step, state, out);
        }
    }

    pub(in super::super) fn snapshot(&mut self, state: &mut StreamState, out: &mut Out<'_>) {
        let steps = state.reopen();
        self.start(out);
        send_state(state, out);
        for step in steps {
            self.step(&step, state, out);
        }
    }

    pub(in super::super) fn fail(text: &str, out: &mut Out<'_>) {
        out.json(&Chunk::Error { error_text: text });
        out.text(DONE);
    }

    fn start(&mut self, out: &mut Out<'_>) {
        if !std::mem::replace(&mut self.is_started, true) {
            out.json(&Chunk::Start);
        }
    }

    fn step(&mut self, step: &Step<'_>, state: &StreamState, out: &mut Out<'_>) {
        if step.subagent.is_some() {
            return;
        }
        match &step.kind {
            StepKind::RunStarted => self.start(out),
            StepKind::TextStart(id, Author::User) => {
                self.user_text = Some((id.clone(), String::new()));
            }
            StepKind::TextDelta(_, text) if self.user_text.is_some() => {
                if let Some((_, user_text)) = &mut self.user_text {
                    user_text.push_str(text);
                }
            }
            StepKind::TextEnd(_) if self.user_text.is_some() => {
                if let Some((id, text)) = self.user_text.take() {
                    let parts = [json!({"type": "text", "text": text})];
                    out.json(&Chunk::SteeringMessage { id: &id, parts });
                }
            }
            StepKind::Progress(progress) => send_progress(progress, out),
            StepKind::CallResult(result) => send_result(result, out),
            StepKind::StateChanged { .. } => send_state(state, out),
            StepKind::Other(_, data) => out.json(&Chunk::DataAgentcore {
                data,
                transient: true,
            }),
            StepKind::Finished(result) => finish(result, state, out),
            kind => {
                if let Some(chunk) = block_chunk(kind) {
                    out.json(&chunk);
                }
            }
        }
    }
}

/// Returns the chunk of a turn, a block or a call.
fn block_chunk<'s>(kind: &'s StepKind<'_>) -> Option<Chunk<'s>> {
    Some(match kind {
        StepKind::TurnStarted(_) => Chunk::StartStep,
        StepKind::TurnFinished(_) => Chunk::FinishStep,
        StepKind::Restarted => Chunk::ResetStep,
        StepKind::TextStart(id, _) => Chunk::TextStart { id },
        StepKind::TextDelta(id, delta) => Chunk::TextDelta { id, delta },
        StepKind::TextEnd(id) => Chunk::TextEnd { id },
        StepKind::ThinkingStart(id) => Chunk::ReasoningStart { id },
        StepKind::ThinkingDelta(id, text) => Chunk::ReasoningDelta {
            id,
            delta: text.as_str(),
        },
        StepKind::ThinkingEnd(id) => Chunk::ReasoningEnd { id },
        StepKind::CallStart(id, name, _) => Chunk::ToolInputStart {
            tool_call_id: id,
            tool_name: name,
            dynamic: true,
        },
        StepKind::CallDelta(id, text) => Chunk::ToolInputDelta {
            tool_call_id: id,
            input_text_delta: text.to_text(),
        },
        StepKind::CallReady(id, call) => Chunk::ToolInputAvailable {
            tool_call_id: id,
            tool_name: &call.name,
            input: &call.args,
            dynamic: true,
        },
        _ => return None,
    })
}

/// Sends a call that the client has not been shown: the client fails at its progress and at its
/// result otherwise.
fn send_earlier(id: &str, call: Option<&ToolCall>, out: &mut Out<'_>) {
    if let Some(call) = call {
        out.json(&Chunk::ToolInputAvailable {
            tool_call_id: id,
            tool_name: &call.name,
            input: &call.args,
            dynamic: true,
        });
    }
}

fn send_progress(progress: &CallProgress<'_>, out: &mut Out<'_>) {
    if progress.is_unknown {
        return;
    }
    send_earlier(&progress.id, progress.earlier.as_ref(), out);
    out.json(&Chunk::ToolOutputAvailable {
        tool_call_id: &progress.id,
        output: Cow::Borrowed(progress.data),
        dynamic: true,
        preliminary: true,
    });
}

fn send_result(result: &CallResult<'_>, out: &mut Out<'_>) {
    let id = &result.id;
    send_earlier(id, result.earlier.as_ref(), out);
    if result.is_denied {
        out.json(&Chunk::ToolOutputDenied { tool_call_id: id });
    } else if result.is_error {
        out.json(&Chunk::ToolOutputError {
            tool_call_id: id,
            error_text: result.output.to_text(),
            dynamic: true,
        });
    } else {
        let output = match &result.output {
            Output::Value(value) => Cow::Borrowed(*value),
            content @ Output::Content(_) => Cow::Owned(Value::String(content.to_text())),
        };
        out.json(&Chunk::ToolOutputAvailable {
            tool_call_id: id,
            output,
            dynamic: true,
            preliminary: false,
        });
    }
}

fn send_state(state: &StreamState, out: &mut Out<'_>) {
    out.json(&Chunk::DataState {
        id: "state",
        data: state.history().state(),
    });
}

fn finish(result: &ResultMessage, state: &StreamState, out: &mut Out<'_>) {
    if result.is_aborted() {
        let reason = result.terminal_reason.as_deref().unwrap_or_default();
        out.json(&Chunk::Abort { reason });
        out.text(DONE);
        return;
    }

    if result.is_error {
        let text = error_text(result);
        out.json(&Chunk::Error { error_text: &text });
    } else if result.has_pending_calls() {
        request_approvals(state, out);
    }
    out.json(&Chunk::Finish {
        finish_reason: finish_reason(result),
        message_metadata: json!({
            "threadId": state.thread_id(),
            "traceId": state.run_id(),
            "turns": result.num_turns,
            "durationMs": result.duration_ms,
            "totalCostUsd": result.total_cost_usd,
            "usage": result.usage,
        }),
    });
    out.text(DONE);
}

fn finish_reason(result: &ResultMessage) -> &'static str {
    if result.has_pending_calls() {
        return "tool-calls";
    }
    if result.is_error {
        return "error";
    }
    match result.stop_reason.as_deref() {
        Some("max_tokens" | "model_context_window_exceeded") => "length",
        Some("refusal") => "content-filter",
        _ => "stop",
    }
}

/// Asks for the decisions about the calls of this thread that wait.
fn request_approvals(state: &StreamState, out: &mut Out<'_>) {
    for pending in state.history().pending() {
        if pending.session_id != *state.thread_id() {
            continue;
        }
        let tool_call_id = state.shown_call_id(&None, &pending.call.id);
        if !state.has_call(&pending.call.id) {
            out.json(&Chunk::ToolInputAvailable {
                tool_call_id: &tool_call_id,
                tool_name: &pending.call.name,
                input: &pending.call.args,
                dynamic: true,
            });
        }
        out.json(&Chunk::ToolApprovalRequest {
            approval_id: &pending.id,
            tool_call_id: &tool_call_id,
            reason: &pending.question,
            signature: &pending.args_hash,
        });
    }
}
