//! Rules that a hook adds, and several gates at once.

use agentcore::backend::{Backend, MemoryBackend};
use agentcore::hooks::PermissionHook;
use agentcore::permission::{PermissionConfig, PermissionRules};
use agentcore::testing::ScriptedModel;
use agentcore::tool::{GateRequest, PermissionGate};
use agentcore::{
    AgentBuilder, ErrorKind, FuncTool, OnUnanswered, PermissionMode, RunContext, SdkMessage,
    ToolDecision, hook,
};
use serde_json::{Value, json};

use crate::kit::{Gate, Log, agent, any_object, logged, result_texts, watch};

fn config(json: &Value) -> PermissionConfig {
    PermissionConfig::from_json(&json.to_string()).unwrap()
}

fn shell(log: &Log) -> FuncTool {
    logged("Bash", log)
}

fn runs(command: &str) -> ScriptedModel {
    ScriptedModel::new()
        .call("Bash", json!({"command": command}))
        .say("done")
}

/// Returns the result of a command in an agent that `with` sets up.
async fn outcome(command: &str, with: impl FnOnce(AgentBuilder) -> AgentBuilder) -> String {
    let log = Log::default();
    let agent = with(agent(runs(command)).tool(shell(&log)))
        .build()
        .unwrap();
    let output = agent.run("Go").await.unwrap();
    let text = result_texts(&output.messages).remove(0);
    assert_eq!(log.len(), usize::from(text == "Bash ran"), "{text}");
    text
}

#[tokio::test]
async fn permission_hook_applies_its_rules_to_calls() {
    let rules = config(&json!({"allow": ["Bash(ls:*)"], "deny": ["Bash(rm:*)"]}));
    let hook = PermissionHook::new(rules).unwrap();
    for (command, wanted) in [
        ("ls -l", "Bash ran"),
        ("ls; rm x", "Error: denied by rule deny:Bash(rm:*)"),
        (
            "id",
            "Error: permission denied (the question cannot be answered)",
        ),
    ] {
        let hook = hook.clone();
        let text = outcome(command, |builder| builder.hook(hook)).await;
        assert!(text.starts_with(wanted), "{command}: {text}");
    }
}

#[tokio::test]
async fn permission_hook_and_gate_must_both_allow() {
    let hook = |rules: Value| PermissionHook::new(config(&rules)).unwrap();
    let gate = |allow: &str| PermissionRules::new().allow(allow).unwrap();
    for (rules, allow, command, runs) in [
        (json!({"allow": ["Bash(ls:*)"]}), "Bash(ls:*)", "ls", true),
        (json!({"allow": ["Bash(ls:*)"]}), "Bash(id)", "ls", false),
        (json!({"allow": ["Bash(id)"]}), "Bash(ls:*)", "ls", false),
        (json!({"deny": ["Bash(ls:*)"]}), "Bash", "ls", false),
        (json!({"allow": ["Bash"]}), "Bash", "rm x", true),
    ] {
        let text = outcome(command, |builder| {
            builder.hook(hook(rules.clone())).permissions(gate(allow))
        })
        .await;
        assert_eq!(text == "Bash ran", runs, "{rules} {allow}: {text}");
    }
}

#[tokio::test]
async fn mode_of_the_permission_config_becomes_the_run_mode() {
    let rules = config(&json!({"mode": "bypassPermissions", "deny": ["Bash(rm:*)"]}));
    let log = Log::default();
    let agent = agent(runs("id"))
        .tool(shell(&log))
        .hook(PermissionHook::new(rules).unwrap())
        .build()
        .unwrap();
    let (messages, _) = watch(agent.run("Go")).await;
    let init = serde_json::to_value(&messages[0]).unwrap();
    assert_eq!(init["permissionMode"], "bypassPermissions", "{init}");
    assert_eq!(log.len(), 1);
}

#[tokio::test]
async fn mode_set_on_the_handle_overrides_the_config() {
    let rules = config(&json!({"mode": "bypassPermissions"}));
    let model = ScriptedModel::new()
        .call("Bash", json!({"command": "id"}))
        .call("Bash", json!({"command": "id"}))
        .say("done");
    let log = Log::default();
    let agent = agent(model)
        .tool(shell(&log))
        .hook(PermissionHook::new(rules).unwrap())
        .build()
        .unwrap();
    let mut run = agent.run("Go");
    let handle = run.handle();
    while let Some(message) = run.next().await {
        if matches!(message, SdkMessage::User(_)) {
            handle.set_permission_mode(PermissionMode::DontAsk);
        }
    }

    let texts = result_texts(&run.into_output().unwrap().messages);
    assert_eq!(texts[0], "Bash ran");
    assert!(texts[1].contains("dontAsk mode"), "{}", texts[1]);
    assert_eq!(log.len(), 1);
}

#[tokio::test]
async fn relative_rules_are_resolved_at_the_backend_root() {
    let backend = MemoryBackend::new();
    backend.write("a", b"").await.unwrap();
    let rules = config(&json!({"allow": ["Read"], "deny": ["Read(/workspace/secrets/**)"]}));
    let read = FuncTool::new("Read", "Reads", any_object(), |_cx, _args| async { "read" });
    let model = ScriptedModel::new()
        .call("Read", json!({"file_path": "secrets/a"}))
        .call("Read", json!({"file_path": "a"}))
        .say("done");
    let agent = agent(model)
        .tool(read)
        .backend(backend)
        .hook(PermissionHook::new(rules).unwrap())
        .build()
        .unwrap();
    let output = agent.run("Go").await.unwrap();
    let texts = result_texts(&output.messages);
    assert!(
        texts[0].starts_with("Error: denied by rule"),
        "{}",
        texts[0]
    );
    assert_eq!(texts[1], "read");
}

#[test]
fn rule_that_never_matches_is_a_config_error_with_its_index() {
    let rules = config(&json!({"deny": ["Bash(rm:*)", "Bash()"]}));
    let error = PermissionHook::new(rules).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    let text = error.to_string();
    assert!(
        text.starts_with("configuration: deny[1]: permission rule \"Bash()\""),
        "{text}"
    );
}

/// A gate that adds 1 to `n` if it is below `most`.
fn counting(most: i64) -> impl PermissionGate {
    Gate(
        move |request: &GateRequest| match request.call.args["n"].as_i64() {
            Some(n) if n < most => ToolDecision::allow().with_args(json!({"n": n + 1})),
            _ => ToolDecision::allow(),
        },
    )
}

fn refusing(n: i64) -> impl PermissionGate {
    Gate(
        move |request: &GateRequest| match request.call.args["n"].as_i64() {
            Some(given) if given == n => ToolDecision::deny(format!("not {n}")),
            _ => ToolDecision::allow(),
        },
    )
}

/// Every gate checks the arguments with which the call runs.
#[tokio::test]
async fn arguments_changed_by_one_gate_are_checked_by_all_gates() {
    type Add = fn(&RunContext);
    let cases: [(Add, &str); 5] = [
        (|cx| cx.add_gate(counting(3)), "act{\"n\":2}"),
        (
            |cx| {
                cx.add_gate(refusing(2));
                cx.add_gate(counting(2));
            },
            "Error: not 2",
        ),
        (
            |cx| {
                cx.add_gate(counting(2));
                cx.add_gate(counting(3));
            },
            "act{\"n\":3}",
        ),
        (
            |cx| {
                cx.add_gate(Gate(|request: &GateRequest| {
                    match request.call.args["n"].as_i64() {
                        Some(2) => ToolDecision::ask("two?"),
                        _ => ToolDecision::allow(),
                    }
                }));

                cx.add_gate(counting(2));
            },
            "Error: permission denied (the question cannot be answered): two?",
        ),
        (
            |cx| {
                cx.add_gate(counting(i64::MAX));
                cx.add_gate(counting(i64::MAX));
            },
            "Error: the permission check failed: the gates changed the arguments",
        ),
    ];
    for (add, wanted) in cases {
        let log = Log::default();
        let adds = hook::before_agent("gates", move |cx, state| async move {
            add(&cx);
            Ok(state)
        });

        let model = ScriptedModel::new()
            .call("act", json!({"n": 1}))
            .say("done");
        let agent = agent(model)
            .tool(logged("act", &log))
            .hook(adds)
            .build()
            .unwrap();
        let output = agent.run("Go").await.unwrap();
        let text = result_texts(&output.messages).remove(0);
        let ran = log.take().join(" ");
        assert!(
            ran == wanted || text.starts_with(wanted),
            "{wanted}: {ran} {text}"
        );
    }
}

/// A gate belongs to its run: the next run begins without it.
#[tokio::test]
async fn gates_added_to_a_run_end_with_it() {
    let log = Log::default();
    let first = std::sync::atomic::AtomicBool::new(true);
    let adds = hook::before_agent("gate", move |cx: RunContext, state| {
        if first.swap(false, std::sync::atomic::Ordering::Relaxed) {
            cx.add_gate(Gate(|_: &GateRequest| ToolDecision::deny("no")));
        }

        async { Ok(state) }
    });

    let model = ScriptedModel::new()
        .call("act", json!({}))
        .say("denied")
        .call("act", json!({}))
        .say("done");
    let agent = agent(model)
        .tool(logged("act", &log))
        .hook(adds)
        .build()
        .unwrap();
    agent.run("Go").await.unwrap();
    assert_eq!(log.len(), 0);
    agent.run("Go").await.unwrap();
    assert_eq!(log.len(), 1);
}

/// A tool without declared accesses may do anything with the file or address that an argument
/// names. A command can only be run.
#[tokio::test]
async fn question_about_a_guessed_access_names_no_action() {
    for (argument, value, expected) in [
        (
            "path",
            "a.txt",
            "delete wants to use a.txt: no rule allows delete",
        ),
        (
            "url",
            "https://example.com",
            "delete wants to use https://example.com: no rule allows delete",
        ),
        ("command", "id", "delete wants to run `id`: "),
    ] {
        let log = Log::default();
        let model = ScriptedModel::new().call("delete", json!({argument: value}));
        let agent = agent(model)
            .tool(logged("delete", &log))
            .permissions(PermissionRules::new().allow("other").unwrap())
            .unanswered(OnUnanswered::Park)
            .build()
            .unwrap();
        agent.session("s").run("Go").await.unwrap();
        let pending = agent.session("s").state().await.unwrap().unwrap().pending;
        let question = &pending[0].question;
        assert!(question.starts_with(expected), "{question}");
    }
}
