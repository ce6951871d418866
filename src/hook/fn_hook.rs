//! Hooks from closures.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::error::Result;
use crate::message::{Messages, ToolCall, ToolResult};
use crate::model::{ModelRequest, ModelResponse};
use crate::run::RunContext;
use crate::session::AgentState;
use crate::tool::ToolDecision;

use super::hook::Hook;
use super::next::Next;
use super::phases::Phases;
use super::stop_decision::StopDecision;

type PhaseFn<A, R> = Box<dyn Fn(RunContext, A) -> BoxFuture<'static, Result<R>> + Send + Sync>;
type ResultFn<A, B, R> =
    Box<dyn Fn(RunContext, A, B) -> BoxFuture<'static, Result<R>> + Send + Sync>;
type WrapFn<A, R> = Box<dyn Fn(A, Next<A>) -> BoxFuture<'static, Result<R>> + Send + Sync>;

enum Phase {
    BeforeAgent(PhaseFn<AgentState, AgentState>),
    ModifyRequest(PhaseFn<Messages, Messages>),
    WrapModelCall(WrapFn<ModelRequest, ModelResponse>),
    PreToolUse(PhaseFn<ToolCall, ToolDecision>),
    WrapToolCall(WrapFn<ToolCall, ToolResult>),
    PostToolUse(ResultFn<ToolCall, ToolResult, ToolResult>),
    BeforeStop(PhaseFn<Arc<ModelResponse>, StopDecision>),
    AfterAgent(PhaseFn<AgentState, AgentState>),
}

/// A hook made from a closure, for one phase. Hooks of all phases have this type, so that they fit
/// in one array.
pub struct FnHook {
    name: String,
    phase: Phase,
}

impl FnHook {
    fn new(name: impl Into<String>, phase: Phase) -> Self {
        Self {
            name: name.into(),
            phase,
        }
    }
}

impl fmt::Debug for FnHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FnHook")
            .field("name", &self.name)
            .field("phases", &self.phases())
            .finish_non_exhaustive()
    }
}

/// Creates a hook that runs once, before the loop, as [`Hook::before_agent`]. The closure has the
/// form `|cx, state| async move { Ok(state) }`.
///
/// ```
/// use agentcore::hook;
///
/// let examples = hook::before_agent("examples", |_cx, mut state| async move {
///     if state.messages.is_empty() {
///         state.messages = state.messages.human("2 + 2").ai("4");
///     }
///     Ok(state)
/// });
/// # let _ = examples;
/// ```
pub fn before_agent<F, Fut>(name: impl Into<String>, f: F) -> FnHook
where
    F: Fn(RunContext, AgentState) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<AgentState>> + Send + 'static,
{
    let f = move |cx, state| f(cx, state).boxed();
    FnHook::new(name, Phase::BeforeAgent(Box::new(f)))
}

/// Another name for [`before_agent`], which some other frameworks use.
pub fn pre_generation<F, Fut>(name: impl Into<String>, f: F) -> FnHook
where
    F: Fn(RunContext, AgentState) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<AgentState>> + Send + 'static,
{
    before_agent(name, f)
}

/// Creates a hook that runs before each model call, on a copy of the history, as
/// [`Hook::modify_request`]. The closure has the form
/// `|cx, messages| async move { Ok(messages) }`.
///
/// ```
/// use agentcore::hook;
///
/// let reminder = hook::modify_request("reminder", |_cx, messages| async move {
///     Ok(messages.human("Answer in one sentence."))
/// });
/// # let _ = reminder;
/// ```
pub fn modify_request<F, Fut>(name: impl Into<String>, f: F) -> FnHook
where
    F: Fn(RunContext, Messages) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Messages>> + Send + 'static,
{
    let f = move |cx, messages| f(cx, messages).boxed();
    FnHook::new(name, Phase::ModifyRequest(Box::new(f)))
}

/// Creates a hook around each model call, as [`Hook::wrap_model_call`]. The closure has the form
/// `|request, next| async move { next.run(request).await }`. [`Next`] has an example that calls the
/// model again.
///
/// ```
/// use agentcore::hook;
///
/// let brief = hook::wrap_model_call("brief", |request, next| async move {
///     next.run(request.with_max_output_tokens(500)).await
/// });
/// # let _ = brief;
/// ```
pub fn wrap_model_call<F, Fut>(name: impl Into<String>, f: F) -> FnHook
where
    F: Fn(ModelRequest, Next<ModelRequest>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<ModelResponse>> + Send + 'static,
{
    let f = move |request, next| f(request, next).boxed();
    FnHook::new(name, Phase::WrapModelCall(Box::new(f)))
}

/// Creates a hook that runs before each tool call, as [`Hook::pre_tool_use`]. The closure has the
/// form `|cx, call| async move { Ok(ToolDecision::proceed()) }`.
///
/// ```
/// use agentcore::testing::ScriptedModel;
/// use agentcore::{AgentBuilder, FuncTool, ToolDecision, hook};
/// use serde_json::json;
///
/// # async fn example() -> Result<(), agentcore::Error> {
/// let no_refunds = hook::pre_tool_use("no_refunds", |_cx, call| async move {
///     if &*call.name == "refund" {
///         return Ok(ToolDecision::deny("refunds are made by people"));
///     }
///     Ok(ToolDecision::proceed())
/// });
/// let refund = FuncTool::new("refund", "Pays back", json!({"type": "object"}), |_, _| async {
///     "paid"
/// });
/// let model = ScriptedModel::new()
///     .call("refund", json!({}))
///     .expect(|request| {
///         let read = request.messages.last_content();
///         assert_eq!(read, "Error: refunds are made by people");
///     })
///     .say("I cannot do that.");
/// let agent = AgentBuilder::new(model).tool(refund).hook(no_refunds).build()?;
/// assert_eq!(agent.run("My money back!").await?.text, "I cannot do that.");
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
pub fn pre_tool_use<F, Fut>(name: impl Into<String>, f: F) -> FnHook
where
    F: Fn(RunContext, ToolCall) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<ToolDecision>> + Send + 'static,
{
    let f = move |cx, call| f(cx, call).boxed();
    FnHook::new(name, Phase::PreToolUse(Box::new(f)))
}

/// Creates a hook around each tool call, as [`Hook::wrap_tool_call`]. The closure has the form
/// `|call, next| async move { next.run(call).await }`.
///
/// ```
/// use agentcore::hook;
///
/// let log = hook::wrap_tool_call("log", |call, next| async move {
///     let name = call.name.clone();
///     let result = next.run(call).await?;
///     if result.is_error {
///         eprintln!("{name} failed: {}", result.content.text());
///     }
///     Ok(result)
/// });
/// # let _ = log;
/// ```
pub fn wrap_tool_call<F, Fut>(name: impl Into<String>, f: F) -> FnHook
where
    F: Fn(ToolCall, Next<ToolCall>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<ToolResult>> + Send + 'static,
{
    let f = move |call, next| f(call, next).boxed();
    FnHook::new(name, Phase::WrapToolCall(Box::new(f)))
}

/// Creates a hook that runs after each tool call, as [`Hook::post_tool_use`]. The closure has the
/// form `|cx, call, result| async move { Ok(result) }`.
///
/// ```
/// use agentcore::{ToolResult, hook};
///
/// let shorten = hook::post_tool_use("shorten", |_cx, _call, mut result: ToolResult| async move {
///     result.content.truncate(10_000);
///     Ok(result)
/// });
/// # let _ = shorten;
/// ```
pub fn post_tool_use<F, Fut>(name: impl Into<String>, f: F) -> FnHook
where
    F: Fn(RunContext, ToolCall, ToolResult) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<ToolResult>> + Send + 'static,
{
    let f = move |cx, call, result| f(cx, call, result).boxed();
    FnHook::new(name, Phase::PostToolUse(Box::new(f)))
}

/// Creates a hook that runs when a response has no tool calls, as [`Hook::before_stop`]. The
/// closure has the form `|cx, response| async move { Ok(StopDecision::Stop) }`.
///
/// ```
/// use agentcore::{StopDecision, hook};
///
/// let sources = hook::before_stop("sources", |cx, response| async move {
///     if cx.turn() >= 5 || response.text().contains("https://") {
///         return Ok(StopDecision::Stop);
///     }
///     Ok(StopDecision::continue_with("Name your sources."))
/// });
/// # let _ = sources;
/// ```
pub fn before_stop<F, Fut>(name: impl Into<String>, f: F) -> FnHook
where
    F: Fn(RunContext, Arc<ModelResponse>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<StopDecision>> + Send + 'static,
{
    let f = move |cx, response| f(cx, response).boxed();
    FnHook::new(name, Phase::BeforeStop(Box::new(f)))
}

/// Creates a hook that runs once, after the loop, as [`Hook::after_agent`]. The closure has the
/// form `|cx, state| async move { Ok(state) }`.
///
/// ```
/// use agentcore::hook;
///
/// let usage = hook::after_agent("usage", |cx, state| async move {
///     println!("{} tokens of output", cx.usage().output_tokens);
///     Ok(state)
/// });
/// # let _ = usage;
/// ```
pub fn after_agent<F, Fut>(name: impl Into<String>, f: F) -> FnHook
where
    F: Fn(RunContext, AgentState) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<AgentState>> + Send + 'static,
{
    let f = move |cx, state| f(cx, state).boxed();
    FnHook::new(name, Phase::AfterAgent(Box::new(f)))
}

/// Another name for [`after_agent`], which some other frameworks use.
pub fn post_generation<F, Fut>(name: impl Into<String>, f: F) -> FnHook
where
    F: Fn(RunContext, AgentState) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<AgentState>> + Send + 'static,
{
    after_agent(name, f)
}

#[async_trait]
impl Hook for FnHook {
    fn name(&self) -> &str {
        &self.name
    }

    fn phases(&self) -> Phases {
        match self.phase {
            Phase::BeforeAgent(_) => Phases::BEFORE_AGENT,
            Phase::ModifyRequest(_) => Phases::MODIFY_REQUEST,
            Phase::WrapModelCall(_) => Phases::WRAP_MODEL_CALL,
            Phase::PreToolUse(_) => Phases::PRE_TOOL_USE,
            Phase::WrapToolCall(_) => Phases::WRAP_TOOL_CALL,
            Phase::PostToolUse(_) => Phases::POST_TOOL_USE,
            Phase::BeforeStop(_) => Phases::BEFORE_STOP,
            Phase::AfterAgent(_) => Phases::AFTER_AGENT,
        }
    }

    async fn before_agent(&self, cx: &RunContext, state: AgentState) -> Result<AgentState> {
        match &self.phase {
            Phase::BeforeAgent(f) => f(cx.clone(), state).await,
            _ => Ok(state),
        }
    }

    async fn modify_request(&self, cx: &RunContext, messages: Messages) -> Result<Messages> {
        match &self.phase {
            Phase::ModifyRequest(f) => f(cx.clone(), messages).await,
            _ => Ok(messages),
        }
    }

    async fn wrap_model_call(
        &self,
        request: ModelRequest,
        next: Next<ModelRequest>,
    ) -> Result<ModelResponse> {
        match &self.phase {
            Phase::WrapModelCall(f) => f(request, next).await,
            _ => next.run(request).await,
        }
    }

    async fn pre_tool_use(&self, cx: &RunContext, call: &ToolCall) -> Result<ToolDecision> {
        match &self.phase {
            Phase::PreToolUse(f) => f(cx.clone(), call.clone()).await,
            _ => Ok(ToolDecision::proceed()),
        }
    }

    async fn wrap_tool_call(&self, call: ToolCall, next: Next<ToolCall>) -> Result<ToolResult> {
        match &self.phase {
            Phase::WrapToolCall(f) => f(call, next).await,
            _ => next.run(call).await,
        }
    }

    async fn post_tool_use(
        &self,
        cx: &RunContext,
        call: &ToolCall,
        result: ToolResult,
    ) -> Result<ToolResult> {
        match &self.phase {
            Phase::PostToolUse(f) => f(cx.clone(), call.clone(), result).await,
            _ => Ok(result),
        }
    }

    async fn before_stop(
        &self,
        cx: &RunContext,
        response: &Arc<ModelResponse>,
    ) -> Result<StopDecision> {
        match &self.phase {
            Phase::BeforeStop(f) => f(cx.clone(), response.clone()).await,
            _ => Ok(StopDecision::Stop),
        }
    }

    async fn after_agent(&self, cx: &RunContext, state: AgentState) -> Result<AgentState> {
        match &self.phase {
            Phase::AfterAgent(f) => f(cx.clone(), state).await,
            _ => Ok(state),
        }
    }
}
