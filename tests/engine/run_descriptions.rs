//! The parts of `system/init` that describe hooks and tools.

use agentcore::hook::Phases;
use agentcore::sdk::{Init, McpServerStatus, SystemKind};
use agentcore::subagent::{SubagentDefinition, SubagentRegistry};
use agentcore::testing::FunctionModel;
use agentcore::{
    Agent, AgentState, Hook, ModelEvent, Result, RunContext, SdkMessage, async_trait, tools,
};

use crate::kit::agent;

fn model() -> FunctionModel {
    FunctionModel::new(|_| vec![Ok(ModelEvent::Text("Hi".to_owned()))])
}

async fn init_of(agent: &Agent) -> Init {
    let mut run = agent.run("Hi");
    let Some(SdkMessage::System(event)) = run.next().await else {
        panic!("a run begins with a system message");
    };
    let SystemKind::Init(init) = event.kind else {
        panic!("a run begins with `init`");
    };
    *init
}

/// A hook that describes a server, and warns.
struct Server;

#[async_trait]
impl Hook for Server {
    fn name(&self) -> &str {
        "server"
    }

    fn phases(&self) -> Phases {
        Phases::BEFORE_AGENT
    }

    async fn before_agent(&self, cx: &RunContext, state: AgentState) -> Result<AgentState> {
        cx.warn("the server is slow");
        cx.describe(|init| {
            init.mcp_servers
                .push(McpServerStatus::new("docs", "connected"));
            init.model = "another".into();
        });
        Ok(state)
    }
}

#[tokio::test]
async fn description_of_a_hook_is_in_the_first_message() {
    let agent = agent(model());
    let agent = agent.hook(Server).build().unwrap();
    for _ in 0..2 {
        let init = init_of(&agent).await;
        assert_eq!(
            init.mcp_servers,
            [McpServerStatus::new("docs", "connected")]
        );
        assert_ne!(&*init.model, "another", "the loop's own fields stay");
    }
}

#[tokio::test]
async fn subagents_that_tools_can_start_are_in_the_first_message_once() {
    let mut agents = SubagentRegistry::new();
    for name in ["scout", "critic"] {
        let definition = SubagentDefinition::new("Works", "Work.");
        agents.register(name, definition).unwrap();
    }
    let agent = agent(model())
        .tools(tools::delegate(agents.clone()).build().unwrap())
        .tools(tools::task(agents).build().unwrap())
        .build()
        .unwrap();
    let init = init_of(&agent).await;
    let names: Vec<&str> = init.agents.iter().map(|name| &**name).collect();
    assert_eq!(names, ["critic", "scout"]);
}

#[cfg(feature = "yaml")]
#[tokio::test]
async fn skills_are_in_the_first_message_by_their_own_names() {
    use agentcore::backend::{Backend, MemoryBackend};
    use agentcore::hooks::SkillsHook;

    let backend = MemoryBackend::new();
    let skill = b"---\nname: Slide Deck Creator\ndescription: Makes slides\n---\nSlides.";
    backend
        .write("skills/slides/SKILL.md", skill)
        .await
        .unwrap();
    let agent = agent(model());
    let agent = agent.hook(SkillsHook::new(backend)).build().unwrap();
    let skills = init_of(&agent).await.skills;
    let names: Vec<&str> = skills.iter().map(|name| &**name).collect();
    assert_eq!(names, ["Slide Deck Creator"]);
}
