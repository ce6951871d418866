//! The tool `handoff`, and the hook that ends a run after it.

use std::fmt::Write as _;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use crate::error::{BoxError, Result};
use crate::hook::{Hook, Phases};
use crate::message::{ToolCall, ToolResult};
use crate::run::RunContext;
use crate::session::AgentState;
use crate::tool::{FuncTool, SideEffect, ToolContext, ToolOutput};
use crate::util::text::quoted;

const TOOL: &str = "handoff";

/// The names and descriptions of a group's agents.
pub(super) type Members = Vec<(Arc<str>, String)>;

/// The number of handoffs since the input, as a value of a run.
pub(super) struct HandoffCount(pub(super) u32);

/// The name of the agent that a run has handed the conversation over to, as a value of the run.
struct NextAgent(Arc<str>);

/// Returns the name of the agent that the run of `state` has handed the conversation over to.
pub(super) fn next_agent_of(state: &AgentState) -> Option<Arc<str>> {
    let agent = state.values.get::<NextAgent>()?;
    Some(agent.0.clone())
}

/// Returns the name of the agent that a result of `handoff` gives the conversation to; `None` for
/// other results.
pub(super) fn target_of(result: &ToolResult) -> Option<&str> {
    if &*result.name != TOOL || result.is_error {
        return None;
    }
    result.details.as_ref()?["handoff"]["to"].as_str()
}

/// Registers the tool `handoff` of one agent of a group, and ends the run after a successful call.
pub(super) struct HandoffHook(Arc<FuncTool>);

impl HandoffHook {
    pub(super) fn new(own_name: Arc<str>, members: &Members, max_handoffs: u32) -> Self {
        let mut description = "Hands the conversation over to another agent, which continues it \
            and sees all of it. Agents:"
            .to_owned();
        for (name, text) in members.iter().filter(|(name, _)| *name != own_name) {
            let _ = write!(description, "\n- {name}: {text}");
        }

        let parameters = json!({
            "type": "object",
            "properties": {
                "agent": {"type": "string", "description": "The name of the agent"},
                "reason": {"type": "string", "description": "The reason, for the other agent"}
            },
            "required": ["agent"]
        });
        let handoff = Arc::new(Handoff {
            own_name,
            names: members.iter().map(|(name, _)| name.clone()).collect(),
            max_handoffs,
        });
        let run = move |cx: ToolContext, args: Value| {
            let handoff = handoff.clone();
            async move { handoff.run(&cx, &args) }
        };
        let tool = FuncTool::new(TOOL, description, parameters, run)
            .side_effect(SideEffect::ReadOnly)
            .exclusive()
            .starting_agent_of("agent");
        Self(Arc::new(tool))
    }
}

/// The data of the tool `handoff`.
struct Handoff {
    own_name: Arc<str>,
    names: Vec<Arc<str>>,
    max_handoffs: u32,
}

impl Handoff {
    fn run(&self, cx: &ToolContext, args: &Value) -> Result<ToolOutput, BoxError> {
        if cx.depth() > 0 {
            return Err("a subagent cannot hand over the conversation".into());
        }

        let name = args["agent"].as_str().unwrap_or_default();
        let Some(target) = self.names.iter().find(|one| ***one == *name) else {
            let names = self.names.join(", ");
            return Err(format!(
                "unknown agent {}. Available agents: [{names}]",
                quoted(name)
            )
            .into());
        };

        // The first of several calls counts.
        let next_agent = cx.value::<NextAgent>().map(|agent| agent.0.clone());
        let agent = next_agent.as_ref().unwrap_or(&self.own_name);
        if next_agent.is_some() || target == agent {
            return Err(format!("{agent:?} already has the conversation").into());
        }

        let limit = self.max_handoffs;
        if cx
            .value::<HandoffCount>()
            .is_some_and(|count| count.0 >= limit)
        {
            let text = format!("the limit of {limit} handoffs for one input is reached");
            return Err(text.into());
        }

        let details = json!({"handoff": {"from": &*self.own_name, "to": &**target}});
        Ok(ToolOutput::new(format!("Handed over to {target:?}.")).with_details(details))
    }
}

#[async_trait]
impl Hook for HandoffHook {
    fn name(&self) -> &str {
        TOOL
    }

    fn description(&self) -> &str {
        "Lets the model hand the conversation over to another agent"
    }

    fn phases(&self) -> Phases {
        Phases::BEFORE_AGENT | Phases::POST_TOOL_USE
    }

    fn tools(&self) -> Vec<String> {
        vec![TOOL.to_owned()]
    }

    async fn before_agent(&self, _cx: &RunContext, mut state: AgentState) -> Result<AgentState> {
        state.register_tool(self.0.clone());
        Ok(state)
    }

    async fn post_tool_use(
        &self,
        cx: &RunContext,
        _call: &ToolCall,
        result: ToolResult,
    ) -> Result<ToolResult> {
        // Only now, because an earlier hook may have made an error of the result.
        if let Some(target) = target_of(&result) {
            cx.set_value(NextAgent(target.into()));
            cx.stop(format!("the conversation was handed over to {target:?}"));
        }
        Ok(result)
    }
}
