//! One span, in the run's recorder and as a `tracing` span.

use serde_json::Value;
use tracing::field::Empty;
use tracing::{Id, Span, info_span};

use crate::message::ToolCall;
use crate::run::RunContext;
use crate::trace::{SpanHandle, SpanId};
use crate::util::secret::redacted;

/// The parent of a span, in the recorder and in `tracing`.
#[derive(Clone, Debug, Default)]
pub(super) struct ParentSpan {
    pub(super) recorded: Option<SpanId>,
    pub(super) span: Option<Span>,
    /// True for the span of the run itself, which takes precedence over the span that is current
    /// where the run is polled.
    pub(super) is_run_span: bool,
}

/// A span in progress, in the recorder and in `tracing`. Dropping it ends both.
pub(super) struct SpanPair {
    recorded: Option<Box<dyn SpanHandle>>,
    pub(super) span: Span,
}

impl SpanPair {
    /// Starts the recorder's span, next to the `tracing` span `span`.
    pub(super) fn start(cx: &RunContext, name: &str, parent: &ParentSpan, span: Span) -> Self {
        let recorded_span = cx.trace().map(|recorder| match parent.recorded {
            Some(parent) => recorder.start_child(name, parent),
            None => recorder.start_span(name),
        });
        Self {
            recorded: recorded_span,
            span,
        }
    }

    /// Returns this span as the parent of others.
    pub(super) fn as_parent(&self) -> ParentSpan {
        ParentSpan {
            recorded: self.recorded.as_ref().and_then(|span| span.id()),
            span: (!self.span.is_none()).then(|| self.span.clone()),
            is_run_span: false,
        }
    }

    /// Returns `true` if the recorder or a `tracing` subscriber receives the span.
    pub(super) fn is_recorded(&self) -> bool {
        self.recorded.is_some() || !self.span.is_disabled()
    }

    /// Records an attribute in the recorder.
    pub(super) fn set(&mut self, key: &str, value: impl Into<Value>) {
        if let Some(recorded_span) = &mut self.recorded {
            recorded_span.set(key, value.into());
        }
    }

    /// Records a message's text in the `tracing` span.
    pub(super) fn record_text(&self, field: &str, text: &str) {
        if !self.span.is_disabled() {
            self.span.record(field, &*redacted(text));
        }
    }

    pub(super) fn failed(&mut self, error: &str, kind: &str) {
        self.set("error", error);
        self.set("error_type", kind);
        self.span.record("error.type", kind);
        self.span.record("otel.status_code", "ERROR");
    }
}

/// Returns the id of the parent of a `tracing` span: `parent` if it is the span of the run, else
/// the current span, inside which the run is polled. If that span does not exist, returns the other
/// one.
fn parent_id(parent: &ParentSpan) -> Option<Id> {
    let own_span_id = || parent.span.as_ref().and_then(Span::id);
    let current_id = || Span::current().id();
    if parent.is_run_span {
        own_span_id().or_else(current_id)
    } else {
        current_id().or_else(own_span_id)
    }
}

/// Splits a model's id into its provider, which may be empty, and its model.
fn split(model: &str) -> (&str, &str) {
    model.split_once(':').unwrap_or(("", model))
}

pub(super) fn run(cx: &RunContext, parent: &ParentSpan) -> Span {
    info_span!(
        target: "agentcore::trace",
        parent: parent_id(parent),
        "agent.run",
        "otel.name" = format_args!("invoke_agent {}", cx.agent()),
        "otel.kind" = "internal",
        "otel.status_code" = Empty,
        "gen_ai.operation.name" = "invoke_agent",
        "gen_ai.agent.name" = cx.agent(),
        "gen_ai.conversation.id" = %cx.session_id(),
        "gen_ai.usage.input_tokens" = Empty,
        "gen_ai.usage.output_tokens" = Empty,
        "error.type" = Empty,
    )
}

pub(super) fn model_call(cx: &RunContext, model: &str, parent: &ParentSpan) -> Span {
    let (provider, model) = split(model);
    info_span!(
        target: "agentcore::trace",
        parent: parent_id(parent),
        "llm.call",
        "otel.name" = format_args!("chat {model}"),
        "otel.kind" = "client",
        "otel.status_code" = Empty,
        "gen_ai.operation.name" = "chat",
        "gen_ai.provider.name" = provider,
        "gen_ai.request.model" = model,
        "gen_ai.request.max_tokens" = Empty,
        "gen_ai.request.temperature" = Empty,
        "gen_ai.agent.name" = cx.agent(),
        "gen_ai.conversation.id" = %cx.session_id(),
        "gen_ai.response.id" = Empty,
        "gen_ai.response.model" = Empty,
        "gen_ai.response.finish_reasons" = Empty,
        "gen_ai.usage.input_tokens" = Empty,
        "gen_ai.usage.output_tokens" = Empty,
        "gen_ai.usage.cache_read.input_tokens" = Empty,
        "gen_ai.usage.cache_write.input_tokens" = Empty,
        "gen_ai.usage.reasoning.output_tokens" = Empty,
        "gen_ai.system_instructions" = Empty,
        "gen_ai.input.messages" = Empty,
        "gen_ai.output.messages" = Empty,
        "error.type" = Empty,
    )
}

pub(super) fn tool_call(cx: &RunContext, call: &ToolCall, parent: &ParentSpan) -> Span {
    info_span!(
        target: "agentcore::trace",
        parent: parent_id(parent),
        "tool.call",
        "otel.name" = format_args!("execute_tool {}", call.name),
        "otel.kind" = "internal",
        "otel.status_code" = Empty,
        "gen_ai.operation.name" = "execute_tool",
        "gen_ai.tool.name" = &*call.name,
        "gen_ai.tool.type" = "function",
        "gen_ai.tool.call.id" = &*call.id,
        "gen_ai.agent.name" = cx.agent(),
        "gen_ai.conversation.id" = %cx.session_id(),
        "gen_ai.tool.call.arguments" = Empty,
        "gen_ai.tool.call.result" = Empty,
        "error.type" = Empty,
    )
}
