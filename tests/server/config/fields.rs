//! Each key and its effect.

use agentcore::config::{BackendType, Config, HookChoice, SandboxCfg, SessionsType};
use agentcore::hooks::TracingHook;
use agentcore::testing::ScriptedModel;
use agentcore::trace::MemoryRecorder;
use agentcore::{ExitReason, FuncTool, PermissionMode, Usage};
use serde_json::json;

use super::{build_error, built, parts};
use crate::kit::{any_object, result_texts};

const FULL: &str = r##"
name: code-assistant
description: Writes code
model: { provider: ollama, model: "llama3.1:8b" }
system_prompt: You are a coding assistant.
context_window: 64000
tools: [request_user_input]
backend: { type: local, workdir: ./work, timeout: 5, max_output_bytes: 2000, sandbox: off }
skills: { paths: [./skills] }
memory: { paths: [./AGENTS.md], initial_content: "# Notes" }
hooks: { todolist: off }
permissions: { allow: [ls], ask: [write_file], deny: [execute], mode: plan }
limits:
  max_turns: 5
  max_tokens: 100
  temperature: 0.5
  max_budget_usd: 1.5
  max_total_tokens: 9000
  max_duration: 600
  tool_timeout: 60
  parallel_tools: 4
sessions: { type: memory }
subagents:
  - { name: reviewer, description: Reviews, system_prompt: Be strict., tools: [ls], sync: true, async: true }
debug: true
"##;

#[test]
fn every_key_is_read() {
    let config = Config::from_yaml(FULL).unwrap();
    let agent = config.agent("default").unwrap();
    assert_eq!(agent.name.as_deref(), Some("code-assistant"));
    assert_eq!(agent.description.as_deref(), Some("Writes code"));
    assert_eq!(agent.model, "ollama:llama3.1:8b");
    assert_eq!(agent.system_prompt, "You are a coding assistant.");
    assert_eq!(agent.context_window, Some(64_000));
    assert_eq!(agent.tools, ["request_user_input"]);
    let backend = agent.backend.as_ref().unwrap();
    assert_eq!(
        (backend.kind, backend.sandbox),
        (BackendType::Local, SandboxCfg::Off)
    );
    assert_eq!(
        (backend.timeout, backend.max_output_bytes),
        (Some(5), Some(2_000))
    );
    assert_eq!(backend.workdir.as_deref(), Some("./work"));
    assert_eq!(agent.skills.paths, ["./skills"]);
    assert_eq!(agent.memory.paths, ["./AGENTS.md"]);
    assert_eq!(agent.memory.initial_content.as_deref(), Some("# Notes"));
    assert_eq!(agent.hooks, HookChoice::without(["todolist"]));
    let rules = agent.permissions.as_ref().unwrap();
    assert_eq!(
        (&*rules.allow[0], &*rules.ask[0], &*rules.deny[0]),
        ("ls", "write_file", "execute")
    );
    assert_eq!(rules.mode, Some(PermissionMode::Plan));
    let limits = &agent.limits;
    assert_eq!((limits.max_turns, limits.max_tokens), (5, Some(100)));
    assert_eq!(
        (limits.temperature, limits.max_budget_usd),
        (Some(0.5), Some(1.5))
    );
    assert_eq!(
        (limits.max_total_tokens, limits.max_duration),
        (Some(9_000), Some(600))
    );
    assert_eq!(
        (limits.tool_timeout, limits.parallel_tools),
        (Some(60), Some(4))
    );
    assert_eq!(agent.sessions.as_ref().unwrap().kind, SessionsType::Memory);
    let subagent = &agent.subagents[0];
    assert_eq!(
        (&*subagent.name, &*subagent.description),
        ("reviewer", "Reviews")
    );
    assert_eq!(
        (&*subagent.system_prompt, &*subagent.tools[0]),
        ("Be strict.", "ls")
    );
    assert!(subagent.sync && subagent.background && subagent.model.is_none());
    assert!(agent.debug);
}

#[test]
fn schema_has_exactly_the_keys_that_are_read() {
    let schema = Config::schema();
    let keys = |definition: &str| {
        let properties = &schema["$defs"][definition]["properties"];
        let properties = properties.as_object().unwrap().keys();
        properties.cloned().collect::<Vec<_>>()
    };
    for (definition, prefix) in [
        ("AgentConfig", ""),
        ("BackendCfg", "backend"),
        ("SkillsCfg", "skills"),
        ("MemoryCfg", "memory"),
        ("LimitsCfg", "limits"),
        ("SessionsCfg", "sessions"),
        ("BuiltinConfig", "builtin_config"),
    ] {
        let keys = keys(definition);
        assert!(!keys.is_empty());
        for key in keys {
            // A key without a value has its default.
            let yaml = match prefix {
                "" => format!("{key}:"),
                prefix => format!("model: m\n{prefix}: {{ {key}: }}"),
            };
            let text = Config::from_yaml(&yaml)
                .err()
                .map(|error| error.to_string());
            let text = text.unwrap_or_default();
            assert!(!text.contains("unknown key"), "{definition}.{key}: {text}");
        }
        let closed = &schema["$defs"][definition]["additionalProperties"];
        assert_eq!(*closed, false, "{definition}");
    }
}

#[test]
fn file_that_is_read_matches_its_schema() {
    let schema = Config::schema();
    let agent = json!({"$ref": "#/$defs/AgentConfig", "$defs": schema["$defs"]});
    let value: serde_json::Value = serde_saphyr_value();
    let arguments = agentcore::tool::check_arguments(&agent, &value);
    assert!(arguments.is_ok(), "{arguments:?}");
    let wrong = json!({"model": "m", "tols": []});
    assert!(agentcore::tool::check_arguments(&agent, &wrong).is_err());
}

/// The keys of [`FULL`] as JSON.
fn serde_saphyr_value() -> serde_json::Value {
    json!({
        "name": "code-assistant", "model": {"provider": "ollama", "model": "llama3.1:8b"},
        "tools": ["request_user_input"], "context_window": 64000,
        "backend": {"type": "local", "workdir": "./work", "sandbox": "off"},
        "hooks": {"todolist": "off"}, "permissions": {"deny": ["execute"], "mode": "plan"},
        "limits": {"max_turns": 5, "temperature": 0.5},
        "subagents": [{"name": "reviewer", "async": true}], "debug": true
    })
}

#[test]
fn defaults_apply_where_an_agent_lacks_the_key() {
    let config = Config::from_yaml(
        "defaults: { debug: true, hooks: { todolist: off }, limits: { max_turns: 3 } }\n\
         agents:\n  a: { model: m }\n  b: { model: m, debug: false, limits: {}, middleware: {} }",
    )
    .unwrap();
    let (a, b) = (config.agent("a").unwrap(), config.agent("b").unwrap());
    assert!(a.debug && !b.debug);
    assert_eq!((a.limits.max_turns, b.limits.max_turns), (3, 25));
    assert!(!a.hooks.has("todolist") && b.hooks.has("todolist"));
    assert_eq!(
        (a.name.as_deref(), b.name.as_deref()),
        (Some("a"), Some("b"))
    );
}

#[test]
fn bare_name_of_a_model_stays() {
    let config = Config::from_yaml("model: claude-sonnet-5").unwrap();
    assert_eq!(config.agent("default").unwrap().model, "claude-sonnet-5");
}

#[tokio::test]
async fn name_prompt_and_turns_are_those_of_the_agent() {
    let yaml = "name: helper\nmodel: m\nsystem_prompt: Be brief.\nlimits: { max_turns: 1 }";
    let model = ScriptedModel::new().call("write_todos", json!({"todos": []}));
    let config = Config::from_yaml(yaml).unwrap();
    let parts = parts(model.clone());
    let agent = config.agent("default").unwrap().builder(&parts);
    let agent = agent.await.unwrap().build().unwrap();
    assert_eq!((agent.name(), agent.info().max_turns), ("helper", 1));
    let output = agent.run("Hi").await.unwrap();
    assert_eq!(output.end, ExitReason::MaxTurns);
    assert!(
        model.requests()[0]
            .system
            .to_string()
            .starts_with("Be brief.")
    );
}

#[tokio::test]
async fn limits_are_those_of_requests_and_runs() {
    let yaml = "model: m\nlimits: { max_tokens: 77, temperature: 0.25, max_total_tokens: 5000 }";
    let model = ScriptedModel::new()
        .call("write_todos", json!({"todos": []}))
        .with_usage(Usage::new(6_000, 5));
    let config = Config::from_yaml(yaml).unwrap();
    let parts = parts(model.clone());
    let agent = config.agent("default").unwrap().builder(&parts);
    let output = agent
        .await
        .unwrap()
        .build()
        .unwrap()
        .run("Hi")
        .await
        .unwrap();
    assert_eq!(output.end, ExitReason::MaxBudget);
    let request = &model.requests()[0];
    assert_eq!(
        (request.max_output_tokens, request.temperature),
        (Some(77), Some(0.25))
    );
}

#[tokio::test]
async fn budget_in_usd_needs_a_price() {
    let config = Config::from_yaml("model: m\nlimits: { max_budget_usd: 1 }").unwrap();
    let agent = config.agent("default").unwrap();
    let builder = agent.builder(&parts(ScriptedModel::new())).await.unwrap();
    assert!(
        builder.build().is_err(),
        "the price of the scripted model is not known"
    );
}

#[tokio::test]
async fn tools_are_those_of_the_configuration_and_of_the_program() {
    let lookup = FuncTool::new("lookup_order", "Looks up", any_object(), |_, _| async {
        "7"
    });
    let config = Config::from_yaml("model: m\ntools: [lookup_order, request_user_input]").unwrap();
    let agent = config.agent("default").unwrap();
    let parts = parts(ScriptedModel::new()).tool(lookup);
    let built = agent.builder(&parts).await.unwrap().build().unwrap();
    assert_eq!(built.info().tools, ["lookup_order", "request_user_input"]);

    let error = build_error("model: m\ntools: [lookup_order]").await;
    let text = error.to_string();
    assert!(
        text.starts_with("config:2:9: unknown tool \"lookup_order\""),
        "{text}"
    );
}

#[tokio::test]
async fn tool_of_the_program_reaches_agents_whose_list_does_not_name_it() {
    for keys in ["", "tools: []", "tools: [lookup_order]"] {
        let config = Config::from_yaml(&format!("model: m\n{keys}")).unwrap();
        let named = |name| FuncTool::new(name, "", any_object(), |_, _| async { "" });
        let parts = parts(ScriptedModel::new())
            .tool(named("lookup_order"))
            .tool(named("deploy"));
        let agent = config.agent("default").unwrap();
        let agent = agent.builder(&parts).await.unwrap().build().unwrap();
        let mut tools = agent.info().tools;
        tools.sort();
        assert_eq!(tools, ["deploy", "lookup_order"], "{keys}");
    }
}

#[cfg(all(feature = "calc", feature = "time"))]
#[tokio::test]
async fn tools_of_the_crate_are_built_in() {
    let agent = built("model: m\ntools: [calculate, current_datetime]").await;
    assert_eq!(agent.info().tools, ["calculate", "current_datetime"]);
}

#[cfg(feature = "web")]
#[tokio::test]
async fn internet_search_is_built_in_with_a_key() {
    let yaml = "model: m\ntools: [internet_search, web_fetch]\n\
                builtin_config: { tavily_api_key: '${CARGO_PKG_NAME}' }";
    let tools = built(yaml).await.info().tools;
    assert_eq!(tools, ["internet_search", "web_fetch"]);
}

#[tokio::test]
async fn subagents_have_the_tools_that_they_can_be_started_with() {
    let tools = async |keys: &str| {
        let yaml = format!("model: m\nsubagents: [{{ name: scout, {keys} }}]");
        built(&yaml).await.info().tools
    };
    assert_eq!(tools("description: d").await, ["delegate_to_agent"]);
    assert_eq!(tools("sync: true").await, ["delegate_to_agent"]);
    let background = tools("sync: false, async: true").await;
    assert!(
        background.contains(&"start_async_task".to_owned()),
        "{background:?}"
    );
    assert!(
        !background.contains(&"delegate_to_agent".to_owned()),
        "{background:?}"
    );
    assert_eq!(tools("async: true").await.len(), background.len() + 1);
}

#[tokio::test]
async fn subagents_are_started_only_in_the_ways_that_their_own_keys_allow() {
    let yaml = "model: m\nsubagents: [{ name: fast }, { name: batch, sync: false, async: true }]";
    let model = ScriptedModel::new()
        .calls([
            ("delegate_to_agent", json!({"agent": "batch", "task": "Go"})),
            ("start_async_task", json!({"agent": "fast", "task": "Go"})),
        ])
        .say("Done.");
    let config = Config::from_yaml(yaml).unwrap();
    let agent = config.agent("default").unwrap();
    let builder = agent.builder(&parts(model.clone())).await.unwrap();
    let output = builder.build().unwrap().run("Go").await.unwrap();

    let requests = model.requests();
    let names_of = |name: &str| {
        let tool = requests[0].tools.iter().find(|tool| &*tool.name == name);
        let description = &tool.unwrap().description;
        ["fast", "batch"].map(|agent| description.contains(&format!("\n- {agent}: ")))
    };
    assert_eq!(names_of("delegate_to_agent"), [true, false]);
    assert_eq!(names_of("start_async_task"), [false, true]);
    assert_eq!(
        result_texts(&output.messages),
        [
            "Error: unknown sub-agent \"batch\"",
            "Error: unknown sub-agent \"fast\""
        ]
    );
}

#[tokio::test]
async fn subagent_runs_with_its_own_model_and_prompt() {
    let yaml =
        "model: lead\nsubagents: [{ name: scout, system_prompt: Look around., model: small }]";
    let lead = ScriptedModel::new()
        .call(
            "delegate_to_agent",
            json!({"agent": "scout", "task": "Look"}),
        )
        .say("Done.");
    let small = ScriptedModel::new().say("All quiet.");
    let (a, b) = (lead.clone(), small.clone());
    let parts = agentcore::config::Parts::new().models(move |name| {
        Ok(if name == "small" {
            b.clone()
        } else {
            a.clone()
        })
    });
    let config = Config::from_yaml(yaml).unwrap();
    let agent = config
        .agent("default")
        .unwrap()
        .builder(&parts)
        .await
        .unwrap();
    assert_eq!(
        agent.build().unwrap().run("Go").await.unwrap().text,
        "Done."
    );
    assert!(
        small.requests()[0]
            .system
            .to_string()
            .starts_with("Look around.")
    );
}

#[tokio::test]
async fn debug_adds_a_span_for_the_run() {
    for (debug, expected) in [
        (false, vec!["llm.call"]),
        (true, vec!["agent.run", "llm.call"]),
    ] {
        let recorder = MemoryRecorder::new();
        let agent = built(&format!("model: m\ndebug: {debug}")).await;
        let session = agent.session("th_1").trace_recorder(recorder.clone());
        session.run("Hi").await.unwrap();
        let names: Vec<_> = recorder.spans().into_iter().map(|span| span.name).collect();
        assert_eq!(names, expected);
    }
    let _ = TracingHook::new();
}

#[tokio::test]
async fn permissions_hold_for_calls() {
    let yaml = "model: m\npermissions: { deny: [write_todos] }";
    let model = ScriptedModel::new()
        .call("write_todos", json!({"todos": []}))
        .say("no");
    let config = Config::from_yaml(yaml).unwrap();
    let agent = config
        .agent("default")
        .unwrap()
        .builder(&parts(model))
        .await
        .unwrap();
    let output = agent.build().unwrap().run("Hi").await.unwrap();
    let result = output
        .messages
        .iter()
        .find_map(|message| message.as_tool_result())
        .unwrap();
    assert!(result.is_error, "{}", result.content.text());
}

#[cfg(feature = "jsonl")]
#[tokio::test]
async fn sessions_are_kept_in_the_store_of_the_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agents.yaml");
    std::fs::write(&path, "model: m\nsessions: { type: jsonl, path: ./kept }").unwrap();
    let config = Config::load(&path).unwrap();
    let agent = super::build(config.agent("default").unwrap()).await;
    agent.session("th_1").run("Hi").await.unwrap();
    assert!(folder.path().join("kept").is_dir());

    let again = super::build(config.agent("default").unwrap()).await;
    let state = again.session("th_1").state().await.unwrap();
    assert_eq!(state.unwrap().messages.len(), 2);
}

#[test]
fn agent_without_keys_has_the_defaults() {
    let yaml = "defaults: { model: m, debug: true }\nagents:\n  default:\n  empty: {}\n  \
                brief: { system_prompt: Be brief. }";
    let config = Config::from_yaml(yaml).unwrap();
    for (id, agent) in config.agents() {
        assert_eq!((&*agent.model, agent.debug), ("m", true), "{id}");
    }
    assert_eq!(config.agents().count(), 3);
}
