//! [`TracingHook`], which records a span for each call of a model and of a tool.

use async_trait::async_trait;
use serde_json::json;
use tracing::Instrument;

use crate::error::{Error, Result};
use crate::hook::{Hook, Next, Phases};
use crate::message::{ToolCall, ToolResult};
use crate::model::{ModelRequest, ModelResponse};
use crate::run::RunContext;
use crate::session::AgentState;
use crate::usage::Usage;
use crate::util::secret::{Cut, redact_cut, redact_text};
use crate::util::text::head;

use super::content;
use super::span::{self, SpanPair};
use super::span_table::{SpanTable, parent_of_run};

/// The length of a text passed to a recorder, in characters.
const PREVIEW: usize = 500;

/// The maximum length of arguments, in characters.
const MAX_ARGS: usize = 16 * 1024;

/// The number of characters after a preview that are searched for secrets with it: the preview has
/// some of them if a secret before them was longer than its replacement.
const MARGIN: usize = 4 * 1024;

/// Records a span for each model call and each tool call. A tool call that was not permitted has no
/// span.
///
/// The run's [`TraceRecorder`](crate::trace::TraceRecorder) receives the spans, if there is one,
/// under the names `llm.call` and `tool.call`:
///
/// | span | attributes |
/// |---|---|
/// | `llm.call` | `agent session_id run_id model turn message_count`, `max_tokens temperature` if they are set, then `content_length tool_calls_count content_preview tool_call_names stop_reason response_id response_model` and those that are not 0 of `input_tokens output_tokens cache_read_tokens cache_write_tokens reasoning_tokens` |
/// | `tool.call` | `agent session_id run_id tool_name tool_call_id tool_args`, then `output_length output_preview` |
/// | both | `error error_type` of a failed call |
/// | `agent.run` ([`with_run_span`](Self::with_run_span)) | `agent session_id run_id`, then `turns input_tokens output_tokens` |
///
/// Lengths are in characters. A preview is the first 500 of them, `tool_args` the first 16,384.
/// `input_tokens` are those of the whole prompt with cached tokens, as the conventions of
/// OpenTelemetry define them, unlike [`Usage::input_tokens`](crate::Usage::input_tokens).
///
/// Each call also has a `tracing` span of the level `INFO` and the target `agentcore::trace`, with
/// the attributes of the OpenTelemetry conventions for generative AI (`gen_ai.operation.name`,
/// `gen_ai.request.model`, `gen_ai.usage.input_tokens`, ..). These spans have the texts of messages
/// only with [`with_content`](Self::with_content). Export the recorder's spans or the `tracing`
/// spans, not both.
///
/// The spans of a child run are inside the span of the tool call that runs the child. If that call
/// has ended before the child, the `tracing` spans of the child are inside the span of the parent
/// run, if it has one. Without a recorder and without a subscriber, the hook does nothing. Add it
/// first: as the outermost hook, it records responses and results with the changes of all other
/// hooks, but requests and arguments as they are before the hooks inside wrap the call.
///
/// ```
/// use agentcore::hooks::TracingHook;
/// use agentcore::testing::ScriptedModel;
/// use agentcore::trace::MemoryRecorder;
/// use agentcore::{AgentBuilder, FuncTool};
/// use serde_json::json;
///
/// # async fn example() -> agentcore::Result<()> {
/// let recorder = MemoryRecorder::new();
/// let clock = FuncTool::new("clock", "The time", json!({"type": "object"}), |_cx, _args| async {
///     "noon"
/// });
/// let agent = AgentBuilder::new(ScriptedModel::new().call("clock", json!({})).say("Noon."))
///     .tool(clock)
///     .hook(TracingHook::new())
///     .trace_recorder(recorder.clone())
///     .build()?;
/// agent.run("What time is it?").await?;
/// let names: Vec<_> = recorder.spans().into_iter().map(|span| span.name).collect();
/// assert_eq!(names, ["llm.call", "tool.call", "llm.call"]);
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[must_use = "a hook does something only in an agent"]
pub struct TracingHook {
    content: bool,
    run: bool,
}

impl TracingHook {
    /// Creates a hook that records the spans of calls, without content in the `tracing` spans.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether the `tracing` spans include the texts of messages:
    /// `gen_ai.system_instructions`, `gen_ai.input.messages`, `gen_ai.output.messages`,
    /// `gen_ai.tool.call.arguments` and `gen_ai.tool.call.result`. Each has at most 256 KiB of
    /// text; the oldest messages of a longer history are left out. Defaults to `false`.
    pub fn with_content(mut self, content: bool) -> Self {
        self.content = content;
        self
    }

    /// Sets whether each run has a span `agent.run` (`invoke_agent` in OpenTelemetry's terms)
    /// around the spans of its calls. Defaults to `false`.
    pub fn with_run_span(mut self, run: bool) -> Self {
        self.run = run;
        self
    }

    fn record_response(&self, pair: &mut SpanPair, response: &ModelResponse) {
        let text = response.text();
        let names: Vec<&str> = response.tool_calls().map(|call| &*call.name).collect();
        pair.set("content_length", text.chars().count());
        pair.set("tool_calls_count", names.len());
        pair.set("content_preview", preview(&text, PREVIEW));
        if !names.is_empty() {
            pair.set("tool_call_names", names);
        }

        if let Some(reason) = &response.stop_reason {
            pair.set("stop_reason", reason.as_str());
            let reasons = json!([reason.as_str()]).to_string();
            pair.record_text("gen_ai.response.finish_reasons", &reasons);
        }

        if !response.id.is_empty() {
            pair.set("response_id", &*response.id);
            pair.record_text("gen_ai.response.id", &response.id);
        }

        if !response.model.is_empty() {
            pair.set("response_model", &*response.model);
            pair.record_text("gen_ai.response.model", &response.model);
        }

        if self.content {
            pair.record_text("gen_ai.output.messages", &content::output(response));
        }

        record_usage(pair, &response.usage);
    }
}

fn record_usage(pair: &mut SpanPair, usage: &Usage) {
    let mut record = |key: &str, field: &str, count: u64| {
        if count > 0 {
            pair.set(key, count);
            pair.span.record(field, count);
        }
    };

    // The semantic conventions include cached tokens in the input.
    let input = usage.context_tokens();
    let output = usage.output_tokens;
    record("input_tokens", "gen_ai.usage.input_tokens", input);
    record("output_tokens", "gen_ai.usage.output_tokens", output);
    record(
        "cache_read_tokens",
        "gen_ai.usage.cache_read.input_tokens",
        usage.cache_read_tokens,
    );
    record(
        "cache_write_tokens",
        "gen_ai.usage.cache_write.input_tokens",
        usage.cache_write_tokens,
    );
    record(
        "reasoning_tokens",
        "gen_ai.usage.reasoning.output_tokens",
        usage.reasoning_tokens,
    );
}

fn record_error(pair: &mut SpanPair, error: &Error) {
    pair.failed(&error.to_string(), &format!("{:?}", error.kind()));
}

fn record_result(pair: &mut SpanPair, result: &ToolResult, content: bool) {
    let text = result.content.text();
    let preview = preview(&text, PREVIEW);
    pair.set("output_length", text.chars().count());
    pair.set("output_preview", &*preview);
    if content {
        pair.record_text("gen_ai.tool.call.result", &content::cut(&text));
    }
    if result.is_error {
        pair.failed(&preview, "tool_error");
    }
}

/// Returns the first `max_chars` characters of `text` without secrets. The rest is not searched,
/// for it may be long.
fn preview(text: &str, max_chars: usize) -> String {
    let (start, omitted) = head(text, max_chars + MARGIN);
    let mut start = start.to_owned();
    match omitted {
        0 => redact_text(&mut start),
        _ => redact_cut(&mut start, Cut::End),
    }
    head(&start, max_chars).0.to_owned()
}

fn record_run(pair: &mut SpanPair, cx: &RunContext) {
    pair.set("agent", cx.agent());
    pair.set("session_id", &**cx.session_id());
    pair.set("run_id", cx.run_id());
}

#[async_trait]
impl Hook for TracingHook {
    fn name(&self) -> &str {
        "tracing"
    }

    fn description(&self) -> &str {
        "Records spans of model calls and tool calls"
    }

    fn phases(&self) -> Phases {
        let calls = Phases::WRAP_MODEL_CALL | Phases::WRAP_TOOL_CALL;
        if self.run {
            calls | Phases::BEFORE_AGENT | Phases::AFTER_AGENT
        } else {
            calls
        }
    }

    async fn before_agent(&self, cx: &RunContext, state: AgentState) -> Result<AgentState> {
        let parent = parent_of_run(cx);
        let mut pair = SpanPair::start(cx, "agent.run", &parent, span::run(cx, &parent));
        record_run(&mut pair, cx);
        SpanTable::of(cx).begin_run(pair);
        Ok(state)
    }

    async fn after_agent(&self, cx: &RunContext, state: AgentState) -> Result<AgentState> {
        if let Some(mut pair) = SpanTable::of(cx).end_run() {
            let usage = cx.usage();
            pair.set("turns", cx.turn());
            pair.set("input_tokens", usage.context_tokens());
            pair.set("output_tokens", usage.output_tokens);
            pair.span
                .record("gen_ai.usage.input_tokens", usage.context_tokens());
            pair.span
                .record("gen_ai.usage.output_tokens", usage.output_tokens);
        }
        Ok(state)
    }

    async fn wrap_model_call(
        &self,
        request: ModelRequest,
        next: Next<ModelRequest>,
    ) -> Result<ModelResponse> {
        let cx = next.context().clone();
        let model = cx.model();
        let parent = SpanTable::of(&cx).parent(&cx);
        let span = span::model_call(&cx, model.id(), &parent);
        let mut pair = SpanPair::start(&cx, "llm.call", &parent, span);
        if !pair.is_recorded() {
            return next.run(request).await;
        }

        record_run(&mut pair, &cx);
        pair.set("model", model.id());
        pair.set("turn", cx.turn());
        pair.set("message_count", request.messages.len());
        if let Some(max_tokens) = request.max_output_tokens {
            pair.set("max_tokens", max_tokens);
            pair.span.record("gen_ai.request.max_tokens", max_tokens);
        }

        if let Some(temperature) = request.temperature {
            pair.set("temperature", temperature);
            pair.span.record("gen_ai.request.temperature", temperature);
        }

        if self.content && !pair.span.is_disabled() {
            let instructions = content::instructions(&request.system);
            if !instructions.is_empty() {
                pair.record_text("gen_ai.system_instructions", &instructions);
            }

            let input = content::input(&request.messages);
            pair.record_text("gen_ai.input.messages", &input);
        }

        let result = next.run(request).instrument(pair.span.clone()).await;
        match &result {
            Ok(response) => self.record_response(&mut pair, response),
            Err(error) => record_error(&mut pair, error),
        }

        result
    }

    async fn wrap_tool_call(&self, call: ToolCall, next: Next<ToolCall>) -> Result<ToolResult> {
        let cx = next.context().clone();
        let open_spans = SpanTable::of(&cx);
        let parent = open_spans.parent(&cx);
        let span = span::tool_call(&cx, &call, &parent);
        let mut pair = SpanPair::start(&cx, "tool.call", &parent, span);
        if !pair.is_recorded() {
            return next.run(call).await;
        }

        record_run(&mut pair, &cx);
        pair.set("tool_name", &*call.name);
        pair.set("tool_call_id", &*call.id);
        let args = content::args_text(&call.args);
        pair.set("tool_args", preview(&args, MAX_ARGS));
        if self.content {
            pair.record_text("gen_ai.tool.call.arguments", &args);
        }

        let entry = open_spans.enter(call.id.clone(), pair.as_parent());
        let id = call.id.clone();
        let span = pair.span.clone();
        let result = next.run(call).instrument(span).await;
        drop(entry);
        match &result {
            Ok(_) => {
                let content = self.content;

                // Hooks that run after this one may still change or suppress the output.
                cx.on_result(id, move |result| record_result(&mut pair, result, content));
            }
            Err(error) => record_error(&mut pair, error),
        }

        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::util::secret::Secret;

    #[test]
    fn preview_has_no_part_of_a_secret_wherever_it_is() {
        let secret = "preview-5d0e7b31c94f";
        let _secret = Secret::new(secret);
        for before in [0, 490, 500, 500 + MARGIN - 8, 500 + MARGIN] {
            let text = "x".repeat(before) + secret + &"y".repeat(10_000);
            let start = preview(&text, 500);
            let expected = text.replace(secret, "[redacted]");
            assert_eq!(start, head(&expected, 500).0, "{before}");
        }
        let secrets = secret.repeat(600);
        assert!(!preview(&secrets, 500).contains("preview"));
        assert_eq!(preview("short", 500), "short");
    }
}
