//! Permissions of a child run, which are at most those of its parent run.

use agentcore::hooks::PermissionHook;
use agentcore::permission::PermissionRules;
use agentcore::testing::ScriptedModel;
use agentcore::tool::{GateRequest, PermissionMode, SideEffect, ToolRegistry};
use agentcore::{
    Agent, AgentBuilder, Answer, BoxError, FuncTool, Hook, SdkMessage, ToolDecision, hook,
};
use serde_json::{Value, json};

use crate::kit::{Gate, Log, agent, any_object, asking, logged, result_texts, watch};

/// A tool that runs `child`, and declares that it only reads.
fn delegate(child: Agent) -> FuncTool {
    let run = move |cx: agentcore::ToolContext, _args: Value| {
        let session = child.session(format!("child_{}", cx.call_id()));
        async move {
            let output = session.run_as_child(&cx, "Help").await?;
            Ok::<_, BoxError>(result_texts(&output.messages).join("; "))
        }
    };
    FuncTool::new("delegate", "Delegates", any_object(), run).side_effect(SideEffect::ReadOnly)
}

/// An agent that calls `act` and logs the call.
fn acting(log: &Log) -> AgentBuilder {
    let model = ScriptedModel::new().call("act", json!({})).say("acted");
    agent(model).tool(logged("act", log))
}

/// An agent that delegates once.
fn delegating(child: AgentBuilder) -> AgentBuilder {
    let model = ScriptedModel::new().call("delegate", json!({})).say("done");
    agent(model).tool(delegate(child.build().unwrap()))
}

/// Runs an agent that delegates, and returns the results of the child's calls.
async fn child_results(parent: AgentBuilder) -> String {
    let output = parent.build().unwrap().run("Go").await.unwrap();
    result_texts(&output.messages).join("; ")
}

fn denying(name: &'static str) -> Gate<impl Fn(&GateRequest) -> ToolDecision> {
    Gate(move |request: &GateRequest| {
        if &*request.call.name == name {
            ToolDecision::deny("not here")
        } else {
            ToolDecision::allow()
        }
    })
}

#[tokio::test]
async fn parent_denial_applies_to_children_and_grandchildren() {
    let log = Log::default();
    let bypassing = || acting(&log).permission_mode(PermissionMode::BypassPermissions);
    let results = child_results(delegating(bypassing()).permissions(denying("act"))).await;
    assert_eq!(results, "Error: not here");
    let two = delegating(delegating(bypassing())).permissions(denying("act"));
    assert_eq!(child_results(two).await, "Error: not here");
    let rules = PermissionRules::new()
        .deny("act")
        .unwrap()
        .later_tools(["act"]);
    let hooked = delegating(bypassing())
        .permission_mode(PermissionMode::BypassPermissions)
        .hook(PermissionHook::with(rules));
    assert!(child_results(hooked).await.starts_with("Error: "));
    assert_eq!(log.len(), 0);
}

#[tokio::test]
async fn parent_allow_rule_does_not_override_a_child_denial() {
    let log = Log::default();
    let child = acting(&log).permissions(denying("act"));
    let parent = delegating(child).permissions(PermissionRules::new().allow("*").unwrap());
    assert_eq!(child_results(parent).await, "Error: not here");
    assert_eq!(log.len(), 0);
}

#[tokio::test]
async fn parent_mode_applies_in_the_child() {
    let log = Log::default();
    for (mode, words) in [
        (PermissionMode::Plan, "plan mode"),
        (PermissionMode::DontAsk, "dontAsk mode"),
        (PermissionMode::Default, "the question cannot be answered"),
    ] {
        let child = acting(&log).permission_mode(PermissionMode::BypassPermissions);
        let parent = delegating(child)
            .permission_mode(mode)
            .permissions(PermissionRules::new().allow("delegate").unwrap());
        let results = child_results(parent).await;
        assert!(results.contains(words), "{mode}: {results}");
    }

    assert_eq!(log.len(), 0);
}

#[tokio::test]
async fn parent_mode_set_while_the_child_runs_applies_to_its_next_call() {
    let log = Log::default();
    let model = ScriptedModel::new()
        .call("act", json!({"n": 1}))
        .call("act", json!({"n": 2}))
        .say("acted");
    let child = agent(model).tool(logged("act", &log));
    let mut run = delegating(child).build().unwrap().run("Go");
    let handle = run.handle();
    while let Some(message) = run.next().await {
        if matches!(&message, SdkMessage::User(_)) && message.parent_tool_use_id().is_some() {
            handle.set_permission_mode(PermissionMode::Plan);
        }
    }

    let results = result_texts(&run.into_output().unwrap().messages).join("; ");
    assert!(results.starts_with("act ran; Error: "), "{results}");
    assert_eq!(log.len(), 1);
}

#[tokio::test]
async fn question_of_the_parent_gate_is_asked_once() {
    let log = Log::default();
    let ask_for_act = || {
        Gate(|request: &GateRequest| match &*request.call.name {
            "act" => ToolDecision::ask("May the child act?"),
            _ => ToolDecision::allow(),
        })
    };

    for (own, answer, ran) in [
        (false, Answer::Allow, 1),
        (true, Answer::Allow, 1),
        (true, Answer::Deny("no".into()), 0),
    ] {
        let child = if own {
            acting(&log).permissions(asking())
        } else {
            acting(&log)
        };
        let agent = delegating(child).permissions(ask_for_act());
        let mut run = agent.build().unwrap().run("Go");
        let responder = run.responder();
        let mut asked = 0;
        while let Some(message) = run.next().await {
            if let SdkMessage::PermissionRequest(request) = &message {
                asked += 1;
                responder.respond(&request.id, answer.clone());
            }
        }
        run.into_output().unwrap();
        assert_eq!(asked, 1);
        assert_eq!(log.take().len(), ran);
    }
}

#[tokio::test]
async fn child_allowances_do_not_answer_a_parent_question() {
    let log = Log::default();
    let allow = hook::pre_tool_use("allow", |_, _| async {
        Ok(agentcore::ToolDecision::allow())
    });

    let registry = || {
        let mut registry = ToolRegistry::new();
        registry.register(logged("act", &log)).unwrap();
        registry.allow("act");
        registry
    };

    let parent =
        |child| delegating(child).permissions(PermissionRules::new().allow("delegate").unwrap());
    let results = child_results(parent(acting(&log).hook(allow))).await;
    assert!(results.starts_with("Error: "), "{results}");
    let model = ScriptedModel::new().call("act", json!({})).say("acted");
    let results = child_results(parent(agent(model).registry(&registry()))).await;
    assert!(results.starts_with("Error: "), "{results}");
    assert_eq!(log.len(), 0);

    // A call that the parent's own registry allows asks no question in the child either.
    let results = child_results(parent(acting(&log)).registry(&registry())).await;
    assert_eq!(results, "act ran");
}

#[tokio::test]
async fn session_grant_in_a_child_covers_later_calls_of_the_child() {
    let log = Log::default();
    let child = || {
        let model = ScriptedModel::new()
            .call("act", json!({}))
            .call("act", json!({}))
            .say("acted");
        agent(model).tool(logged("act", &log))
    };

    let parent = delegating(child()).permissions(PermissionRules::new().allow("delegate").unwrap());
    let mut run = parent.build().unwrap().run("Go");
    let responder = run.responder();
    let mut asked = 0;
    while let Some(message) = run.next().await {
        if let SdkMessage::PermissionRequest(request) = &message {
            asked += 1;
            responder.respond(&request.id, Answer::AllowForSession);
        }
    }

    run.into_output().unwrap();
    assert_eq!((asked, log.len()), (1, 2));
}

#[tokio::test]
async fn panicking_parent_gate_denies_the_child_call() {
    let log = Log::default();
    let failing = Gate(|request: &GateRequest| {
        assert!(&*request.call.name != "act", "no gate");
        ToolDecision::allow()
    });
    let parent = delegating(acting(&log)).permissions(failing);
    let (messages, output) = watch(parent.build().unwrap().run("Go")).await;
    let results = result_texts(&output.unwrap().messages).join("; ");
    assert!(results.contains("no gate"), "{results}");
    assert!(messages.last().unwrap().is_result());
    assert_eq!(log.len(), 0);
}

/// A hook that declares these paths as memory.
struct Memory(&'static [&'static str]);

impl Hook for Memory {
    fn name(&self) -> &str {
        "memory"
    }

    fn memory_paths(&self) -> Vec<String> {
        self.0.iter().map(|path| (*path).to_owned()).collect()
    }
}

#[tokio::test]
async fn parent_gate_exempts_only_memory_that_the_parent_has() {
    let gate = Gate(|request: &GateRequest| match &*request.call.name {
        "act" => ToolDecision::deny(format!("{:?}", request.memory_paths)),
        _ => ToolDecision::allow(),
    });
    let log = Log::default();
    let child = acting(&log).hook(Memory(&["/a", "/b"]));
    let parent = delegating(child).hook(Memory(&["/b", "/c"]));
    assert_eq!(
        child_results(parent.permissions(gate)).await,
        "Error: [\"/b\"]"
    );
}
