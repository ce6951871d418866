//! Complete programs with a server.

use agentcore::FuncTool;
use agentcore::config::{AgentConfig, BackendCfg};
use agentcore::registry::Registry;
use agentcore::schemars::{self, JsonSchema};
use agentcore::server::Server;
use agentcore::testing::ScriptedModel;
use serde::Deserialize;
use serde_json::json;

use crate::agents::{AskAlways, caller, input};
use crate::http::TestServer;

#[derive(Deserialize, JsonSchema)]
struct Sum {
    a: i64,
    b: i64,
}

fn add() -> FuncTool {
    FuncTool::typed("add", "Adds two numbers", |sum: Sum| async move {
        Ok((sum.a + sum.b).to_string())
    })
}

/// The configuration and the tool are in code.
#[tokio::test]
async fn program_with_an_agent_and_a_tool_in_code_answers_with_the_tool() {
    let folder = tempfile::tempdir().unwrap();
    let workspace = folder.path().join("workspace");
    let model = ScriptedModel::new()
        .call("add", json!({"a": 2, "b": 40}))
        .say("It is 42.");
    let registry = Registry::new().models(move |_| Ok(model.clone()));
    let agent = AgentConfig::new("ollama:llama3.1:8b")
        .with_name("Ollama Local")
        .with_tools(["add"])
        .with_backend(BackendCfg::local(workspace.to_str().unwrap()));
    let server = Server::with_registry(registry)
        .agent("default", agent)
        .tool(add());
    let server = TestServer::start(server).await;
    let reply = server.post("/agents/invoke", input("Add 2 and 40"));
    let reply = reply.send().await.ok(200);
    assert_eq!(reply["response"], "It is 42.");
    assert_eq!(reply["tool_calls"][0]["args"], json!({"a": 2, "b": 40}));
    let path = format!(
        "/agents/default/threads/{}",
        reply["thread_id"].as_str().unwrap()
    );
    let thread = server.get(&path).send().await.ok(200);
    assert_eq!(thread["messages"][2]["content"], "42", "{thread}");
    let agents = server.get("/agents/").send().await.ok(200);
    assert!(agents.to_string().contains("Ollama Local"), "{agents}");
}

#[tokio::test]
async fn settings_of_the_program_apply_to_the_agents_of_its_server() {
    let registry = Registry::new().complete_with(|builder| builder.max_turns(1));
    let agent = caller("add", json!({"a": 1, "b": 1})).tool(add());
    let server = Server::with_registry(registry).agent("default", agent);
    let server = TestServer::start(server).await;
    let reply = server.post("/agents/invoke", input("Go")).send().await;
    assert_eq!(reply.ok(200)["end"], "max_turns");
}

/// The program adds its gate last, but a question still waits as long as the server sets.
#[tokio::test]
async fn settings_of_the_server_apply_after_those_of_the_program() {
    let registry = Registry::new();
    let agent = caller("add", json!({"a": 1, "b": 1})).tool(add());
    let server = Server::with_registry(registry.clone())
        .agent("default", agent)
        .ask_wait(std::time::Duration::ZERO);
    let server = TestServer::start(server).await;
    let _registry = registry.complete_with(|builder| builder.permissions(AskAlways));
    let reply = server.post("/agents/invoke", input("Go")).send().await;
    assert_eq!(reply.ok(200)["end"], "awaiting_approval");
}
