//! One tool call, from the model's wish to its result.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::FutureExt;
use serde_json::{Map, Value, json};

use crate::hook::{Core, Onion, guard};
use crate::message::{ToolCall, ToolResult};
use crate::run::{CallClock, RunContext, Stop};
use crate::session::{PendingCall, Record};
use crate::tool::{Tool, Verdict, parse_arguments};

use super::config::Config;
use super::result_limits::{limit_content, limit_result};
use super::session_writer::SessionWriter;
use super::tool_execution::{CallLimits, Execution};
use super::tool_permission::{Permit, ask_hooks, permit};

/// The outcome of a call.
pub(super) enum Outcome {
    Done(ToolResult),
    Parked(PendingCall),
    Interrupt(ToolResult),
}

/// Runs the calls of one turn.
pub(super) struct CallRunner<'a> {
    pub(super) config: &'a Arc<Config>,
    pub(super) cx: &'a RunContext,
    pub(super) writer: &'a SessionWriter,
    /// Set when one of the calls ends the run: those that have not begun do not begin.
    pub(super) halt: AtomicBool,
}

impl CallRunner<'_> {
    /// Decides about a call and runs it. `started` is set just before the tool may run; `None`
    /// when the run is to end before that.
    pub(super) async fn run(&self, call: ToolCall, started: &AtomicBool) -> Option<Outcome> {
        if self.halt.load(Ordering::Acquire) {
            return None;
        }
        let tool = match self.cx.tools().resolve(&call.name) {
            Ok(tool) => tool,
            Err(text) => return Some(Outcome::Done(ToolResult::failed(&call, text))),
        };
        if !call.args.is_object()
            && let Err(text) = parse_arguments(&call, tool.parameters())
        {
            // Not even hooks get to see arguments that could not be parsed.
            return Some(Outcome::Done(ToolResult::failed(&call, text)));
        }
        let config = self.config;
        self.cx.apply_requested_mode();
        let decisions = match ask_hooks(config, self.cx, call.clone()).await {
            Ok(decisions) => decisions,
            Err(error) => return Some(Outcome::Done(ToolResult::failed(&call, error.to_string()))),
        };
        if matches!(decisions.verdict, Verdict::Stop(_)) {
            self.halt.store(true, Ordering::Release);
        }
        let max_bytes = config.limits.max_result_bytes;
        let mut context = decisions.context;
        let permit = permit(
            config,
            self.cx,
            &tool,
            decisions.call,
            decisions.verdict,
            &mut context,
        );
        let mut result = match permit.await {
            Permit::Run(_) if self.halt.load(Ordering::Acquire) => return None,
            Permit::Run(call) => self.run_permitted(&tool, call, started).await,
            Permit::Refuse(result) => result,
            Permit::Park(mut pending) => {
                pending.context = context;
                return Some(Outcome::Parked(pending));
            }
            Permit::Interrupt(mut result) => {
                self.halt.store(true, Ordering::Release);
                add_context(&mut result, &context, max_bytes);
                return Some(Outcome::Interrupt(result));
            }
        };
        add_context(&mut result, &context, max_bytes);
        Some(Outcome::Done(result))
    }

    /// Runs a permitted call, also one that was approved later.
    pub(super) async fn run_permitted(
        &self,
        tool: &Arc<dyn Tool>,
        call: ToolCall,
        started: &AtomicBool,
    ) -> ToolResult {
        if !tool.side_effect().is_read_only() {
            let record = Record::ToolStarted {
                call_id: call.id.clone(),
            };
            if let Err(error) = self.writer.append(vec![record]).await {
                let text =
                    format!("the call was not run, for its start could not be stored: {error}");
                return ToolResult::failed(&call, text);
            }
        }
        started.store(true, Ordering::Release);
        let clock = CallClock::start(self.cx);
        let start_progress = clock.progress(self.cx, &call).with_data(beginning(&call));
        self.cx.shared().push(start_progress.into());
        let result = self.wrap(tool, call.clone(), &clock).await;
        let result = self.post(&call, result).await;
        self.cx.settle(&result);
        let end_progress = clock.progress(self.cx, &call).with_data(json!({
            "state": "done",
            "is_error": result.is_error,
            "output": result.content.text(),
        }));
        self.cx.shared().push(end_progress.into());
        result
    }

    async fn wrap(
        &self,
        tool: &Arc<dyn Tool>,
        call: ToolCall,
        clock: &Arc<CallClock>,
    ) -> ToolResult {
        let config = self.config;
        let limits = CallLimits {
            timeout: tool.timeout().unwrap_or(config.limits.tool_timeout),
            heartbeat: config.limits.heartbeat,
        };
        if config.hooks.wrap_tool_call.is_empty() {
            let execution = Execution {
                cx: self.cx,
                tool,
                call: &call,
                clock,
                limits,
                max_result_bytes: config.limits.max_result_bytes,
            };
            return execution.run().await;
        }
        let onion = Onion {
            hooks: config.hooks.wrap_tool_call.clone(),
            context: self.cx.clone(),
            core: centre(self.config, tool, &call, clock, limits),
            repeatable: tool.is_idempotent(),
        };
        let (id, name) = (call.id.clone(), call.name.clone());
        let call_copy = call.clone();
        match onion.run(call).await {
            Ok(mut result) => {
                // Whatever hooks did: the result answers this call and no other.
                result.tool_call_id = id;
                result.name = name;
                limit_result(&mut result, &call_copy, config.limits.max_result_bytes);
                result
            }
            Err(error) => ToolResult::failed(&call_copy, error.to_string()),
        }
    }

    async fn post(&self, call: &ToolCall, mut result: ToolResult) -> ToolResult {
        let config = self.config;
        for hook in &config.hooks.post_tool_use {
            let future = hook.post_tool_use(self.cx, call, result.clone());
            match guard(self.cx, hook.name(), "post_tool_use", None, future).await {
                Ok(changed) => {
                    result = changed;
                    limit_result(&mut result, call, config.limits.max_result_bytes);
                }
                Err(error) => return ToolResult::failed(call, error.to_string()),
            }
        }
        result.tool_call_id = call.id.clone();
        result.name = call.name.clone();
        result
    }
}

/// Adds the texts of hooks to a result, within the limit for results.
pub(super) fn add_context(result: &mut ToolResult, context: &[String], max_bytes: usize) {
    for text in context {
        // Some providers are sent the texts of a result as one.
        let gap = match result.content.text_len() {
            0 => "",
            _ => "\n\n",
        };
        result.content.push_text(&format!("{gap}{text}"));
    }
    limit_content(&mut result.content, max_bytes, max_bytes);
}

/// The progress data of a call that begins. Put together by hand: `json!` would serialise the
/// arguments.
fn beginning(call: &ToolCall) -> Value {
    let mut data = Map::new();
    data.insert("args".to_owned(), (*call.args).clone());
    data.insert("state".to_owned(), "started".into());
    Value::Object(data)
}

/// The centre of a tool onion. A call that a hook has changed since it was permitted is decided
/// about again: only checked calls run.
fn centre(
    config: &Arc<Config>,
    tool: &Arc<dyn Tool>,
    permitted_call: &ToolCall,
    clock: &Arc<CallClock>,
    limits: CallLimits,
) -> Core<ToolCall> {
    let (config, tool) = (config.clone(), tool.clone());
    let (permitted_call, clock) = (permitted_call.clone(), clock.clone());
    Arc::new(move |cx, mut call| {
        let (config, tool) = (config.clone(), tool.clone());
        let (permitted_call, clock) = (permitted_call.clone(), clock.clone());
        async move {
            if call.name != permitted_call.name {
                let text = format!(
                    "a hook turned the call of tool {:?} into one of {:?}; only arguments may change",
                    permitted_call.name, call.name
                );
                return Ok(ToolResult::failed(&permitted_call, text));
            }
            call.id = permitted_call.id.clone();
            if call.args != permitted_call.args {
                let mut context = Vec::new();
                let permit = permit(&config, &cx, &tool, call, Verdict::Continue, &mut context);
                call = match permit.await {
                    Permit::Run(call) => call,
                    Permit::Refuse(result) => return Ok(result),
                    Permit::Interrupt(result) => {
                        cx.shared().request_stop(Stop::Interrupt);
                        return Ok(result);
                    }
                    Permit::Park(_) => {
                        let text = "the call was changed after it was permitted, and nobody \
                                    answered about the change";
                        return Ok(ToolResult::failed(&permitted_call, text));
                    }
                };
            }
            let execution = Execution {
                cx: &cx,
                tool: &tool,
                call: &call,
                clock: &clock,
                limits,
                max_result_bytes: config.limits.max_result_bytes,
            };
            Ok(execution.run().await)
        }
        .boxed()
    })
}
