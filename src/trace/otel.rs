//! A recorder that sends spans to OpenTelemetry.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex};

use opentelemetry::trace::{SpanContext, SpanKind, Status, TraceContextExt, Tracer};
use opentelemetry::{Array, Context, Key, KeyValue, StringValue};
use serde_json::Value;

use crate::util::sync::lock;

use super::recorder::{SpanHandle, SpanId, TraceRecorder};

/// The maximum number of ended spans that can still get children.
const MAX_ENDED: usize = 10_000;

/// The operation of the spans that may get children after their end: a call of a tool may start a
/// run in the background.
const TOOL_CALL: &str = "execute_tool";

/// A recorder that sends the spans of a [`TracingHook`](crate::hooks::TracingHook) to
/// OpenTelemetry, named after its semantic conventions for generative AI: `chat MODEL`,
/// `execute_tool NAME` and `invoke_agent NAME` with `gen_ai.*` attributes. Attributes without a
/// convention are named `agentcore.*`.
///
/// The first spans of a run are children of the current OpenTelemetry context. Texts of the
/// conversation, arguments of tools and texts of errors are recorded only
/// [on request](Self::with_content). Events ([`TraceRecorder::record_event`]) are added to the span
/// of the current context, which is none of this recorder's own.
///
/// `opentelemetry` 0.33 is part of the public API of this type. The application chooses the
/// exporter, through the provider of the tracer.
///
/// ```
/// use agentcore::AgentBuilder;
/// use agentcore::hooks::TracingHook;
/// use agentcore::testing::ScriptedModel;
/// use agentcore::trace::OtelRecorder;
/// use opentelemetry::trace::TracerProvider as _;
/// use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};
///
/// # async fn example() -> agentcore::Result<()> {
/// // Or an exporter of OTLP, with a batch processor.
/// let exporter = InMemorySpanExporter::default();
/// let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
///
/// let agent = AgentBuilder::new(ScriptedModel::new().say("Hello!"))
///     .hook(TracingHook::new())
///     .trace_recorder(OtelRecorder::new(provider.tracer("my-service")))
///     .build()?;
/// agent.run("Hi").await?;
/// assert_eq!(exporter.get_finished_spans().unwrap()[0].name, "chat model");
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
pub struct OtelRecorder<T> {
    tracer: T,
    content: bool,
    open: Arc<Mutex<OpenSpans>>,
}

/// The spans in progress, and the last calls of tools that have ended.
#[derive(Default)]
struct OpenSpans {
    last_id: u64,
    spans: HashMap<SpanId, Context>,
    ended: HashMap<SpanId, SpanContext>,
    /// The ids of `ended`, in the order in which the spans ended.
    ended_ids: VecDeque<SpanId>,
}

impl OpenSpans {
    /// Returns the context for children of a span.
    fn parent(&self, id: SpanId) -> Option<Context> {
        let ended_parent = || {
            let span_context = self.ended.get(&id)?.clone();
            Some(Context::current().with_remote_span_context(span_context))
        };
        self.spans.get(&id).cloned().or_else(ended_parent)
    }

    fn keep_ended(&mut self, id: SpanId, span_context: SpanContext) {
        self.ended.insert(id, span_context);
        self.ended_ids.push_back(id);
        if self.ended_ids.len() > MAX_ENDED
            && let Some(oldest) = self.ended_ids.pop_front()
        {
            self.ended.remove(&oldest);
        }
    }
}

impl<T> OtelRecorder<T>
where
    T: Tracer + Send + Sync + 'static,
    T::Span: Send + Sync + 'static,
{
    /// Creates a recorder that sends spans through `tracer`, without content.
    pub fn new(tracer: T) -> Self {
        Self {
            tracer,
            content: false,
            open: Arc::default(),
        }
    }

    /// Sets whether the texts of the conversation, the arguments and results of tools, and the
    /// texts of errors are recorded. Defaults to `false`: the error status of a failed span then
    /// has no text.
    #[must_use]
    pub fn with_content(mut self, content: bool) -> Self {
        self.content = content;
        self
    }

    fn start(&self, name: &str, parent: &Context) -> Box<dyn SpanHandle> {
        let kind = match name {
            "llm.call" => SpanKind::Client,
            _ => SpanKind::Internal,
        };

        let builder = self.tracer.span_builder(name.to_owned()).with_kind(kind);
        let span = self.tracer.build_with_context(builder, parent);
        let context = parent.with_span(span);
        if let Some(operation) = operation(name) {
            let operation = KeyValue::new("gen_ai.operation.name", operation);
            context.span().set_attribute(operation);
        }

        let mut open_spans = lock(&self.open);
        open_spans.last_id += 1;
        let id = SpanId::new(open_spans.last_id);
        open_spans.spans.insert(id, context.clone());
        Box::new(OtelSpan {
            open: self.open.clone(),
            id,
            operation: operation(name),
            content: self.content,
            context,
        })
    }
}

/// Returns the operation of a span that has a convention.
fn operation(name: &str) -> Option<&'static str> {
    match name {
        "llm.call" => Some("chat"),
        "tool.call" => Some(TOOL_CALL),
        "agent.run" => Some("invoke_agent"),
        _ => None,
    }
}

impl<T> TraceRecorder for OtelRecorder<T>
where
    T: Tracer + Send + Sync + 'static,
    T::Span: Send + Sync + 'static,
{
    fn start_span(&self, name: &str) -> Box<dyn SpanHandle> {
        self.start(name, &Context::current())
    }

    fn start_child(&self, name: &str, parent: SpanId) -> Box<dyn SpanHandle> {
        let parent = lock(&self.open).parent(parent);
        self.start(name, &parent.unwrap_or_else(Context::current))
    }

    fn record_event(&self, name: &str, metadata: Value) {
        let metadata = KeyValue::new("agentcore.metadata", metadata.to_string());
        let context = Context::current();
        context.span().add_event(name.to_owned(), vec![metadata]);
    }
}

impl<T> fmt::Debug for OtelRecorder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OtelRecorder")
            .field("content", &self.content)
            .field("open", &lock(&self.open).spans.len())
            .finish_non_exhaustive()
    }
}

/// A span in progress. Dropping it ends the span.
struct OtelSpan {
    open: Arc<Mutex<OpenSpans>>,
    id: SpanId,
    operation: Option<&'static str>,
    content: bool,
    context: Context,
}

impl OtelSpan {
    fn set_attribute(&self, key: impl Into<Key>, value: impl Into<opentelemetry::Value>) {
        self.context.span().set_attribute(KeyValue::new(key, value));
    }

    /// Renames the span to `OPERATION SUBJECT`, such as `chat MODEL`.
    fn rename(&self, subject: &str) {
        if let Some(operation) = self.operation {
            self.context
                .span()
                .update_name(format!("{operation} {subject}"));
        }
    }
}

impl SpanHandle for OtelSpan {
    fn id(&self) -> Option<SpanId> {
        Some(self.id)
    }

    fn set(&mut self, key: &str, value: Value) -> &mut dyn SpanHandle {
        let text = || match &value {
            Value::String(text) => text.clone(),
            value => value.to_string(),
        };

        match key {
            "model" => {
                let id = text();
                let (provider, model) = id.split_once(':').unwrap_or(("", &id));
                if !provider.is_empty() {
                    self.set_attribute("gen_ai.provider.name", provider.to_owned());
                }

                self.set_attribute("gen_ai.request.model", model.to_owned());
                self.rename(model);
            }
            "agent" => {
                self.set_attribute("gen_ai.agent.name", text());
                if self.operation == Some("invoke_agent") {
                    self.rename(&text());
                }
            }
            "tool_name" => {
                self.set_attribute("gen_ai.tool.name", text());
                self.set_attribute("gen_ai.tool.type", "function");
                self.rename(&text());
            }
            "stop_reason" => {
                let reasons = vec![StringValue::from(text())];
                let reasons = opentelemetry::Value::Array(Array::String(reasons));
                self.set_attribute("gen_ai.response.finish_reasons", reasons);
            }
            "error" => {
                let description = if self.content { text() } else { String::new() };
                self.context.span().set_status(Status::error(description));
            }
            _ if is_content(key) && !self.content => {}
            _ => match attribute_value(&value) {
                Some(value) => self.set_attribute(attribute_name(key), value),
                None => self.set_attribute(attribute_name(key), text()),
            },
        }
        self
    }

    fn end(self: Box<Self>) {}
}

impl Drop for OtelSpan {
    fn drop(&mut self) {
        let mut open_spans = lock(&self.open);
        open_spans.spans.remove(&self.id);
        if self.operation == Some(TOOL_CALL) {
            open_spans.keep_ended(self.id, self.context.span().span_context().clone());
        }
        drop(open_spans);
        self.context.span().end();
    }
}

/// Returns `true` for attributes that are recorded only on request.
fn is_content(key: &str) -> bool {
    matches!(key, "content_preview" | "tool_args" | "output_preview")
}

/// Returns the name of an attribute in the conventions.
fn attribute_name(key: &str) -> Cow<'static, str> {
    let attribute = match key {
        "session_id" => "gen_ai.conversation.id",
        "max_tokens" => "gen_ai.request.max_tokens",
        "temperature" => "gen_ai.request.temperature",
        "response_id" => "gen_ai.response.id",
        "response_model" => "gen_ai.response.model",
        "input_tokens" => "gen_ai.usage.input_tokens",
        "output_tokens" => "gen_ai.usage.output_tokens",
        "cache_read_tokens" => "gen_ai.usage.cache_read.input_tokens",
        "cache_write_tokens" => "gen_ai.usage.cache_write.input_tokens",
        "reasoning_tokens" => "gen_ai.usage.reasoning.output_tokens",
        "tool_call_id" => "gen_ai.tool.call.id",
        "tool_args" => "gen_ai.tool.call.arguments",
        "output_preview" => "gen_ai.tool.call.result",
        "error_type" => "error.type",
        _ => return format!("agentcore.{key}").into(),
    };

    attribute.into()
}

/// Returns the value of an attribute. `None` for a value that OpenTelemetry cannot represent.
fn attribute_value(value: &Value) -> Option<opentelemetry::Value> {
    Some(match value {
        Value::Bool(value) => (*value).into(),
        Value::Number(number) => match number.as_i64() {
            Some(number) => number.into(),
            None => number.as_f64()?.into(),
        },
        Value::String(text) => text.clone().into(),
        Value::Array(values) => {
            let texts: Option<Vec<_>> = values
                .iter()
                .map(|value| {
                    value
                        .as_str()
                        .map(|text| StringValue::from(text.to_owned()))
                })
                .collect();
            opentelemetry::Value::Array(Array::String(texts?))
        }
        _ => return None,
    })
}
