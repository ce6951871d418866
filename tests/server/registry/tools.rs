//! Tools that are registered while agents run.

use agentcore::config::{AgentConfig, Config};
use agentcore::registry::ToolStore;
use agentcore::server::Server;
use agentcore::testing::ScriptedModel;
use agentcore::{ErrorKind, FuncTool, ToolContext};
use serde_json::json;

use super::{empty, registry};
use crate::kit::keys::{Logged, listen};
use crate::kit::{any_object, result_texts};

fn tool(name: &str, result: &'static str) -> FuncTool {
    FuncTool::new(
        name,
        "A tool",
        any_object(),
        move |_, _| async move { result },
    )
}

#[test]
fn names_of_tools_that_agents_have_are_taken() {
    let store = ToolStore::new();
    for name in [
        "read_file",
        "execute",
        "write_todos",
        "delegate_to_agent",
        "calculate",
    ] {
        let error = store.register(tool(name, "")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{name}");
        let error = store.register_for("ann", tool(name, "")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{name}");
    }
    let error = store.register(tool("a b", "")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Tool);
    store.register(tool("add", "")).unwrap();
    let error = store.register_for("ann", tool("add", "")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
}

#[test]
fn tool_of_a_user_is_replaced_removed_and_counted() {
    let store = ToolStore::new();
    store.register_for("ann", tool("mine", "1")).unwrap();
    store.register_for("ann", tool("mine", "2")).unwrap();
    assert_eq!(store.names("ann"), ["mine"]);
    assert!(store.names("bob").is_empty());
    assert!(!store.deregister_for("bob", "mine") && !store.deregister("mine"));
    assert!(store.deregister_for("ann", "mine"));
    assert!(!store.deregister_for("ann", "mine"));

    for number in 0..128 {
        store
            .register_for("ann", tool(&format!("t{number}"), ""))
            .unwrap();
    }
    store.register_for("ann", tool("t5", "")).unwrap();
    let error = store.register_for("ann", tool("one_more", "")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidRequest);
    store.register_for("bob", tool("one_more", "")).unwrap();
}

#[tokio::test]
async fn tool_for_all_hides_the_tool_of_a_user_with_its_name() {
    let store = ToolStore::new();
    store.register_for("ann", tool("add", "of Ann")).unwrap();
    store.register(tool("add", "for all")).unwrap();
    let tools = store.tools("ann");
    assert_eq!(tools.len(), 1);
    let output = tools[0]
        .execute(ToolContext::detached(), json!({}))
        .await
        .unwrap();
    assert_eq!(output.content.text(), "for all");
}

#[tokio::test]
async fn registered_tool_has_effect_in_the_next_turn() {
    let model = ScriptedModel::new()
        .call("install", json!({}))
        .call("fresh", json!({}))
        .call("uninstall", json!({}))
        .call("fresh", json!({}))
        .say("done");
    let registry = registry(model);
    let store = registry.tools().clone();
    let install = FuncTool::new("install", "Installs", any_object(), {
        let store = store.clone();
        move |_, _| {
            store
                .register_for("ann", tool("fresh", "it works"))
                .unwrap();
            async { "installed" }
        }
    });
    let uninstall = FuncTool::new("uninstall", "Removes", any_object(), {
        let store = store.clone();
        move |_, _| {
            store.deregister_for("ann", "fresh");
            async { "removed" }
        }
    });
    store.register(install).unwrap();
    store.register(uninstall).unwrap();
    let ann = registry.get_or_clone("default", "ann").await.unwrap();
    let output = ann.session("th_1").run("Go").await.unwrap();
    let results = result_texts(&output.messages);
    assert_eq!(results[..3], ["installed", "it works", "removed"]);
    assert!(
        results[3].contains("unknown tool \"fresh\""),
        "{}",
        results[3]
    );
}

#[tokio::test]
async fn tool_of_one_user_is_unknown_to_another() {
    let model = ScriptedModel::new().call("mine", json!({})).say("done");
    let registry = registry(model.clone());
    registry
        .tools()
        .register_for("ann", tool("mine", "of Ann"))
        .unwrap();
    let bob = registry.get_or_clone("default", "bob").await.unwrap();
    let output = bob.session("th_1").run("Go").await.unwrap();
    assert!(
        result_texts(&output.messages)[0].contains("unknown tool"),
        "{:?}",
        result_texts(&output.messages)
    );
    let offered = &model.requests()[0].tools;
    assert!(offered.iter().all(|tool| &*tool.name != "mine"));
}

#[test]
fn sizes_of_the_tools_of_a_user_are_limited() {
    let store = ToolStore::new();
    let sized = |name: &str, bytes: usize| {
        let description = "x".repeat(bytes);
        FuncTool::new(name, description, any_object(), |_, _| async { "" })
    };
    let error = store.register_for("ann", sized("large", 32 * 1024));
    assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidRequest);
    for number in 0..32 {
        let tool = sized(&format!("t{number}"), 32 * 1000);
        store.register_for("ann", tool).unwrap();
    }
    let error = store.register_for("ann", sized("one_more", 32 * 1000));
    assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidRequest);
    store.register_for("ann", sized("t5", 32 * 1000)).unwrap();
    store.register_for("bob", sized("mine", 32 * 1000)).unwrap();
}

#[tokio::test]
async fn registered_tools_reach_agents_whose_list_does_not_name_them() {
    let model = ScriptedModel::new().call("deploy", json!({})).say("done");
    let registry = empty(model);
    let config = AgentConfig::new("m").with_tools(["request_user_input"]);
    registry.register_template("other", config).unwrap();
    let store = registry.tools();
    store.register(tool("deploy", "deployed")).unwrap();
    let ann = registry.get_or_clone("other", "ann").await.unwrap();
    let output = ann.session("th_1").run("Go").await.unwrap();
    assert_eq!(result_texts(&output.messages)[0], "deployed");
}

#[tokio::test]
async fn unknown_tool_of_a_file_is_logged_when_a_server_starts() {
    let yaml = "agents:\n  default: { model: m, tools: [deploy, write_todos] }\n";
    let config = Config::from_yaml(yaml).unwrap();
    let registry = empty(ScriptedModel::new());
    registry.register_config(&config).unwrap();
    let error = registry.check_tools().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    let text = error.to_string();
    assert!(
        text.starts_with("config:2:32: unknown tool \"deploy\"; use one of: "),
        "{text}"
    );
    let advice =
        ". Register a tool of your own in Rust first, with `Server::tool` or `Parts::tool`";
    assert!(text.ends_with(advice), "{text}");

    let logged = Logged::default();
    {
        let _listening = listen(logged.clone());
        let server = Server::with_registry(registry.clone()).token("token");
        drop(server.router().unwrap());
    }
    assert!(logged.text().contains(&text), "{}", logged.text());

    registry.tools().register(tool("deploy", "")).unwrap();
    registry.check_tools().unwrap();
}
