//! Configurations from an untrusted source.

use agentcore::PermissionMode;
use agentcore::config::{Config, Untrusted};
use agentcore::testing::ScriptedModel;
use serde_json::json;

use super::parts;

const OWN: &str = "agents:\n  default:\n    model: m\n    tools: [request_user_input, request_user_approval]\n    \
                   limits: { max_turns: 20, max_duration: 60 }\n    hooks: { memory: off }\n";

fn project(keys: &str) -> String {
    format!("agents:\n  default:\n    {keys}")
}

fn narrowed(keys: &str) -> Result<Config, String> {
    let own = Config::from_yaml(OWN).unwrap();
    let untrusted = Untrusted::from_yaml(&project(keys)).map_err(|error| error.to_string())?;
    own.narrow(&untrusted).map_err(|error| error.to_string())
}

#[test]
fn fewer_tools_lower_limits_and_hooks_that_are_off_are_taken() {
    let config = narrowed(
        "{ tools: [request_user_input], limits: { max_turns: 5, tool_timeout: 10, \
         max_budget_usd: 1 }, hooks: { todolist: off }, permissions: { ask: [read_file], \
         deny: [execute], mode: dontAsk } }",
    );
    let config = config.unwrap();
    let agent = config.agent("default").unwrap();
    assert_eq!(agent.tools, ["request_user_input"]);
    let limits = &agent.limits;
    assert_eq!((limits.max_turns, limits.max_duration), (5, Some(60)));
    assert_eq!(
        (limits.tool_timeout, limits.max_budget_usd),
        (Some(10), Some(1.0))
    );
    assert!(!agent.hooks.has("todolist") && !agent.hooks.has("memory"));
    assert!(agent.hooks.has("tracing"));
    let rules = agent.permissions.as_ref().unwrap();
    assert_eq!((&*rules.deny[0], &*rules.ask[0]), ("execute", "read_file"));
    assert_eq!(rules.mode, Some(PermissionMode::DontAsk));
    assert_eq!(agent.model, "m");
}

#[test]
fn untrusted_key_that_widens_is_an_error_with_its_place() {
    for (keys, expected) in [
        (
            "tools: [calculate]",
            "3:13: the tool \"calculate\" is none of the agent's",
        ),
        (
            "limits: { max_turns: 21 }",
            "3:15: \"max_turns\" is more than the agent may have",
        ),
        (
            "limits: { max_turns: 0 }",
            "3:15: \"max_turns\" is more than the agent may have",
        ),
        (
            "limits: { max_duration: 61 }",
            "3:15: \"max_duration\" is more",
        ),
        (
            "limits: { tool_timeout: 121 }",
            "3:15: \"tool_timeout\" is more",
        ),
        (
            "limits: { parallel_tools: 9 }",
            "3:15: \"parallel_tools\" is more",
        ),
        (
            "limits: { max_budget_usd: -1 }",
            "3:15: \"max_budget_usd\" must be a number, at least 0",
        ),
        ("permissions: { deny: ['Bash()'] }", "3:27: "),
        (
            "limits: { temperature: 0 }",
            "3:15: \"temperature\" is not a limit",
        ),
        (
            "permissions: { allow: [execute] }",
            "3:20: a configuration that is not trusted must not allow",
        ),
        (
            "permissions: { mode: bypassPermissions }",
            "3:20: a configuration that is not trusted can only set",
        ),
        (
            "permissions: { mode: acceptEdits }",
            "3:20: a configuration that is not trusted can only set",
        ),
        (
            "model: other",
            "3:5: a configuration that is not trusted must not have the key \"model\"",
        ),
        (
            "system_prompt: Obey.",
            "3:5: a configuration that is not trusted must not have",
        ),
        (
            "backend: { type: docker, image: a }",
            "3:5: a configuration that is not trusted must not",
        ),
        (
            "sessions: { type: redis, url: '${X}' }",
            "3:5: a configuration that is not trusted must not",
        ),
        (
            "builtin_config: { tavily_api_key: '${HOME}' }",
            "3:5: a configuration that is not trusted",
        ),
        (
            "skills: { paths: [/] }",
            "3:5: a configuration that is not trusted must not have",
        ),
        (
            "memory: { paths: [/etc/passwd] }",
            "3:5: a configuration that is not trusted must not",
        ),
        (
            "subagents: [{ name: a }]",
            "3:5: a configuration that is not trusted must not have",
        ),
    ] {
        let text = narrowed(keys).unwrap_err();
        assert!(
            text.starts_with(&format!("config:{expected}")),
            "{keys}: {text}"
        );
    }
}

#[test]
fn untrusted_plan_and_dont_ask_do_not_replace_each_other() {
    for (own, other, is_narrower) in [
        ("plan", "plan", true),
        ("plan", "dontAsk", false),
        ("dontAsk", "plan", false),
        ("dontAsk", "dontAsk", true),
        ("acceptEdits", "plan", true),
    ] {
        let own_yaml = format!("model: m\npermissions: {{ mode: {own} }}");
        let config = Config::from_yaml(&own_yaml).unwrap();
        let untrusted = project(&format!("permissions: {{ mode: {other} }}"));
        let untrusted = Untrusted::from_yaml(&untrusted).unwrap();
        let result = config.narrow(&untrusted).map_err(|error| error.to_string());
        assert_eq!(result.is_ok(), is_narrower, "{own}, {other}: {result:?}");
        if let Err(text) = result {
            let expected = format!(
                "can only set the modes \"plan\" and \"dontAsk\", but neither in place of the \
                 other; the agent's mode is {own:?}"
            );
            assert!(text.contains(&expected), "{own}, {other}: {text}");
        }
    }
}

#[test]
fn untrusted_defaults_and_unknown_agents_are_errors() {
    let untrusted = "defaults: { model: other }\nagents: { default: {} }";
    let text = Untrusted::from_yaml(untrusted).unwrap_err().to_string();
    assert!(text.starts_with("config:1:13: "), "{text}");

    let own = Config::from_yaml(OWN).unwrap();
    let untrusted = Untrusted::from_yaml("agents: { other: {} }").unwrap();
    let text = own.narrow(&untrusted).unwrap_err().to_string();
    assert!(text.contains("unknown agent \"other\""), "{text}");
}

#[test]
fn keys_that_are_absent_change_nothing() {
    let config = narrowed("{}").unwrap();
    let own = Config::from_yaml(OWN).unwrap();
    let (narrowed, own) = (
        config.agent("default").unwrap(),
        own.agent("default").unwrap(),
    );
    assert_eq!(narrowed.tools, own.tools);
    assert_eq!(narrowed.limits.max_turns, own.limits.max_turns);
    assert!(narrowed.permissions.is_none());
}

/// Without rules every call is allowed. One rule that denies must not turn the other calls into
/// questions.
#[tokio::test]
async fn rule_to_deny_leaves_other_calls_allowed() {
    let config = narrowed("permissions: { deny: [request_user_input] }").unwrap();
    let model = ScriptedModel::new()
        .call("write_todos", json!({"todos": []}))
        .call("request_user_input", json!({"question": "?"}))
        .say("done");
    let agent = config
        .agent("default")
        .unwrap()
        .builder(&parts(model))
        .await
        .unwrap();
    let output = agent.build().unwrap().run("Go").await.unwrap();
    let results = output
        .messages
        .iter()
        .filter_map(|message| message.as_tool_result());
    let results: Vec<_> = results.map(|result| result.is_error).collect();
    assert_eq!(results, [false, true]);
}
