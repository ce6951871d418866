//! The agents of the server.

use agentcore::config::{AgentConfig, BackendCfg};
use agentcore::registry::Registry;
use agentcore::server::Server;
use agentcore::testing::ScriptedModel;
use serde_json::json;

use crate::agents::{echo, input, login};
use crate::http::TestServer;

async fn server() -> TestServer {
    let registry = Registry::new().models(|_| Ok(ScriptedModel::new().say("Hello!")));
    let config = AgentConfig::new("any-model").with_system_prompt("Be brief.");
    let server = Server::with_registry(registry)
        .agent("default", config)
        .agent("echo", echo());
    TestServer::start(server).await
}

#[tokio::test]
async fn list_has_all_agents() {
    let server = server().await;
    for path in ["/agents/", "/agents"] {
        let list = server.get(path).send().await.ok(200);
        let ids: Vec<_> = list
            .as_array()
            .unwrap()
            .iter()
            .map(|agent| &agent["id"])
            .collect();
        assert_eq!(ids, ["default", "echo"]);
        assert_eq!(list[0]["model"], "any-model");
        assert_eq!(list[0]["system_prompt"], "Be brief.");
        assert_eq!(list[0]["models"], json!(["any-model", "function:model"]));
    }
}

#[tokio::test]
async fn agent_is_described_with_its_hooks() {
    let server = server().await;
    let agent = server.get("/agents/default").send().await.ok(200);
    assert_eq!(
        (&agent["id"], &agent["max_turns"]),
        (&json!("default"), &json!(25))
    );
    let hooks: Vec<_> = agent["hooks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|hook| &hook["name"])
        .collect();
    assert_eq!(hooks, ["tracing", "todolist", "summarization"]);
    assert_eq!(agent["tools"], json!(["write_todos"]));
    assert_eq!(
        server.get("/agents/none").send().await.error(404),
        "there is no agent \"none\""
    );
    assert_eq!(
        server.get("/agents/defualt").send().await.error(404),
        "there is no agent \"defualt\"; did you mean \"default\"?"
    );
}

#[tokio::test]
async fn agent_is_added_and_removed() {
    let server = server().await;
    let body = json!({
        "agent_id": "new", "name": "New", "model": {"provider": "ollama", "model": "llama3.1:8b"},
        "system_prompt": "Be kind.", "tools": [], "middleware": null, "subagents": [],
        "backend": {"type": "state"}, "skills": null, "memory": null, "debug": false,
        "context_window": 128000, "builtin_config": null,
    });
    let agent = server.post("/agents/", body.clone()).send().await.ok(201);
    assert_eq!(
        (&agent["id"], &agent["model"]),
        (&json!("new"), &json!("ollama:llama3.1:8b"))
    );
    let reply = server
        .post("/agents/new/invoke", input("Hi"))
        .send()
        .await
        .ok(200);
    assert_eq!(reply["response"], "Hello!");
    assert!(
        server
            .post("/agents/", body)
            .send()
            .await
            .error(409)
            .contains("\"new\"")
    );

    assert_eq!(
        server.request("DELETE", "/agents/new").send().await.status,
        204
    );
    server.get("/agents/new").send().await.error(404);
    server
        .request("DELETE", "/agents/new")
        .send()
        .await
        .error(404);
}

#[tokio::test]
async fn invalid_agent_is_a_400_that_names_the_fault() {
    let server = server().await;
    for (body, text) in [
        (json!({"model": "m"}), "agent_id is required"),
        (json!({"agent_id": "stream", "model": "m"}), "stream"),
        (json!({"agent_id": "a/b", "model": "m"}), "a/b"),
        (json!({"agent_id": "a"}), "model"),
        (
            json!({"agent_id": "a", "model": "m", "sytem_prompt": "x"}),
            "did you mean \"system_prompt\"?",
        ),
    ] {
        let error = server
            .post("/agents/", body.clone())
            .send()
            .await
            .error(400);
        assert!(error.contains(text), "{body}: {error}");
    }
}

#[tokio::test]
async fn agent_with_a_tool_that_is_not_registered_is_a_400_when_it_is_used() {
    let server = server().await;
    let body = json!({"agent_id": "new", "model": "m", "tools": ["lookup"]});
    server.post("/agents/", body).send().await.ok(201);
    let reply = server.post("/agents/new/invoke", input("Hi")).send().await;
    assert!(reply.error(400).contains("lookup"));
    let tool = json!({"name": "lookup", "callback_url": "https://tools.example.com"});
    server
        .post("/agents/tools/register", tool)
        .send()
        .await
        .ok(200);
    server
        .post("/agents/new/invoke", input("Hi"))
        .send()
        .await
        .ok(200);
}

#[tokio::test]
async fn change_of_agents_is_for_admins() {
    let server = Server::new().agent("default", echo()).users(login);
    let server = TestServer::start_with_own_login(server).await;
    let body = json!({"agent_id": "new", "model": "ollama:llama3.1:8b"});
    server
        .post("/agents/", body.clone())
        .of_user("ann")
        .send()
        .await
        .error(403);
    server
        .request("DELETE", "/agents/default")
        .of_user("ann")
        .send()
        .await
        .error(403);
    server
        .post("/agents/", body)
        .of_user("admin")
        .send()
        .await
        .ok(201);
}

#[tokio::test]
async fn user_with_the_longest_id_reaches_the_routes() {
    let server = Server::new().agent("default", echo()).users(login);
    let server = TestServer::start_with_own_login(server).await;
    let request = server.get("/agents/default").of_user(&"x".repeat(256));
    request.send().await.ok(200);
}

#[tokio::test]
async fn backend_of_a_described_agent_is_not_stored() {
    let folder = tempfile::tempdir().unwrap();
    let registry = Registry::new().models(|_| Ok(ScriptedModel::new()));
    let backend = BackendCfg::local(folder.path().to_str().unwrap());
    let config = AgentConfig::new("any-model").with_backend(backend);
    let server = Server::with_registry(registry.clone()).agent("default", config);
    let server = TestServer::start(server).await;
    for path in [
        "/agents/default",
        "/agents/tools/available",
        "/agents/default/flow",
    ] {
        server.get(path).send().await.ok(200);
    }
    let backends = format!("{:?}", registry.backends());
    assert!(backends.contains("backends: 0"), "{backends}");
}
