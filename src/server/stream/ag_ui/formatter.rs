//! Steps as events of AG-UI.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::sdk::{ResultMessage, SdkMessage};
use crate::session::PendingCall;

use super::super::out::Out;
use super::super::state::StreamState;
use super::super::step::{Author, CallResult, Step, StepKind, Subagent, SubagentEnd};
use super::super::timestamp::timestamp;
use super::event::{
    Event, Interrupt, Outcome, PROTOCOL_VERSION, SubagentOutcome, Tagged, TokenUsage,
};
use super::messages;

/// The encoder of the format.
#[derive(Clone, Debug)]
pub(in super::super) struct AgUi {
    /// The client's id of the run.
    run_id: Arc<str>,
    is_started: bool,
}

impl AgUi {
    pub(in super::super) fn new(run_id: Arc<str>) -> Self {
        Self {
            run_id,
            is_started: false,
        }
    }

    pub(in super::super) fn set_run_id(&mut self, run_id: Option<Arc<str>>) {
        if let Some(run_id) = run_id {
            self.run_id = run_id;
        }
    }

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
        if self.is_started {
            send_state(state, out);
        } else {
            self.start(state, out);
        }
        send_messages(state, out);
        for step in steps {
            self.step(&step, state, out);
        }
    }

    pub(in super::super) fn fail(&self, text: &str, code: &str, out: &mut Out<'_>) {
        let usage = Vec::new();
        send(
            Event::RunError {
                message: text,
                code,
                usage,
            },
            out,
        );
    }

    fn start(&mut self, state: &StreamState, out: &mut Out<'_>) {
        if std::mem::replace(&mut self.is_started, true) {
            return;
        }
        let start = Event::RunStarted {
            thread_id: state.thread_id(),
            run_id: &self.run_id,
            protocol_version: PROTOCOL_VERSION,
        };
        send(start, out);
        send_state(state, out);
    }

    fn step(&mut self, step: &Step<'_>, state: &StreamState, out: &mut Out<'_>) {
        let subagent = step.subagent.as_deref();
        let mut tagged = |event| send_tagged(event, subagent, None, out);
        match &step.kind {
            StepKind::RunStarted => self.start(state, out),
            StepKind::Restarted | StepKind::Replaced => send_messages(state, out),
            StepKind::CallReady(..) => {}
            StepKind::Progress(call) => tagged(progress(&call.id, call.data)),
            StepKind::CallResult(result) => send_result(result, subagent, out),
            StepKind::StateChanged { todos, files } => {
                let mut delta = Vec::new();
                if *todos {
                    delta.push(replace("/todos", &json!(state.history().todos())));
                }
                if *files {
                    delta.push(replace("/files", &json!(state.history().files())));
                }
                tagged(Event::StateDelta { delta });
            }
            StepKind::SubagentStarted(subagent) => tagged(subagent_started(subagent)),
            StepKind::SubagentFinished(end) => tagged(subagent_finished(end)),
            StepKind::Other(name, value) => {
                let name = format!("agentcore.{name}");
                tagged(Event::Custom { name, value });
            }
            StepKind::Finished(result) => self.finish(result, state, out),
            kind => block_events(kind, &mut tagged),
        }
    }

    fn finish(&self, result: &ResultMessage, state: &StreamState, out: &mut Out<'_>) {
        let reason = result.terminal_reason.as_deref().unwrap_or_default();
        let usage = usage(result);
        let metadata = json!({
            "num_turns": result.num_turns,
            "duration_ms": result.duration_ms,
            "total_cost_usd": result.total_cost_usd,
            "terminal_reason": reason,
        });
        let is_cancelled = result.is_aborted();
        if result.is_error && !is_cancelled {
            let text = error_text(result);
            let code = if reason.is_empty() { "error" } else { reason };
            let event = Event::RunError {
                message: &text,
                code,
                usage,
            };
            send_tagged(event, None, Some(metadata), out);
            return;
        }

        let interrupts = if result.has_pending_calls() {
            interrupts(state)
        } else {
            Vec::new()
        };
        let outcome = if is_cancelled {
            Outcome::Cancelled
        } else if interrupts.is_empty() {
            Outcome::Success
        } else {
            send_state(state, out);
            send_messages(state, out);
            Outcome::Interrupt { interrupts }
        };
        let text = || result.result.clone().map(Value::String);
        let event = Event::RunFinished {
            thread_id: state.thread_id(),
            run_id: &self.run_id,
            outcome,
            result: result.structured_output.clone().or_else(text),
            usage,
        };
        send_tagged(event, None, Some(metadata), out);
    }
}

/// The events of turns and blocks.
fn block_events<'s>(kind: &'s StepKind<'_>, send: &mut impl FnMut(Event<'s>)) {
    match kind {
        StepKind::TurnStarted(turn) => send(Event::StepStarted {
            step_name: step_name(*turn),
        }),
        StepKind::TurnFinished(turn) => send(Event::StepFinished {
            step_name: step_name(*turn),
        }),
        StepKind::TextStart(message_id, author) => send(Event::TextMessageStart {
            message_id,
            role: match author {
                Author::Assistant => "assistant",
                Author::User => "user",
            },
        }),
        StepKind::TextDelta(message_id, delta) => {
            send(Event::TextMessageContent { message_id, delta });
        }
        StepKind::TextEnd(message_id) => send(Event::TextMessageEnd { message_id }),
        StepKind::ThinkingStart(message_id) => {
            send(Event::ReasoningStart { message_id });
            let role = "reasoning";
            send(Event::ReasoningMessageStart { message_id, role });
        }
        StepKind::ThinkingDelta(message_id, text) => {
            let delta = text.as_str();
            send(Event::ReasoningMessageContent { message_id, delta });
        }
        StepKind::ThinkingEnd(message_id) => {
            send(Event::ReasoningMessageEnd { message_id });
            send(Event::ReasoningEnd { message_id });
        }
        StepKind::CallStart(tool_call_id, tool_call_name, parent_message_id) => {
            send(Event::ToolCallStart {
                tool_call_id,
                tool_call_name,
                parent_message_id,
            });
        }
        StepKind::CallDelta(tool_call_id, text) => send(Event::ToolCallArgs {
            tool_call_id,
            delta: text.to_text(),
        }),
        StepKind::CallEnd(tool_call_id) => send(Event::ToolCallEnd { tool_call_id }),
        _ => {}
    }
}

fn step_name(turn: u32) -> String {
    format!("turn {turn}")
}

fn progress(id: &str, data: &Value) -> Event<'static> {
    let content = match data {
        Value::Object(_) => data.clone(),
        other => json!({ "value": other }),
    };
    Event::ActivitySnapshot {
        message_id: format!("{id}.progress"),
        activity_type: "agentcore.tool_progress",
        content,
        replace: true,
    }
}

fn send_result(result: &CallResult<'_>, subagent: Option<&str>, out: &mut Out<'_>) {
    let event = Event::ToolCallResult {
        message_id: format!("{}.result", result.id),
        tool_call_id: &result.id,
        content: result.output.to_text(),
        role: "tool",
    };
    let metadata = result.is_error.then(|| json!({"is_error": true}));
    send_tagged(event, subagent, metadata, out);
}

fn subagent_started(subagent: &Subagent) -> Event<'_> {
    Event::SubagentStarted {
        name: &subagent.name,
        description: &subagent.description,
        parent_subagent_run_id: subagent.parent.as_deref(),
        parent_tool_call_id: &subagent.call,
    }
}

fn subagent_finished(end: &SubagentEnd) -> Event<'_> {
    match end {
        SubagentEnd::Success(result) => Event::SubagentFinished {
            result: result.as_deref(),
            outcome: SubagentOutcome::Success,
        },
        SubagentEnd::Suspended => Event::SubagentFinished {
            result: None,
            outcome: SubagentOutcome::Suspended,
        },
        SubagentEnd::Failed(message, code) => Event::SubagentError { message, code },
    }
}

fn replace(path: &str, value: &Value) -> Value {
    json!({"op": "replace", "path": path, "value": value})
}

fn send_state(state: &StreamState, out: &mut Out<'_>) {
    let snapshot = state.history().state();
    send(Event::StateSnapshot { snapshot }, out);
}

/// Sends all messages. Without those before the run, a snapshot would remove them from the client.
fn send_messages(state: &StreamState, out: &mut Out<'_>) {
    if let Some(messages) = messages::snapshot(state) {
        send(Event::MessagesSnapshot { messages }, out);
    }
}

fn send(event: Event<'_>, out: &mut Out<'_>) {
    send_tagged(event, None, None, out);
}

fn send_tagged(
    event: Event<'_>,
    subagent_run_id: Option<&str>,
    metadata: Option<Value>,
    out: &mut Out<'_>,
) {
    out.json(&Tagged {
        event,
        subagent_run_id,
        metadata,
    });
}

/// Returns the calls of this thread that wait for a decision.
fn interrupts(state: &StreamState) -> Vec<Interrupt> {
    state
        .history()
        .pending()
        .iter()
        .filter(|call| call.session_id == *state.thread_id())
        .map(|call| interrupt(call, state))
        .collect()
}

fn interrupt(call: &PendingCall, state: &StreamState) -> Interrupt {
    let response_schema = if call.expects_text {
        json!({
            "type": "object",
            "properties": {"text": {"type": "string"}},
            "required": ["text"],
        })
    } else {
        json!({
            "type": "object",
            "properties": {
                "approved": {"type": "boolean"},
                "editedArgs": {"type": "object"},
                "message": {"type": "string"},
            },
            "required": ["approved"],
        })
    };
    Interrupt {
        id: call.id.to_string(),
        reason: "tool_call",
        tool_call_id: state.shown_call_id(&None, &call.call.id).to_string(),
        message: call.question.clone(),
        response_schema,
        expires_at: call.expires_at_ms.map(timestamp),
        metadata: json!({"args_hash": call.args_hash}),
    }
}

fn usage(result: &ResultMessage) -> Vec<TokenUsage> {
    result
        .model_usage
        .iter()
        .map(|(model, usage)| TokenUsage {
            model: model.to_string(),
            input_tokens: usage
                .input_tokens
                .saturating_add(usage.cache_read_input_tokens)
                .saturating_add(usage.cache_creation_input_tokens),
            output_tokens: usage.output_tokens,
            cached_input_tokens: usage.cache_read_input_tokens,
            cache_write_input_tokens: usage.cache_creation_input_tokens,
        })
        .collect()
}

/// Returns the reasons for the failure of a run.
pub(in super::super) fn error_text(result: &ResultMessage) -> String {
    match &*result.errors {
        [] => result
            .result
            .clone()
            .unwrap_or_else(|| result.subtype.to_string()),
        errors => errors.join("\n"),
    }
}
