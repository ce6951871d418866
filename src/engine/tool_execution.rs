//! The execution of one tool: its panics, its time limit, its heartbeat.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep_until};

use crate::error::BoxError;
use crate::message::{Content, ToolCall, ToolResult};
use crate::run::{CallClock, RunContext};
use crate::tool::{Tool, ToolContext, ToolError, ToolOutput, UnansweredQuestion};
use crate::util::Cancellation;
use crate::util::blocking::{LARGE_TEXT, blocking};
use crate::util::panic::{self, DropContained};
use crate::util::secret::redact_text;
use crate::util::text::cut_bytes;
use crate::util::time::later;

use super::config::Config;
use super::result_context::ResultContext;
use super::result_limits::{limit_content, limit_result, remove_deep_details};
use super::running_call::RunningCall;

/// The prefix of a failed result's text.
const FAILED: &str = "Error: ";

/// The limits of a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallLimits {
    /// The time that the call may run without progress.
    pub(super) timeout: Duration,
    /// The interval of its heartbeats.
    pub(super) heartbeat: Duration,
    /// The limit of its result in bytes.
    pub(super) max_result_bytes: usize,
}

/// The end of the execution of a tool.
enum ExecutionEnd {
    Returned(Result<ToolOutput, BoxError>),
    Panicked(String),
    TimedOut,
}

impl ExecutionEnd {
    /// Returns the size of the tool's output in bytes: exact for texts, estimated for details.
    /// Returns 0 for an error that is not a [`ToolError`], because its size is unknown.
    fn text_len(&self) -> usize {
        match self {
            Self::Returned(Ok(output)) => {
                let display = output.display.as_ref().map_or(0, String::len);
                let details = output.details.as_ref().map_or(0, details_len);
                let len = output.content.text_len().saturating_add(display);
                len.saturating_add(details)
            }
            Self::Returned(Err(error)) => {
                let error = error.downcast_ref::<ToolError>();
                error.map_or(0, ToolError::text_len)
            }
            Self::Panicked(_) | Self::TimedOut => 0,
        }
    }

    /// Takes the question of the tool that was not answered, if there is one.
    fn take_question(&mut self) -> Option<UnansweredQuestion> {
        match self {
            Self::Returned(Err(error)) => error.downcast_mut::<ToolError>()?.take_question(),
            _ => None,
        }
    }

    /// Returns the result, redacted and within the limit.
    fn into_limited_result(self, call: &ToolCall, limits: CallLimits) -> ToolResult {
        let mut result = self.into_result(call, limits);
        // Redacting details recurses into them.
        remove_deep_details(&mut result, call);
        // Redacted before it is cut, which may leave a part of a secret.
        result.redact();
        limit_result(&mut result, call, limits.max_result_bytes);
        result
    }

    /// Returns the result, before it is redacted and limited as a whole.
    fn into_result(self, call: &ToolCall, limits: CallLimits) -> ToolResult {
        match self {
            Self::Returned(Ok(mut output)) => {
                if output.is_error {
                    limit_failure(&mut output.content, limits.max_result_bytes);
                }

                output.into_result(call)
            }
            Self::Returned(Err(error)) => failed(call, error, limits.max_result_bytes),
            Self::Panicked(message) => {
                ToolResult::failed(call, format!("tool {:?} panicked: {message}", call.name))
            }
            Self::TimedOut => ToolResult::failed(
                call,
                format!(
                    "tool {:?} timed out: no progress for {:?}; it was cancelled",
                    call.name, limits.timeout
                ),
            ),
        }
    }
}

/// Estimates the size of details in bytes, up to [`LARGE_TEXT`].
fn details_len(details: &Value) -> usize {
    /// The size of a value without its text.
    const VALUE_SIZE: usize = 32;

    let mut len = 0_usize;
    let mut values = vec![details];
    while let Some(value) = values.pop() {
        len = len.saturating_add(match value {
            Value::String(text) => text.len(),
            Value::Array(items) => items.len().saturating_mul(VALUE_SIZE),
            Value::Object(fields) => fields.len().saturating_mul(2 * VALUE_SIZE),
            _ => 0,
        });
        if len >= LARGE_TEXT {
            return LARGE_TEXT;
        }

        match value {
            Value::Array(items) => values.extend(items),
            Value::Object(fields) => values.extend(fields.values()),
            _ => {}
        }
    }

    len
}

/// One call of one tool, about to be executed.
#[derive(Clone, Copy)]
pub(super) struct Execution<'a> {
    pub(super) config: &'a Arc<Config>,
    pub(super) cx: &'a RunContext,
    pub(super) tool: &'a Arc<dyn Tool>,
    pub(super) call: &'a ToolCall,
    pub(super) clock: &'a Arc<CallClock>,
    pub(super) context: &'a ResultContext,
    pub(super) limits: CallLimits,
}

impl Execution<'_> {
    /// Executes the call. A failure becomes an error result. Secrets are redacted.
    pub(super) async fn run(self) -> ToolResult {
        let mut end = self.execute().await;
        let question = end.take_question();
        let question_len = question.as_ref().map_or(0, UnansweredQuestion::text_len);
        let text_len = end.text_len().saturating_add(question_len);
        let limits = self.limits;
        let into_limited = move |call: &ToolCall| {
            let question = question.map(|question| limited_question(question, limits));
            (end.into_limited_result(call, limits), question)
        };

        // Measuring and redacting take time in proportion to the text.
        let (result, question) = if text_len < LARGE_TEXT {
            into_limited(self.call)
        } else {
            let call = self.call.clone();
            let limited = blocking(move || Ok(into_limited(&call))).await;
            limited.unwrap_or_else(|error| (ToolResult::failed(self.call, error.to_string()), None))
        };
        self.context.set_question(question);
        result
    }

    /// Executes the tool in a new context, which has no effect once this future is dropped.
    async fn execute(self) -> ExecutionEnd {
        let shared_call = Arc::new(self.call.clone());
        let config = self.config.clone();
        let run = self.cx.clone();
        let tool = self.tool.clone();
        let clock = self.clock.clone();
        let host = RunningCall::new(config, run, tool, shared_call.clone(), clock, self.limits)
            .with_approved_question(self.context.approved_question());
        let host = Arc::new(host);

        // Dropped in the reverse order: the context can no longer change the run, then its work is
        // cancelled, then the child runs that have not ended are reported as stopped.
        let _end = host.end_guard();
        let cancellation = Cancellation::default();
        let _cancel = cancellation.guard();
        let (context, _live) = ToolContext::new(host, shared_call, cancellation.clone());
        self.watch(context).await
    }

    /// Runs the tool until it returns, panics, or makes no progress for its timeout. Emits a
    /// heartbeat meanwhile.
    async fn watch(self, context: ToolContext) -> ExecutionEnd {
        let Self {
            cx,
            tool,
            call,
            clock,
            limits,
            ..
        } = self;

        // The time of hooks and of earlier executions of this call does not count.
        clock.touch();
        let args = (*call.args).clone();

        // The call itself is inside the future, so that a panic before its first await is caught.
        let execution = panic::catch_async(async move { tool.execute(context, args).await });
        let mut execution = DropContained::new(Box::pin(execution), "a tool");
        let mut next_heartbeat = later(Instant::now(), limits.heartbeat);
        loop {
            let remaining = limits.timeout.saturating_sub(clock.idle());
            let deadline = later(Instant::now(), remaining);
            tokio::select! {
                biased;
                end = &mut execution => {
                    return match end {
                        Ok(returned) => ExecutionEnd::Returned(returned),
                        Err(text) => ExecutionEnd::Panicked(text),
                    };
                }
                () = sleep_until(deadline.min(next_heartbeat)) => {}
            }

            let now = Instant::now();
            if clock.idle() >= limits.timeout {
                return ExecutionEnd::TimedOut;
            }

            if now >= next_heartbeat {
                next_heartbeat = later(now, limits.heartbeat);
                let mut progress_event = clock.progress(cx, call);
                progress_event.heartbeat = true;
                cx.shared().push(progress_event.into());
            }
        }
    }
}

/// Redacts and cuts a question, which is stored and emitted like a result.
fn limited_question(mut question: UnansweredQuestion, limits: CallLimits) -> UnansweredQuestion {
    let max_bytes = limits.max_result_bytes;
    for text in std::iter::once(&mut question.text).chain(&mut question.context) {
        redact_text(text);
        cut_bytes(text, 0, max_bytes, max_bytes);
    }
    question
}

/// Redacts and cuts the content of a failure, before it is copied with its prefix.
fn limit_failure(content: &mut Content, max_bytes: usize) {
    content.redact();
    limit_content(content, max_bytes.saturating_sub(FAILED.len()), max_bytes);
}

/// Returns the result of a tool that returned an error.
fn failed(call: &ToolCall, error: BoxError, max_bytes: usize) -> ToolResult {
    let (text, details) = match error.downcast::<ToolError>() {
        Ok(error) => (*error).into_parts(),
        Err(error) => (error.to_string(), None),
    };
    let mut content = Content::from(text);
    limit_failure(&mut content, max_bytes);
    let mut result = ToolResult::failed(call, content.text());
    result.details = details;
    result
}
