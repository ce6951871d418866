//! Steps of a run, switches of hooks, and backends.

use agentcore::config::{AgentConfig, BackendCfg, HookChoice};
use agentcore::hook::{before_agent, before_stop, post_tool_use, pre_tool_use};
use agentcore::permission::PermissionConfig;
use agentcore::registry::Registry;
use agentcore::server::Server;
use agentcore::testing::ScriptedModel;
use agentcore::{StopDecision, ToolDecision};
use serde_json::{Value, json};

use crate::agents::{echo, login};
use crate::http::TestServer;

fn server() -> Server {
    let registry = Registry::new().models(|_| Ok(ScriptedModel::new()));
    let config = AgentConfig::new("any-model")
        .with_backend(BackendCfg::state())
        .with_permissions(PermissionConfig::default());
    Server::with_registry(registry)
        .agent("default", config)
        .agent("echo", echo())
}

fn hooks_of(reply: &Value) -> Vec<&str> {
    let hooks = reply["hooks"].as_array().unwrap().iter();
    hooks.map(|hook| hook["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn flow_has_the_steps_with_their_hooks() {
    let server = TestServer::start(server()).await;
    let reply = server.get("/agents/default/flow").send().await.ok(200);
    let steps: Vec<_> = reply["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| &step["step"])
        .collect();
    assert_eq!(
        steps[..4],
        ["before_agent", "loop_start", "modify_request", "model_call"]
    );
    assert_eq!(reply["steps"][1]["max_iterations"], 25);
    let before = reply["steps"][0]["hooks"].as_array().unwrap();
    assert!(before.contains(&json!("filesystem")), "{before:?}");
    server.get("/agents/none/flow").send().await.error(404);
}

#[tokio::test]
async fn each_hook_is_in_the_steps_of_its_phases() {
    let checked = echo()
        .hook(pre_tool_use("audit", |_, _| async {
            Ok(ToolDecision::allow())
        }))
        .hook(post_tool_use("record", |_, _, result| async { Ok(result) }))
        .hook(before_stop("check", |_, _| async {
            Ok(StopDecision::Stop)
        }));
    let server = TestServer::start(server().agent("checked", checked)).await;
    let mut names = Vec::new();
    for agent in ["default", "checked"] {
        let flow = server.get(&format!("/agents/{agent}/flow"));
        let flow = flow.send().await.ok(200);
        let available = server.get(&format!("/agents/hooks/available?agent_id={agent}"));
        let available = available.send().await.ok(200);
        for hook in available["hooks"].as_array().unwrap() {
            names.push(hook["name"].as_str().unwrap().to_owned());
            for phase in hook["phases"].as_array().unwrap() {
                let phase = phase.as_str().unwrap();
                let name = phase.strip_prefix("wrap_").unwrap_or(phase);
                let mut steps = flow["steps"].as_array().unwrap().iter();
                let step = steps.find(|step| step["step"] == name);
                let hooks = step.unwrap()["hooks"].as_array().unwrap();
                assert!(hooks.contains(&hook["name"]), "{agent} {phase}: {hook}");
            }
        }
    }
    for name in ["audit", "record", "check", "filesystem"] {
        assert!(names.iter().any(|own| own == name), "{name}: {names:?}");
    }
}

#[tokio::test]
async fn change_of_hooks_with_many_names_is_refused() {
    let server = TestServer::start(server()).await;
    let change = |count| json!({"disable": vec!["skills"; count]});
    let request = server.request("PATCH", "/agents/default/hooks");
    request.json(change(256)).send().await.ok(200);
    let request = server.request("PATCH", "/agents/default/hooks");
    let reply = request.json(change(257)).send().await;
    let text = "257 hooks are named; name each once, and at most 256";
    assert_eq!(reply.error(400), text);
}

#[tokio::test]
async fn hooks_are_switched_for_one_user() {
    let server = server().users(login);
    let server = TestServer::start_with_own_login(server).await;
    let body = json!({"disable": ["todolist"]});
    let reply = server.request("PATCH", "/agents/default/hooks").json(body);
    let reply = reply.of_user("ann").send().await.ok(200);
    assert!(!hooks_of(&reply).contains(&"todolist"));
    let other = server
        .get("/agents/default")
        .of_user("ben")
        .send()
        .await
        .ok(200);
    assert!(hooks_of(&other).contains(&"todolist"));

    let body = json!({"enable": ["todolist"]});
    let reply = server.request("PATCH", "/agents/default/hooks").json(body);
    assert!(hooks_of(&reply.of_user("ann").send().await.ok(200)).contains(&"todolist"));
}

#[tokio::test]
async fn hook_whose_tool_is_in_the_list_of_tools_is_switched_off() {
    let registry = Registry::new().models(|_| Ok(ScriptedModel::new()));
    let config = AgentConfig::new("any-model").with_tools(["write_todos"]);
    let server = Server::with_registry(registry).agent("default", config);
    let server = TestServer::start_with_own_login(server.users(login)).await;
    for (key, is_on) in [("disable", false), ("enable", true)] {
        let body = json!({key: ["todolist"]});
        let reply = server.request("PATCH", "/agents/default/hooks").json(body);
        let reply = reply.of_user("ann").send().await.ok(200);
        assert_eq!(hooks_of(&reply).contains(&"todolist"), is_on, "{reply}");
    }
}

#[tokio::test]
async fn hooks_that_are_off_and_those_of_the_application_are_switched_by_admins_alone() {
    let registry = Registry::new().models(|_| Ok(ScriptedModel::new()));
    let config = AgentConfig::new("any-model")
        .with_backend(BackendCfg::state())
        .with_hooks(HookChoice::without(["filesystem"]));
    let guarded = echo().hook(before_agent("guard", |_, state| async { Ok(state) }));
    let server = Server::with_registry(registry)
        .agent("default", config)
        .agent("guarded", guarded);
    let server = TestServer::start_with_own_login(server.users(login)).await;
    let patch = |agent: &str, body: Value, user: &str| {
        let path = format!("/agents/{agent}/hooks");
        server.request("PATCH", &path).json(body).of_user(user)
    };
    for (agent, body, hook) in [
        ("default", json!({"enable": ["filesystem"]}), "filesystem"),
        ("guarded", json!({"disable": ["guard"]}), "guard"),
        ("guarded", json!({"enable": ["guard"]}), "guard"),
    ] {
        let error = patch(agent, body.clone(), "ann").send().await.error(403);
        assert!(error.contains(hook), "{error}");
        patch(agent, body, "admin").send().await.ok(200);
    }
    for (user, is_configurable) in [("ann", false), ("admin", true)] {
        let request = server.get("/agents/hooks/available?agent_id=guarded");
        let reply = request.of_user(user).send().await.ok(200);
        assert_eq!(reply["hooks"][0]["configurable"], is_configurable);
    }
}

#[tokio::test]
async fn switch_of_an_unknown_or_fixed_hook_is_a_400() {
    let server = TestServer::start(server()).await;
    for hook in ["nothing", "permissions"] {
        let body = json!({"disable": [hook]});
        let reply = server
            .request("PATCH", "/agents/default/hooks")
            .json(body)
            .send()
            .await;
        assert!(reply.error(400).contains(hook));
    }
    let body = json!({"enable": ["todolist"], "disable": ["todolist"]});
    server
        .request("PATCH", "/agents/default/hooks")
        .json(body)
        .send()
        .await
        .error(400);
}

#[tokio::test]
async fn backend_is_set_by_admins_alone() {
    let server = server().users(login);
    let server = TestServer::start_with_own_login(server).await;
    let patch = |body: Value, user: &str| {
        server
            .request("PATCH", "/agents/default/backend")
            .json(body)
            .of_user(user)
    };
    patch(json!({"mode": "local"}), "ann")
        .send()
        .await
        .error(403);
    let reply = patch(json!({"mode": "local"}), "admin")
        .send()
        .await
        .ok(200);
    assert_eq!(reply["agent_id"], "default");
    assert_eq!(reply["backend_type"], "state");
    assert!(reply["sandbox_url"].is_null() && reply["container_status"].is_null());
    for mode in ["", "cloud"] {
        let reply = patch(json!({"mode": mode}), "admin").send().await;
        assert_eq!(reply.error(400), "mode must be 'local' or 'remote'");
    }
    let body = json!({"mode": "remote", "sandbox_url": "ssh://build@example.org"});
    patch(body, "admin").send().await.error(400);
}

#[tokio::test]
async fn container_of_an_agent_without_one_is_a_400() {
    let server = TestServer::start(server()).await;
    for agent in ["default", "echo"] {
        let path = format!("/agents/{agent}/container");
        let reply = server.post(&path, json!({"action": "stop"})).send().await;
        assert!(reply.error(400).contains("no container"));
    }
    let path = "/agents/default/container";
    assert!(
        server
            .post(path, json!({"action": "dance"}))
            .send()
            .await
            .error(400)
            .contains("action")
    );
}
