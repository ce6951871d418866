//! Running one tool: its panics, its time, its signs of life.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::error::BoxError;
use crate::message::{ToolCall, ToolResult};
use crate::run::RunContext;
use crate::tool::{Tool, ToolContext, ToolError, ToolOutput};
use crate::util::Cancellation;
use crate::util::panic::{self, DropContained};

use super::call_host::{CallClock, CallHost, progress};

/// How long a call may go without progress, and how often it is said to be alive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    pub(super) timeout: Duration,
    pub(super) heartbeat: Duration,
}

enum End {
    Returned(Result<ToolOutput, BoxError>),
    Panicked(String),
    TimedOut,
}

/// One call of one tool, about to be executed.
#[derive(Clone, Copy)]
pub(super) struct Execution<'a> {
    pub(super) cx: &'a RunContext,
    pub(super) tool: &'a Arc<dyn Tool>,
    pub(super) call: &'a ToolCall,
    pub(super) clock: &'a Arc<CallClock>,
    pub(super) pace: Pace,
}

impl Execution<'_> {
    /// Executes the call. Whatever goes wrong is in the result, and no secret of this process is.
    pub(super) async fn run(self) -> ToolResult {
        let mut result = self.outcome().await;
        result.redact();
        result
    }

    async fn outcome(self) -> ToolResult {
        let call = self.call;
        let host = Arc::new(CallHost {
            cx: self.cx.clone(),
            tool: self.tool.clone(),
            clock: self.clock.clone(),
        });
        let cancellation = Cancellation::default();
        let _cancel = cancellation.guard();
        let (context, _live) = ToolContext::new(host, Arc::new(call.clone()), cancellation.clone());
        match self.watch(context).await {
            End::Returned(Ok(output)) => output.into_result(call),
            End::Returned(Err(error)) => failed(call, &error),
            End::Panicked(message) => {
                ToolResult::failed(call, format!("tool {:?} panicked: {message}", call.name))
            }
            End::TimedOut => ToolResult::failed(
                call,
                format!(
                    "tool {:?} timed out: no progress for {:?}; it was cancelled",
                    call.name, self.pace.timeout
                ),
            ),
        }
    }

    /// Runs the tool until it returns or has been still for too long.
    async fn watch(self, context: ToolContext) -> End {
        let Self {
            cx,
            tool,
            call,
            clock,
            pace,
        } = self;
        let args = (*call.args).clone();
        // The call itself is inside the future, so that a panic before its first await is caught.
        let execution = panic::caught(async move { tool.execute(context, args).await });
        let mut execution = DropContained::new(Box::pin(execution), "a tool");
        let mut beat = later(Instant::now(), pace.heartbeat);
        loop {
            let deadline = later(clock.moved(), pace.timeout);
            tokio::select! {
                biased;
                end = &mut execution => {
                    return match end {
                        Ok(returned) => End::Returned(returned),
                        Err(text) => End::Panicked(text),
                    };
                }
                () = sleep_until(deadline.min(beat)) => {}
            }
            let now = Instant::now();
            if now >= later(clock.moved(), pace.timeout) {
                return End::TimedOut;
            }
            if now >= beat {
                beat = later(now, pace.heartbeat);
                let mut alive = progress(cx, call, clock);
                alive.heartbeat = true;
                cx.shared().push(alive.into());
            }
        }
    }
}

/// This much later; in thirty years where that is longer than can be told, which means never.
fn later(at: Instant, wait: Duration) -> Instant {
    const NEVER: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);
    at.checked_add(wait).unwrap_or_else(|| at + NEVER)
}

fn failed(call: &ToolCall, error: &BoxError) -> ToolResult {
    let mut result = ToolResult::failed(call, error.to_string());
    if let Some(error) = error.downcast_ref::<ToolError>() {
        result.details = error.details().cloned();
    }
    result
}
