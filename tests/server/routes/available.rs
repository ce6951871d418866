//! Tools, skills and hooks.

use agentcore::config::{AgentConfig, BackendCfg};
use agentcore::registry::Registry;
use agentcore::server::Server;
use agentcore::testing::ScriptedModel;
use agentcore::{FuncTool, ToolContext};
use serde_json::{Value, json};

use crate::http::TestServer;

async fn server(folder: &std::path::Path) -> TestServer {
    let skill = folder.join("skills/slides");
    std::fs::create_dir_all(&skill).unwrap();
    let text = "---\nname: Slide Deck Creator\ndescription: Makes slides\n---\nSteps\n";
    std::fs::write(skill.join("SKILL.md"), text).unwrap();
    let registry = Registry::new().models(|_| Ok(ScriptedModel::new()));
    let workdir = folder.join("work").display().to_string();
    let config = AgentConfig::new("any-model")
        .with_backend(BackendCfg::local(workdir))
        .with_skills([folder.join("skills").display().to_string()]);
    let add = FuncTool::new(
        "add",
        "Adds",
        json!({"type": "object"}),
        |_: ToolContext, _| async { "5" },
    );
    let server = Server::with_registry(registry)
        .agent("default", config)
        .tool(add);
    TestServer::start(server).await
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn tools_have_their_sources() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path()).await;
    let reply = server.get("/agents/tools/available").send().await.ok(200);
    let source = |name: &str| {
        let tools = reply["tools"].as_array().unwrap().iter();
        let tool = tools.clone().find(|tool| tool["name"] == name);
        tool.map(|tool| tool["source"].as_str().unwrap().to_owned())
    };
    assert_eq!(source("add").as_deref(), Some("external"));
    assert_eq!(source("read_file").as_deref(), Some("filesystem"));
    assert_eq!(source("write_todos").as_deref(), Some("todolist"));
    assert_eq!(source("none"), None);
    let path = "/agents/tools/available?agent_id=none";
    server.get(path).send().await.error(404);
}

#[tokio::test]
async fn skills_are_those_that_agents_find() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path()).await;
    let reply = server.get("/agents/skills/available").send().await.ok(200);
    assert_eq!(names(&reply["skills"]), ["Slide Deck Creator"]);
    assert_eq!(reply["skills"][0]["description"], "Makes slides");
}

#[tokio::test]
async fn hooks_have_their_phases_and_tools() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path()).await;
    let reply = server.get("/agents/hooks/available").send().await.ok(200);
    let expected = [
        "tracing",
        "todolist",
        "filesystem",
        "skills",
        "summarization",
    ];
    assert_eq!(names(&reply["hooks"]), expected);
    let todolist = &reply["hooks"][1];
    assert_eq!(
        (&todolist["configurable"], &todolist["tools"]),
        (&json!(true), &json!(["write_todos"]))
    );
    assert!(
        todolist["phases"]
            .as_array()
            .unwrap()
            .contains(&json!("before_agent"))
    );
}

#[tokio::test]
async fn chain_of_messages_is_checked() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path()).await;
    let reply = server.get("/agents/messages/test").send().await.ok(200);
    assert_eq!(
        (&reply["valid"], &reply["counts"]["total"]),
        (&json!(true), &json!(5))
    );
    assert!(
        reply["pretty"]
            .as_str()
            .unwrap()
            .contains("[Tool: calculate (call_id=call_1)]")
    );
}
