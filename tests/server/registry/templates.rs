//! The templates of a registry.

use agentcore::config::{AgentConfig, BackendCfg, Config, SubAgentCfg};
use agentcore::testing::ScriptedModel;
use agentcore::{Agent, ErrorKind};
use serde_json::json;

use super::{empty, registry};

#[test]
fn ids_that_are_parts_of_addresses_or_taken_are_refused() {
    let registry = empty(ScriptedModel::new());
    let config = || AgentConfig::new("m");
    for id in [
        "",
        "a b",
        "a/b",
        ".",
        "\u{e9}",
        &"x".repeat(65),
        "stream",
        "hitl",
        "files",
    ] {
        let error = registry.register_template(id, config()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{id}");
    }
    registry.register_template("a-1_B", config()).unwrap();
    let error = registry.register_template("a-1_B", config()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    registry.replace_template("a-1_B", config()).unwrap();
    assert_eq!(registry.list().len(), 1);
}

#[test]
fn template_that_cannot_work_is_refused() {
    let registry = empty(ScriptedModel::new());
    let config = AgentConfig::new("m").with_backend(BackendCfg::state().with_timeout(3));
    let error = registry.register_template("a", config).unwrap_err();
    let text =
        "backend.timeout: a backend of the type \"state\" has no \"timeout\"; remove the key";
    assert_eq!(
        (error.kind(), error.to_string().as_str()),
        (ErrorKind::Config, text)
    );
    assert!(registry.list().is_empty());
}

#[test]
fn list_describes_the_templates() {
    let registry = empty(ScriptedModel::new());
    let config = AgentConfig::new("m")
        .with_description("Helps")
        .with_system_prompt("Be brief.")
        .with_tools(["request_user_input"])
        .with_backend(BackendCfg::state())
        .with_subagent(SubAgentCfg::new("scout", "Looks", "Look."));
    registry.register_template("b", config).unwrap();
    let builder = Agent::builder(ScriptedModel::new()).name("built");
    registry.register_template("a", builder).unwrap();
    let list = serde_json::to_value(registry.list()).unwrap();
    assert_eq!(list[0]["id"], "a");
    assert_eq!(list[0]["name"], "built");
    assert_eq!(
        list[1],
        json!({
            "id": "b", "name": "b", "description": "Helps", "model": "m",
            "system_prompt": "Be brief.", "tools": ["request_user_input"],
            "subagents": ["scout"], "backend_type": "state", "debug": false
        })
    );
    assert_eq!(registry.info("b").unwrap().description, "Helps");
    assert!(registry.get("c").is_none() && registry.info("c").is_none());
}

#[tokio::test]
async fn agents_of_a_file_are_registered_together() {
    let registry = empty(ScriptedModel::new());
    let config = Config::from_yaml("agents: { a: { model: m }, b: { model: m } }").unwrap();
    registry.register_config(&config).unwrap();
    for id in ["a", "b"] {
        let instance = registry.get_or_clone(id, "ann").await.unwrap();
        assert_eq!(instance.agent().name(), id);
    }
}

#[tokio::test]
async fn unknown_agent_is_not_found_and_near_ids_are_named() {
    let registry = registry(ScriptedModel::new());
    let error = registry.get_or_clone("defualt", "ann").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(
        error.to_string(),
        "there is no agent \"defualt\"; did you mean \"default\"?"
    );
}

#[tokio::test]
async fn removed_and_replaced_templates_have_no_old_instances() {
    let registry = registry(ScriptedModel::new());
    let old = registry.get_or_clone("default", "ann").await.unwrap();
    let config = AgentConfig::new("m").with_name("new");
    registry.replace_template("default", config).unwrap();
    let new = registry.get_or_clone("default", "ann").await.unwrap();
    assert_eq!((old.agent().name(), new.agent().name()), ("default", "new"));

    assert!(registry.remove("default"));
    assert!(!registry.remove("default"));
    let error = registry.get_or_clone("default", "ann").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}
