//! Hooks from closures with shared state.

use std::sync::Arc;

use crate::error::Result;
use crate::message::{Messages, ToolCall, ToolResult};
use crate::model::{ModelRequest, ModelResponse};
use crate::run::RunContext;
use crate::session::AgentState;
use crate::tool::ToolDecision;

use super::fn_hook::{self, FnHook};
use super::next::Next;
use super::stop_decision::StopDecision;

/// Like [`before_agent`](super::before_agent), for a closure that receives a clone of `state` as
/// its first argument.
pub fn before_agent_with<S, F, Fut>(name: impl Into<String>, state: S, f: F) -> FnHook
where
    S: Clone + Send + Sync + 'static,
    F: Fn(S, RunContext, AgentState) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<AgentState>> + Send + 'static,
{
    fn_hook::before_agent(name, move |cx, agent_state| {
        f(state.clone(), cx, agent_state)
    })
}

/// Like [`modify_request`](super::modify_request), for a closure that receives a clone of `state`
/// as its first argument.
pub fn modify_request_with<S, F, Fut>(name: impl Into<String>, state: S, f: F) -> FnHook
where
    S: Clone + Send + Sync + 'static,
    F: Fn(S, RunContext, Messages) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Messages>> + Send + 'static,
{
    fn_hook::modify_request(name, move |cx, messages| f(state.clone(), cx, messages))
}

/// Like [`wrap_model_call`](super::wrap_model_call), for a closure that receives a clone of `state`
/// as its first argument.
pub fn wrap_model_call_with<S, F, Fut>(name: impl Into<String>, state: S, f: F) -> FnHook
where
    S: Clone + Send + Sync + 'static,
    F: Fn(S, ModelRequest, Next<ModelRequest>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<ModelResponse>> + Send + 'static,
{
    fn_hook::wrap_model_call(name, move |request, next| f(state.clone(), request, next))
}

/// Like [`pre_tool_use`](super::pre_tool_use), for a closure that receives a clone of `state` as
/// its first argument.
pub fn pre_tool_use_with<S, F, Fut>(name: impl Into<String>, state: S, f: F) -> FnHook
where
    S: Clone + Send + Sync + 'static,
    F: Fn(S, RunContext, ToolCall) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<ToolDecision>> + Send + 'static,
{
    fn_hook::pre_tool_use(name, move |cx, call| f(state.clone(), cx, call))
}

/// Like [`wrap_tool_call`](super::wrap_tool_call), for a closure that receives a clone of `state`
/// as its first argument.
pub fn wrap_tool_call_with<S, F, Fut>(name: impl Into<String>, state: S, f: F) -> FnHook
where
    S: Clone + Send + Sync + 'static,
    F: Fn(S, ToolCall, Next<ToolCall>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<ToolResult>> + Send + 'static,
{
    fn_hook::wrap_tool_call(name, move |call, next| f(state.clone(), call, next))
}

/// Like [`post_tool_use`](super::post_tool_use), for a closure that receives a clone of `state` as
/// its first argument.
pub fn post_tool_use_with<S, F, Fut>(name: impl Into<String>, state: S, f: F) -> FnHook
where
    S: Clone + Send + Sync + 'static,
    F: Fn(S, RunContext, ToolCall, ToolResult) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<ToolResult>> + Send + 'static,
{
    fn_hook::post_tool_use(name, move |cx, call, result| {
        f(state.clone(), cx, call, result)
    })
}

/// Like [`before_stop`](super::before_stop), for a closure that receives a clone of `state` as its
/// first argument.
pub fn before_stop_with<S, F, Fut>(name: impl Into<String>, state: S, f: F) -> FnHook
where
    S: Clone + Send + Sync + 'static,
    F: Fn(S, RunContext, Arc<ModelResponse>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<StopDecision>> + Send + 'static,
{
    fn_hook::before_stop(name, move |cx, response| f(state.clone(), cx, response))
}

/// Like [`after_agent`](super::after_agent), for a closure that receives a clone of `state` as its
/// first argument.
pub fn after_agent_with<S, F, Fut>(name: impl Into<String>, state: S, f: F) -> FnHook
where
    S: Clone + Send + Sync + 'static,
    F: Fn(S, RunContext, AgentState) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<AgentState>> + Send + 'static,
{
    fn_hook::after_agent(name, move |cx, agent_state| {
        f(state.clone(), cx, agent_state)
    })
}
