//! The place and the text of each configuration error.

use agentcore::config::{AgentConfig, Config, Untrusted};
use agentcore::permission::PermissionConfig;
use agentcore::testing::ScriptedModel;
use agentcore::{ErrorKind, FuncTool, Secret};

use super::{build_error, error, parts};
use crate::kit::any_object;
use crate::kit::keys::{Logged, assert_no_leak, listen};

#[test]
fn fault_in_a_file_names_the_file_the_line_and_the_column() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agents.yaml");
    let text = "# The agents of the team\n\nagents:\n  default:\n    name: code-assistant\n    \
                model: gpt-4.1\n    context_window: 128000\n    debug: true\n    sytem_prompt: Hi\n";
    std::fs::write(&path, text).unwrap();
    let error = Config::load(&path).unwrap_err();
    let text = r#"agents.yaml:9:5: unknown key "sytem_prompt"; did you mean "system_prompt"?"#;
    assert_eq!(
        (error.kind(), error.to_string().as_str()),
        (ErrorKind::Config, text)
    );
}

#[test]
fn error_of_the_parser_about_a_long_value_is_cut() {
    let digits = "9".repeat(100_000);
    for text in [
        format!("model: m\nmax_turns: {digits}"),
        format!("model: m\ntools: !!int {digits}x"),
    ] {
        let error = error(&text);
        assert!(error.len() < 1_000, "{} bytes", error.len());
    }
}

#[test]
fn cut_name_in_an_error_shows_no_part_of_a_key() {
    const KEY: &str = "hwvzkqjxqgzwjyxvqzkwxzjqgkvqzhwxjqvkbzwtpd";
    let _known = Secret::new(KEY);
    for before in (20..64).step_by(4) {
        let error = error(&format!("model: m\n{}{KEY}: 1", "x".repeat(before)));
        assert!(error.contains("unknown key \"xxxx"), "{error}");
        assert_no_leak(&error, KEY, &format!("{before}"));
    }
}

#[test]
fn defaults_that_are_long_for_all_agents_together_are_an_error() {
    let agents = |count| -> String { (0..count).map(|id| format!("  a{id}: {{}}\n")).collect() };
    let prompt = "x".repeat(500_000);
    let long_text = format!("defaults: {{ model: m, system_prompt: {prompt} }}\nagents:\n");
    let config = Config::from_yaml(&format!("{long_text}{}", agents(60))).unwrap();
    assert_eq!(config.agents().count(), 60);

    let tools: String = (0..10_000).map(|id| format!("t{id}, ")).collect();
    let many_values = format!("defaults: {{ model: m, tools: [{tools}] }}\nagents:\n");
    for text in [long_text, many_values] {
        let error = error(&format!("{text}{}", agents(100)));
        assert!(
            error.contains("the defaults of all agents have more than"),
            "{error}"
        );
    }
}

#[test]
fn each_fault_has_its_place_and_names_the_key() {
    let cases = [
        (
            "model: m\ntols: []",
            r#"2:1: unknown key "tols"; did you mean "tools"?"#,
        ),
        (
            "model: m\nbackend: { typ: local }",
            r#"2:12: unknown key "typ"; did you mean "type"?"#,
        ),
        (
            "model: m\nbackend: { type: locl }",
            r#"2:18: "type": unknown value "locl"; did you mean "local"?"#,
        ),
        (
            "model: m\ntools: calculate",
            r#"2:8: "tools": expected a list, not a text"#,
        ),
        (
            "model: m\nname: [a]",
            r#"2:7: "name": expected a text, not a list"#,
        ),
        (
            "model: m\ndebug: 1",
            r#"2:8: "debug": expected a boolean, not a number"#,
        ),
        (
            "model: m\nlimits: { max_turns: many }",
            r#"2:22: "max_turns": expected a whole number, at least 0, not a text"#,
        ),
        (
            "model: m\nlimits:\n  max_turns: -1",
            r#"3:14: "max_turns": expected a whole number, at least 0, not -1"#,
        ),
        (
            "model: m\nlimits: []",
            r#"2:9: "limits": expected a map, not a list"#,
        ),
        (
            "model: m\nskills: { path: [a] }",
            r#"2:11: unknown key "path"; did you mean "paths"?"#,
        ),
        (
            "model: m\nhooks: { todo_list: off }",
            r#"2:10: unknown hook "todo_list"; did you mean "todolist"?"#,
        ),
        (
            "model: m\nhooks: [tracing, memry]",
            r#"2:18: unknown hook "memry"; did you mean "memory"?"#,
        ),
        (
            "model: m\nhooks: { todolist: maybe }",
            r#"2:20: "todolist": expected on or off, not a text"#,
        ),
        (
            "model: m\nhooks: { permissions: off }",
            r#"2:10: the hook "permissions" cannot be switched on or off; change the key "permissions""#,
        ),
        (
            "model: { provider: ollama }",
            r#"1:8: the key "model" is missing"#,
        ),
        ("name: a", r#"1:1: the key "model" is missing"#),
        (
            "model: m\nsubagents: [{ description: d }]",
            r#"2:13: the key "name" is missing"#,
        ),
        (
            "agents: []",
            r#"1:9: "agents": expected a map of agents by their ids"#,
        ),
        (
            "agents: {}\nmodel: m",
            r#"2:1: unknown key "model"; use one of: agents, defaults"#,
        ),
        ("defaults: {}", r#"1:1: the key "agents" is missing"#),
        ("agents:\n  a:\n", r#"2:4: the key "model" is missing"#),
        (
            "defaults: { debugg: true }\nagents: {}",
            r#"1:13: unknown key "debugg"; did you mean "debug"?"#,
        ),
        (
            "agents:\n  a/b: { model: m }",
            r#"2:3: "a/b" is not the id of an agent; use 1 to 64 of A-Z a-z 0-9 _ -"#,
        ),
        (
            "agents:\n  stream: { model: m }",
            r#"2:3: an agent must not have the id "stream", which is a part of the server's addresses; use another one"#,
        ),
    ];
    for (yaml, expected) in cases {
        assert_eq!(error(yaml), format!("config:{expected}"), "{yaml}");
    }
}

#[test]
fn key_mcp_is_an_error_that_names_what_is_missing() {
    let reason = "the key \"mcp\" needs a client of the Model Context Protocol, which this version \
                  of agentcore does not have; remove the key, and register the tools in Rust";
    for (yaml, place) in [
        ("model: m\nmcp: { servers: [] }", "2:1"),
        ("agents:\n  a: { model: m, mcp: }", "2:18"),
        ("defaults: { mcp: {} }\nagents:\n  a: { model: m }", "1:13"),
    ] {
        assert_eq!(error(yaml), format!("config:{place}: {reason}"), "{yaml}");
    }
    let untrusted = Untrusted::from_yaml("mcp: {}").unwrap_err().to_string();
    assert_eq!(untrusted, format!("config:1:1: {reason}"));
    let json = AgentConfig::from_json(r#"{"model": "m", "mcp": {}}"#);
    let text = json.unwrap_err().to_string();
    assert_eq!(text, format!("agent:1:16: {reason}"));
}

#[test]
fn key_that_occurs_twice_is_an_error_with_its_place() {
    let text = error("model: a\nname: b\nmodel: c");
    assert_eq!(text, r#"config:3:1: the key "model" occurs twice"#);
    let text = error("agents:\n  a: { model: m }\n  a: { model: n }");
    assert_eq!(text, r#"config:3:3: the key "a" occurs twice"#);
    let json = r#"{"model": "a", "model": "b"}"#;
    let text = Config::from_json(json).unwrap_err().to_string();
    assert_eq!(text, r#"config:1:16: the key "model" occurs twice"#);
}

#[test]
fn rules_with_a_key_that_occurs_twice_have_its_place() {
    let error = PermissionConfig::from_yaml("deny: [Bash]\ndeny: []").unwrap_err();
    let text = r#"permissions: line 2, column 1: the key "deny" occurs twice"#;
    assert_eq!(error.to_string(), text);
}

#[test]
fn empty_file_is_named_as_such() {
    let advice = r#"it is empty; describe the agents under the key "agents", each with a "model""#;
    for yaml in ["", "\n", "# Nothing yet\n", "{}"] {
        let text = error(yaml);
        assert!(
            text.starts_with("config:1:1: ") && text.ends_with(advice),
            "{yaml:?}: {text}"
        );
    }
    let text = Config::from_json("{}").unwrap_err().to_string();
    assert_eq!(text, format!("config:1:1: {advice}"));
}

#[test]
fn syntax_error_has_its_place_and_quotes_no_line() {
    let text = error("model: m\nname: [secret-value\n");
    assert!(text.starts_with("config:"), "{text}");
    assert!(
        !text.contains("secret-value") && !text.contains('\n'),
        "{text}"
    );
}

#[test]
fn value_of_the_wrong_type_is_not_quoted() {
    for yaml in [
        "model: m\nbuiltin_config: { tavily_api_key: [tvly-1234] }",
        "model: m\nbuiltin_config: tvly-1234",
        "model: m\nlimits: { max_turns: tvly-1234 }",
        "model: m\ndebug: tvly-1234",
    ] {
        let text = error(yaml);
        assert!(!text.contains("tvly"), "{text}");
    }
}

#[test]
fn json_has_the_same_keys_and_places() {
    let json = "{\n\t\"agents\": {\n\t\t\"default\": {\"model\": \"m\", \"tols\": []}\n\t}\n}";
    let text = r#"config:3:29: unknown key "tols"; did you mean "tools"?"#;
    assert_eq!(Config::from_json(json).unwrap_err().to_string(), text);

    let json = r#"{"model": "m", "name": "a\/b \u00e9 \ud83d\ude00\n", "debug": true}"#;
    let agent = AgentConfig::from_json(json).unwrap();
    assert_eq!(agent.name.as_deref(), Some("a/b \u{e9} \u{1f600}\n"));

    let text = Config::from_json("model: m").unwrap_err().to_string();
    assert!(text.starts_with("config:1:1: this is not JSON: "), "{text}");
    let text = Config::from_json(r#"{"model": }"#).unwrap_err().to_string();
    assert!(
        text.starts_with("config:1:11: this is not JSON: "),
        "{text}"
    );
}

#[test]
fn large_and_deep_texts_are_refused() {
    let text = error(&format!("model: {}", "x".repeat(2 << 20)));
    assert!(text.contains("more than 1048576 bytes"), "{text}");
    let text = error(&format!("model: {}", "[".repeat(5_000)));
    assert!(text.starts_with("config:"), "{text}");
    let bomb = "a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\n\
                c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\n\
                e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]\n";
    assert!(error(bomb).starts_with("config:"));
}

#[test]
fn literal_keys_and_unset_variables_are_errors() {
    let key = "tvly-0123456789abcdef";
    let yaml = format!("model: m\nbuiltin_config:\n  tavily_api_key: {key}");
    let text = error(&yaml);
    assert!(
        text.starts_with("config:3:19: a key must not be written into a configuration"),
        "{text}"
    );
    assert!(!text.contains(key), "{text}");

    let text = error("model: m\nbuiltin_config: { tavily_api_key: '${AGENTCORE_TEST_UNSET}' }");
    let expected = "the environment variable AGENTCORE_TEST_UNSET is not set; set it first";
    assert_eq!(text, format!("config:2:35: {expected}"));
}

#[test]
fn variable_of_the_environment_becomes_a_secret() {
    // Cargo sets this variable for every test.
    let name = "CARGO_PKG_DESCRIPTION";
    let yaml = format!("model: m\nbuiltin_config: {{ tavily_api_key: '${{{name}}}' }}");
    let config = Config::from_yaml(&yaml).unwrap();
    let key = config
        .agent("default")
        .unwrap()
        .builtin_config
        .tavily_api_key
        .clone();
    assert_eq!(key, Some(Secret::new(std::env::var(name).unwrap())));
    assert!(!format!("{config:?}").contains("embeddable"), "{config:?}");
}

#[cfg(feature = "postgres")]
#[test]
fn address_with_a_password_is_an_error() {
    let sessions = |url: &str| format!("model: m\nsessions: {{ type: postgres, url: '{url}' }}");
    for url in [
        "postgres://agent@127.0.0.1/agent",
        "postgres://127.0.0.1:5432/agent?user=agent@tenant",
        "host=127.0.0.1 dbname=passwords",
    ] {
        assert!(Config::from_yaml(&sessions(url)).is_ok(), "{url}");
    }
    for url in [
        "postgres://agent:pw@127.0.0.1/agent",
        "postgres://h/d?password=pw",
        "postgres://agent:p#pw@127.0.0.1/agent",
        "postgres://agent:p?pw@127.0.0.1/agent",
        "postgres://agent:5432@127.0.0.1/agent?application_name=a",
        "host=127.0.0.1 user=agent password = pw",
    ] {
        let text = error(&sessions(url));
        assert!(text.contains("a password must not be written"), "{text}");
        assert!(!text.contains("pw@") && !text.contains("=pw"), "{text}");
    }
}

#[tokio::test]
async fn unknown_tool_has_its_place_and_near_names() {
    let error = build_error("model: m\ntools:\n  - request_user_input\n  - write_todo").await;
    let text = "config:4:5: unknown tool \"write_todo\"; did you mean \"write_todos\"? Register a tool \
                of your own in Rust first, with `Server::tool` or `Parts::tool`";
    assert_eq!(
        (error.kind(), error.to_string().as_str()),
        (ErrorKind::Config, text)
    );
}

#[tokio::test]
async fn model_that_cannot_be_made_has_its_place() {
    let config = Config::from_yaml("name: a\nmodel: nowhere:m").unwrap();
    let agent = config.agent("default").unwrap();
    let error = agent
        .builder(&Default::default())
        .await
        .unwrap_err()
        .to_string();
    assert!(error.starts_with("config:2:1: "), "{error}");
    assert!(error.contains("nowhere"), "{error}");
}

#[tokio::test]
async fn rule_that_matches_no_tool_is_logged_with_its_place() {
    let yaml = "model: m\ntools: [request_user_input]\npermissions:\n  allow:\n    - write_todos\n    \
                - request_user_inptu\n    - \"*\"\n    - Bash(ls:*)\n    - pay\n    - refund";
    let config = Config::from_yaml(yaml).unwrap();
    let pay = FuncTool::new("pay", "Pays", any_object(), |_, _| async { "paid" });
    let parts = parts(ScriptedModel::new()).tool(pay);
    let logged = Logged::default();
    {
        let _listening = listen(logged.clone());
        let agent = config.agent("default").unwrap();
        let built = agent.builder(&parts).await.unwrap().build();
        assert!(built.is_ok());
    }
    let text = logged.text();
    let expected = "config:6:7: permission rule \"allow:request_user_inptu\" matches no tool \
                    \"request_user_inptu\"; did you mean \"request_user_input\"?";
    assert!(text.contains(expected), "{text}");
    assert!(text.contains("config:10:7: "), "{text}");
    assert_eq!(text.matches("matches no tool").count(), 2, "{text}");
}

#[tokio::test]
async fn unknown_tool_of_a_subagent_is_logged_with_its_place() {
    let yaml = "model: m\nsubagents:\n  - name: scout\n    tools:\n      - Read_File\n      \
                - reed_file\n      - pay\n      - calculate";
    let config = Config::from_yaml(yaml).unwrap();
    let pay = FuncTool::new("pay", "Pays", any_object(), |_, _| async { "paid" });
    let parts = parts(ScriptedModel::new()).tool(pay);
    let logged = Logged::default();
    {
        let _listening = listen(logged.clone());
        let agent = config.agent("default").unwrap();
        drop(agent.builder(&parts).await.unwrap());
    }
    let text = logged.text();
    let expected = "config:6:9: unknown tool \"reed_file\"; did you mean \"read_file\"?";
    assert!(text.contains(expected), "{text}");
    assert_eq!(text.matches("unknown tool").count(), 1, "{text}");
    let expected = "config:8:9: the agent does not have the tool \"calculate\"";
    assert!(text.contains(expected), "{text}");
}

#[cfg(unix)]
#[test]
fn configuration_that_is_a_pipe_is_refused_without_waiting_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agents.yaml");
    let status = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(status.unwrap().success());
    let error = Config::load(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.text().contains("not a regular file"), "{error}");
}

#[test]
fn configuration_that_is_too_long_is_refused_with_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [
        (
            "agents.json",
            format!("{{\"name\": \"{}\"}}", "ö".repeat(600_000)),
        ),
        ("agents.yaml", format!("name: {}", "a".repeat(2_000_000))),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        let error = Config::load(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        let text = "it has more than 1048576 bytes";
        assert!(error.text().ends_with(text), "{error}");
    }
}
