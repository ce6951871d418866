//! Pointers to hooks are hooks.

use std::sync::Arc;

use async_trait::async_trait;

use crate::error::Result;
use crate::message::{Messages, ToolCall, ToolResult};
use crate::model::{Compactor, ModelRequest, ModelResponse};
use crate::run::RunContext;
use crate::session::AgentState;
use crate::tool::ToolDecision;

use super::hook::Hook;
use super::next::Next;
use super::phases::Phases;
use super::stop_decision::StopDecision;

macro_rules! forward {
    ($pointer:ident) => {
        #[async_trait]
        impl<H: Hook + ?Sized> Hook for $pointer<H> {
            fn name(&self) -> &str {
                (**self).name()
            }

            fn description(&self) -> &str {
                (**self).description()
            }

            fn phases(&self) -> Phases {
                (**self).phases()
            }

            fn tools(&self) -> Vec<String> {
                (**self).tools()
            }

            fn compactor(&self) -> Option<Arc<dyn Compactor>> {
                (**self).compactor()
            }

            fn memory_paths(&self) -> Vec<String> {
                (**self).memory_paths()
            }

            fn check_tools(&self, names: &[&str], has_sources: bool) -> Result<()> {
                (**self).check_tools(names, has_sources)
            }

            async fn before_agent(&self, cx: &RunContext, state: AgentState) -> Result<AgentState> {
                (**self).before_agent(cx, state).await
            }

            async fn modify_request(&self, cx: &RunContext, m: Messages) -> Result<Messages> {
                (**self).modify_request(cx, m).await
            }

            async fn wrap_model_call(
                &self,
                request: ModelRequest,
                next: Next<ModelRequest>,
            ) -> Result<ModelResponse> {
                (**self).wrap_model_call(request, next).await
            }

            async fn pre_tool_use(&self, cx: &RunContext, call: &ToolCall) -> Result<ToolDecision> {
                (**self).pre_tool_use(cx, call).await
            }

            async fn wrap_tool_call(
                &self,
                call: ToolCall,
                next: Next<ToolCall>,
            ) -> Result<ToolResult> {
                (**self).wrap_tool_call(call, next).await
            }

            async fn post_tool_use(
                &self,
                cx: &RunContext,
                call: &ToolCall,
                result: ToolResult,
            ) -> Result<ToolResult> {
                (**self).post_tool_use(cx, call, result).await
            }

            async fn before_stop(
                &self,
                cx: &RunContext,
                response: &Arc<ModelResponse>,
            ) -> Result<StopDecision> {
                (**self).before_stop(cx, response).await
            }

            async fn after_agent(&self, cx: &RunContext, state: AgentState) -> Result<AgentState> {
                (**self).after_agent(cx, state).await
            }
        }
    };
}

forward!(Arc);
forward!(Box);
