//! Combinations of keys that are not possible.

use super::{built, error};

#[test]
fn combination_that_cannot_work_is_an_error_at_its_key() {
    let cases = [
        (
            "backend:\n  type: local\n  image: alpine",
            r#"4:3: a backend of the type "local" has no "image"; remove the key"#,
        ),
        (
            "backend: { container_name: box }",
            r#"2:12: a backend of the type "local" has no "container_name"; remove the key"#,
        ),
        (
            "backend: { type: state, workdir: . }",
            r#"2:25: a backend of the type "state" has no "workdir"; remove the key"#,
        ),
        (
            "backend: { type: state, sandbox: workspace }",
            r#"2:25: a backend of the type "state" has no "sandbox"; remove the key"#,
        ),
        (
            "backend: { timeout: 0 }",
            r#"2:12: "timeout" must be more than 0"#,
        ),
        (
            "context_window: 0",
            r#"2:1: "context_window" must be more than 0"#,
        ),
        (
            "limits: { max_budget_usd: -1.5 }",
            r#"2:11: "max_budget_usd" must be a number, at least 0"#,
        ),
        (
            "sessions: { path: a }",
            r#"2:13: a store of the type "memory" has no "path"; remove the key"#,
        ),
        ("tools: [a, a]", r#"2:12: the tool "a" is listed twice"#),
        (
            "subagents: [{ name: a, sync: false }]",
            r#"2:13: "sync" and "async" are both false; set one of them to true"#,
        ),
    ];
    for (yaml, expected) in cases {
        let yaml = format!("model: m\n{yaml}");
        assert_eq!(error(&yaml), format!("config:{expected}"), "{yaml}");
    }
}

#[test]
fn subagents_need_names_of_their_own() {
    let text = error("model: m\nsubagents:\n  - { name: a }\n  - { name: a }");
    assert!(
        text.starts_with("config:4:7: there is already a subagent \"a\""),
        "{text}"
    );
    let text = error("model: m\nsubagents: [{ name: a b }]");
    assert!(
        text.starts_with("config:2:15: \"a b\" is not a name"),
        "{text}"
    );
}

#[test]
fn rule_that_can_never_match_has_its_place() {
    let text = error("model: m\npermissions:\n  deny:\n    - Bash(git push:*)\n    - Bash()");
    assert!(text.starts_with("config:5:7: "), "{text}");
    assert!(text.contains("empty specifier"), "{text}");
}

#[cfg(feature = "docker")]
#[test]
fn container_needs_an_image_or_a_name() {
    let docker = |keys: &str| format!("model: m\nbackend: {{ type: docker{keys} }}");
    let text = error(&docker(""));
    assert!(
        text.starts_with("config:2:1: a backend of the type \"docker\" needs an \"image\""),
        "{text}"
    );
    let text = error(&docker(", container_name: a, network: none"));
    assert!(text.contains("which needs an \"image\""), "{text}");
    let text = error(&docker(", image: a, workdir: ./here"));
    assert!(text.contains("an absolute path in it"), "{text}");
    let text = error(&docker(", image: a, sandbox: workspace"));
    assert!(text.contains("has no \"sandbox\""), "{text}");
    let both = docker(", image: a, container_name: b, network: bridge");
    assert!(agentcore::config::Config::from_yaml(&both).is_ok());
}

#[cfg(feature = "web")]
#[test]
fn internet_search_needs_a_key() {
    let text = error("model: m\ntools: [internet_search]");
    assert!(
        text.starts_with("config:2:9: the tool \"internet_search\" needs a key"),
        "{text}"
    );
}

#[cfg(feature = "jsonl")]
#[test]
fn durable_store_needs_its_path() {
    let text = error("model: m\nsessions: { type: jsonl }");
    assert_eq!(
        text,
        "config:2:1: a store of the type \"jsonl\" needs the key \"path\""
    );
}

#[cfg(not(feature = "calc"))]
#[test]
fn tool_whose_feature_is_off_names_the_feature() {
    let text = error("model: m\ntools: [calculate]");
    let expected = "config:2:9: the tool \"calculate\" needs the cargo feature \"calc\" of \
                    agentcore, which is off in this program";
    assert_eq!(text, expected);
}

#[cfg(not(feature = "docker"))]
#[test]
fn backend_whose_feature_is_off_names_the_feature() {
    let text = error("model: m\nbackend: { type: docker, image: a }");
    assert!(
        text.contains("needs the cargo feature \"docker\""),
        "{text}"
    );
}

/// Skills and memory are files of a backend.
#[tokio::test]
async fn skills_and_memory_without_a_backend_have_no_hooks() {
    let agent = built("model: m\nskills: { paths: [a] }\nmemory: { paths: [b] }").await;
    let hooks: Vec<_> = agent
        .info()
        .hooks
        .into_iter()
        .map(|hook| hook.name)
        .collect();
    assert_eq!(hooks, ["tracing", "todolist", "summarization"]);
}
