//! The hooks of a configured agent.

use agentcore::config::{AgentConfig, BackendCfg, HookChoice, MemoryCfg};
use agentcore::permission::PermissionConfig;

use super::{build, build_error, built};

async fn hooks(yaml: &str) -> Vec<String> {
    let agent = built(&format!("model: m\n{yaml}")).await;
    agent
        .info()
        .hooks
        .into_iter()
        .map(|hook| hook.name)
        .collect()
}

const ALL: &str = "backend: { type: state }\nskills: { paths: [/workspace/skills] }\n\
                   memory: { paths: [/workspace/AGENTS.md] }\npermissions: { mode: plan }\n";

#[tokio::test]
async fn agent_with_a_model_alone_has_the_three_hooks_of_every_agent() {
    assert_eq!(hooks("").await, ["tracing", "todolist", "summarization"]);
}

#[tokio::test]
async fn each_key_adds_its_hook_in_its_place() {
    let all = [
        "tracing",
        "todolist",
        "filesystem",
        "skills",
        "memory",
        "summarization",
        "permissions",
    ];
    assert_eq!(hooks(ALL).await, all);
    for (yaml, hook) in [
        ("backend: { type: state }", "filesystem"),
        (
            "backend: { type: state }\nskills: { paths: [/workspace/s] }",
            "skills",
        ),
        (
            "backend: { type: state }\nmemory: { paths: [/workspace/m] }",
            "memory",
        ),
        ("permissions: { deny: [write_todos] }", "permissions"),
    ] {
        assert!(hooks(yaml).await.iter().any(|name| name == hook), "{yaml}");
    }
}

#[tokio::test]
async fn hooks_that_are_off_are_left_out() {
    let yaml = format!("{ALL}hooks: {{ todolist: off, tracing: false, memory: on }}");
    let expected = [
        "filesystem",
        "skills",
        "memory",
        "summarization",
        "permissions",
    ];
    assert_eq!(hooks(&yaml).await, expected);
    let yaml = format!("{ALL}middleware: {{ skills: off }}");
    assert!(!hooks(&yaml).await.contains(&"skills".to_owned()));
}

#[tokio::test]
async fn tool_of_a_hook_that_is_off_may_be_named() {
    for (keys, hook) in [
        ("tools: [write_todos]\n", "todolist"),
        (
            "tools: [read_file]\nbackend: { type: state }\n",
            "filesystem",
        ),
    ] {
        assert!(hooks(keys).await.contains(&hook.to_owned()), "{keys}");
        let keys = format!("{keys}hooks: {{ {hook}: off }}");
        assert!(!hooks(&keys).await.contains(&hook.to_owned()), "{keys}");
    }
    let error = build_error("model: m\ntools: [read_file]").await;
    assert!(error.to_string().contains("read_file"), "{error}");
}

#[tokio::test]
async fn list_of_hooks_keeps_these_and_the_permissions() {
    let yaml = format!("{ALL}hooks: [filesystem, tracing]");
    assert_eq!(hooks(&yaml).await, ["tracing", "filesystem", "permissions"]);
    let yaml = format!("{ALL}middleware: []");
    assert_eq!(hooks(&yaml).await, ["permissions"]);
}

#[tokio::test]
async fn configuration_in_code_has_the_same_hooks() {
    let mut rules = PermissionConfig::default();
    rules.deny.push("execute".to_owned());
    let config = AgentConfig::new("m")
        .with_backend(BackendCfg::state())
        .with_skills(["/workspace/skills"])
        .with_memory(MemoryCfg::new(["/workspace/AGENTS.md"]))
        .with_permissions(rules)
        .with_hooks(HookChoice::without(["todolist"]));
    let agent = build(&config).await;
    let names: Vec<_> = agent
        .info()
        .hooks
        .into_iter()
        .map(|hook| hook.name)
        .collect();
    let expected = [
        "tracing",
        "filesystem",
        "skills",
        "memory",
        "summarization",
        "permissions",
    ];
    assert_eq!(names, expected);
}
