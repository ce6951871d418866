//! The tools that a prompter receives.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use agentcore::hook;
use agentcore::model::{PromptContext, Prompter, Stability, SystemPrompt};
use agentcore::testing::ScriptedModel;
use agentcore::tool::{ToolRegistry, ToolSource};
use agentcore::{AgentState, FuncTool, Hook, Result, Tool, async_trait};

use crate::kit::{agent, any_object};

fn tool(name: &str) -> FuncTool {
    FuncTool::new(name, "", any_object(), |_, _| async { "ok" })
}

/// A prompter that lists the tools and counts its calls.
#[derive(Clone, Default)]
struct Listing(Arc<AtomicUsize>);

#[async_trait]
impl Prompter for Listing {
    async fn assemble(&self, cx: PromptContext<'_>) -> Result<SystemPrompt> {
        self.0.fetch_add(1, Ordering::Relaxed);
        let mut prompt = SystemPrompt::new();
        prompt.set("tools", cx.tools.join(","), Stability::Stable);
        prompt.set("count", cx.tools.len().to_string(), Stability::Stable);
        Ok(prompt)
    }
}

/// A source of one tool.
struct Shelf;

#[async_trait]
impl ToolSource for Shelf {
    fn name(&self) -> &str {
        "shelf"
    }

    async fn tools(&self) -> Result<Vec<Arc<dyn Tool>>> {
        Ok(vec![Arc::new(tool("from_source"))])
    }
}

/// A hook that announces its tool and registers it.
struct Announces;

#[async_trait]
impl Hook for Announces {
    fn name(&self) -> &str {
        "announces"
    }

    fn phases(&self) -> hook::Phases {
        hook::Phases::BEFORE_AGENT
    }

    fn tools(&self) -> Vec<String> {
        vec!["announced".into()]
    }

    async fn before_agent(
        &self,
        _cx: &agentcore::RunContext,
        mut state: AgentState,
    ) -> Result<AgentState> {
        state.register_tool(tool("announced"));
        Ok(state)
    }
}

/// A hook that registers a tool that it does not announce.
fn registers() -> impl Hook {
    hook::before_agent("registers", |_cx, mut state: AgentState| async move {
        state.register_tool(tool("registered"));
        Ok(state)
    })
}

fn disabling() -> ToolRegistry {
    let mut registry = ToolRegistry::new();
    registry.register(tool("own")).unwrap();
    registry.register(tool("disabled")).unwrap();
    registry.disable("disabled");
    registry
}

fn offered(model: &ScriptedModel) -> String {
    let request = &model.requests()[0];
    let names: Vec<_> = request.tools.iter().map(|tool| &*tool.name).collect();
    names.join(",")
}

fn section(model: &ScriptedModel, id: &str) -> String {
    let request = &model.requests()[0];
    request.system.get(id).unwrap().text.to_string()
}

#[tokio::test]
async fn prompter_sees_the_tools_the_model_sees() {
    let model = ScriptedModel::new().say("done");
    let agent = agent(model.clone())
        .prompter(Listing::default())
        .registry(&disabling())
        .tool_source(Shelf)
        .hook(Announces)
        .hook(registers())
        .build()
        .unwrap();
    agent.run("Go").await.unwrap();
    assert_eq!(offered(&model), "announced,from_source,own,registered");
    assert_eq!(section(&model, "tools"), offered(&model));
}

#[tokio::test]
async fn prompter_is_called_once_when_hooks_announce_their_tools() {
    let model = ScriptedModel::new().say("done");
    let prompter = Listing::default();
    let agent = agent(model.clone())
        .prompter(prompter.clone())
        .registry(&disabling())
        .tool_source(Shelf)
        .hook(Announces)
        .build()
        .unwrap();
    agent.run("Go").await.unwrap();
    assert_eq!(section(&model, "tools"), "announced,from_source,own");
    assert_eq!(prompter.0.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn section_changed_by_a_hook_survives_the_second_prompt() {
    let model = ScriptedModel::new().say("done");
    let rewrites = hook::before_agent("rewrites", |_cx, mut state: AgentState| async move {
        state.system_prompt.set("count", "many", Stability::Stable);
        Ok(state)
    });

    let agent = agent(model.clone())
        .prompter(Listing::default())
        .tool(tool("own"))
        .hook(rewrites)
        .hook(registers())
        .build()
        .unwrap();
    agent.run("Go").await.unwrap();
    assert_eq!(section(&model, "tools"), "own,registered");
    assert_eq!(section(&model, "count"), "many");
}
