//! The trait a hook implements.

use std::sync::Arc;

use async_trait::async_trait;

use crate::error::Result;
use crate::message::{Messages, ToolCall, ToolResult};
use crate::model::{Compactor, ModelRequest, ModelResponse};
use crate::run::RunContext;
use crate::session::AgentState;
use crate::tool::ToolDecision;

use super::next::Next;
use super::phases::Phases;
use super::stop_decision::StopDecision;

/// Code that runs at the phases of a run. Most hooks are closures: the [module](crate::hook) has a
/// function for each phase, and describes the phases, their order, errors and cancellation.
///
/// Most phases take a value and return it, so the changes of a phase that fails are discarded.
/// Cloning these values is cheap: states and histories share their contents. One hook serves many
/// runs at the same time; keep the data of a run in [`RunContext::values`], not in `self`.
///
/// ```
/// use agentcore::hook::Phases;
/// use agentcore::{Hook, Result, RunContext, ToolCall, ToolResult, async_trait};
///
/// struct Log;
///
/// #[async_trait]
/// impl Hook for Log {
///     fn name(&self) -> &str {
///         "log"
///     }
///
///     fn phases(&self) -> Phases {
///         Phases::POST_TOOL_USE
///     }
///
///     async fn post_tool_use(
///         &self,
///         cx: &RunContext,
///         call: &ToolCall,
///         result: ToolResult,
///     ) -> Result<ToolResult> {
///         println!("turn {}: {} said {}", cx.turn(), call.name, result.content.text());
///         Ok(result)
///     }
/// }
/// ```
#[async_trait]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a `Hook`",
    note = "make one from a closure: `hook::wrap_tool_call(\"name\", |call, next| async move {{ next.run(call).await }})`",
    note = "a hand-written `impl Hook for ..` needs `#[agentcore::async_trait]` above it"
)]
pub trait Hook: Send + Sync + 'static {
    /// Returns the hook's name, for errors and introspection.
    fn name(&self) -> &str;

    /// Returns the description for introspection. Defaults to an empty text.
    fn description(&self) -> &str {
        ""
    }

    /// Returns the phases that the hook takes part in. Its methods for other phases are never
    /// called. Defaults to all phases.
    fn phases(&self) -> Phases {
        Phases::ALL
    }

    /// Returns the names of the tools that the hook registers: for introspection, for permission
    /// rules ([`check_tools`](Self::check_tools)), and for the
    /// [`Prompter`](crate::model::Prompter), which runs before they are registered. Defaults to
    /// none.
    fn tools(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the compactor that shortens a long history, if the hook provides one. Called while
    /// an agent with the hook is built, not by its runs. If several hooks have one, the compactor
    /// of the last hook is used; [`AgentBuilder::compactor`](crate::AgentBuilder::compactor) takes
    /// precedence over all of them. Defaults to `None`.
    fn compactor(&self) -> Option<Arc<dyn Compactor>> {
        None
    }

    /// Returns the absolute paths of files that the program designated as the agent's memory.
    /// Writing them needs no question, even if permission rules protect files of their names. In a
    /// child run, the rules of the parent runs protect them, unless they are memory there as well.
    /// Called while an agent with the hook is built, not by its runs. Defaults to none.
    fn memory_paths(&self) -> Vec<String> {
        Vec::new()
    }

    /// Compares the hook with the tools of the agent, when the agent is built. The parameters are
    /// those of [`PermissionGate::check_tools`](crate::tool::PermissionGate::check_tools). A hook
    /// with a gate calls that method of its gate.
    ///
    /// # Errors
    ///
    /// Returns [`Config`](crate::ErrorKind::Config) if the hook refuses a tool that the agent does
    /// not have. The provided method returns `Ok`.
    fn check_tools(&self, _names: &[&str], _has_sources: bool) -> Result<()> {
        Ok(())
    }

    /// Runs once, before the loop. A hook can load data here, or register tools with
    /// [`AgentState::register_tool`].
    async fn before_agent(&self, _cx: &RunContext, state: AgentState) -> Result<AgentState> {
        Ok(state)
    }

    /// Runs before each model call; retries of a failed call send the same request again. Receives
    /// a copy of the history as it is sent: a summary replaces the messages that it covers, and
    /// leading system messages are part of the system prompt. The stored history never changes
    /// here.
    ///
    /// The returned messages must pass [`Messages::validate_for_model`]; otherwise the run fails
    /// with [`Hook`](crate::ErrorKind::Hook).
    async fn modify_request(&self, _cx: &RunContext, messages: Messages) -> Result<Messages> {
        Ok(messages)
    }

    /// Runs around the model call of each turn, including its retries. [`Next::run`] may be called
    /// any number of times. Not called for the calls that hooks and compactors make themselves
    /// ([`RunContext::call_model`]).
    ///
    /// Messages that a hook changes must pass [`Messages::validate_for_model`]; otherwise
    /// [`Next::run`] returns an error of the kind [`Hook`](crate::ErrorKind::Hook) that names the
    /// hook, and the model is not called.
    async fn wrap_model_call(
        &self,
        request: ModelRequest,
        next: Next<ModelRequest>,
    ) -> Result<ModelResponse> {
        next.run(request).await
    }

    /// Runs before each tool call, and again if a person [edits](crate::Answer::Edit) its
    /// arguments. Returns a decision about the call, and the arguments that replace its arguments,
    /// if there are any.
    ///
    /// Not called if no enabled tool has the call's name, if the arguments are not an object or are
    /// nested too deep, or if the run ends first.
    async fn pre_tool_use(&self, _cx: &RunContext, _call: &ToolCall) -> Result<ToolDecision> {
        Ok(ToolDecision::proceed())
    }

    /// Runs around each tool call that was permitted. [`Next::run`] may be called a second time
    /// only for an idempotent tool.
    ///
    /// Arguments that a hook changes are checked again, by the schema, the mode and the gate. A
    /// call whose tool name a hook changes does not run; its result is an error. The returned
    /// result receives the id and the name of the call.
    async fn wrap_tool_call(&self, call: ToolCall, next: Next<ToolCall>) -> Result<ToolResult> {
        next.run(call).await
    }

    /// Runs after each tool call that was permitted and has begun, even if it failed. Returns the
    /// result of the call, unchanged, changed or [suppressed](ToolResult::suppressed).
    ///
    /// Not called for a call that was refused before it began, that was cancelled, that waits for
    /// an answer, or that a person [replied](crate::Answer::Reply) to instead of permitting it. Nor
    /// is it called after the `post_tool_use` of an earlier hook has failed: that error is the
    /// result. A hook that must see every call is added first.
    async fn post_tool_use(
        &self,
        _cx: &RunContext,
        _call: &ToolCall,
        result: ToolResult,
    ) -> Result<ToolResult> {
        Ok(result)
    }

    /// Runs when a response has no tool calls and the run would end. Returns [`StopDecision::Stop`]
    /// to end it, or a message to continue with. The first hook that continues the run decides: the
    /// hooks after it are not called. Hooks continue a run without a limit on turns at most 100
    /// times.
    ///
    /// Not called while a message for the model waits, nor for a response that was refused,
    /// truncated or empty, or that does not match the requested schema.
    async fn before_stop(
        &self,
        _cx: &RunContext,
        _response: &Arc<ModelResponse>,
    ) -> Result<StopDecision> {
        Ok(StopDecision::Stop)
    }

    /// Runs once, after the loop, however the loop ended: with a response, an error, an interrupt
    /// or a limit. Not called if the run failed or was stopped before its loop began, or if it is
    /// dropped.
    async fn after_agent(&self, _cx: &RunContext, state: AgentState) -> Result<AgentState> {
        Ok(state)
    }
}
