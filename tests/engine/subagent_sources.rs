//! Tools of sources in subagents.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use agentcore::subagent::{SubagentDefinition, SubagentRegistry};
use agentcore::testing::ScriptedModel;
use agentcore::tool::ToolSource;
use agentcore::{AgentBuilder, FuncTool, Result, Tool, async_trait, tools};
use serde_json::json;

use crate::kit::any_object;

/// A source whose tools `deploy`, `delegate` and `look` appear when `open` is called.
#[derive(Clone, Default)]
struct Shelf(Arc<AtomicU64>);

#[async_trait]
impl ToolSource for Shelf {
    fn name(&self) -> &str {
        "shelf"
    }

    async fn tools(&self) -> Result<Vec<Arc<dyn Tool>>> {
        if self.0.load(Ordering::Relaxed) == 0 {
            return Ok(Vec::new());
        }
        let tool = |name: &str| FuncTool::new(name, "A tool", any_object(), |_, _| async { "ok" });
        Ok(vec![
            Arc::new(tool("deploy")),
            Arc::new(tool("delegate").starting_agents()),
            Arc::new(tool("look")),
        ])
    }

    fn version(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed))
    }
}

#[tokio::test]
async fn tool_that_a_source_adds_during_the_turn_is_withheld_like_any_other() {
    let shelf = Shelf::default();
    let version = shelf.0.clone();
    let open = FuncTool::new("open", "Opens the shelf", any_object(), move |_, _| {
        version.fetch_add(1, Ordering::Relaxed);
        async { "open" }
    });
    let definition = SubagentDefinition::new("Looks around", "You look around.");
    let mut registry = SubagentRegistry::new();
    let definition = definition.with_disallowed_tools(["deploy", "open"]);
    registry.register("scout", definition).unwrap();
    let scout = ScriptedModel::new().say("All quiet.");
    let task = tools::task(registry).model(scout.clone());

    let call = json!({"prompt": "Look!", "description": "Look", "subagent_type": "scout"});
    // The calls run one after the other in a turn whose tools were listed before it.
    let lead = ScriptedModel::new()
        .calls([("open", json!({})), ("Task", call)])
        .say("done");
    let agent = AgentBuilder::new(lead)
        .tool(open.exclusive())
        .tools(task.build().unwrap())
        .tool_source(shelf);
    let agent = agent.build().unwrap();
    assert_eq!(agent.run("Go").await.unwrap().text, "done");
    let requests = scout.requests();
    let names: Vec<_> = requests[0].tools.iter().map(|tool| &*tool.name).collect();
    assert_eq!(names, ["look"]);
}
