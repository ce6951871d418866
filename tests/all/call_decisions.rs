//! Decisions about a call: modes set meanwhile, stops, grants, contexts and errors of hooks.

use agentcore::testing::{ScriptedModel, Step};
use agentcore::{
    Answer, Error, ExitReason, FnHook, FuncTool, PermissionMode, PermissionRequest, SdkMessage,
    ToolCall, ToolDecision, Unanswered, hook,
};
use serde_json::json;

use crate::kit::{Log, agent, asking, echo, logged, texts};

fn pre(name: &'static str, decision: ToolDecision) -> FnHook {
    hook::pre_tool_use(name, move |_, _| {
        let decision = decision.clone();
        async move { Ok(decision) }
    })
}

#[tokio::test]
async fn plan_mode_set_while_an_answer_streams_holds_for_its_calls() {
    let log = Log::default();
    let model = ScriptedModel::new()
        .step(Step::text("Let me act").and_call("act", json!({})))
        .say("Planned.");
    let agent = agent(model)
        .tool(logged("act", &log))
        .include_partial_messages(true)
        .build()
        .unwrap();
    let mut run = agent.run("Go");
    let handle = run.handle();
    while let Some(message) = run.next().await {
        if message.text_delta().is_some() {
            handle.set_permission_mode(PermissionMode::Plan);
        }
    }
    let results = texts(&run.into_output().unwrap().messages);
    assert!(results[0].contains("plan mode"), "{results:?}");
    assert_eq!(log.len(), 0);
}

#[tokio::test]
async fn hooks_see_a_mode_that_was_set_before_their_call() {
    let modes = Log::default();
    let seen = modes.clone();
    let see = hook::pre_tool_use("see", move |cx, _| {
        seen.add(cx.permission_mode().as_str());
        async { Ok(ToolDecision::proceed()) }
    });
    let model = ScriptedModel::new()
        .call("echo", json!({"text": "x"}))
        .say("done");
    let agent = agent(model).tool(echo()).hook(see).build().unwrap();
    let mut run = agent.run("Go");
    let handle = run.handle();
    while let Some(message) = run.next().await {
        if matches!(message, SdkMessage::Assistant(_)) {
            handle.set_permission_mode(PermissionMode::AcceptEdits);
        }
    }
    assert_eq!(modes.take(), ["acceptEdits"]);
}

#[tokio::test]
async fn plan_mode_set_while_a_question_is_open_holds_for_its_call() {
    let log = Log::default();
    let model = ScriptedModel::new().call("act", json!({})).say("Planned.");
    let agent = agent(model)
        .tool(logged("act", &log))
        .permissions(asking())
        .build()
        .unwrap();
    let mut run = agent.run("Go");
    let (handle, responder) = (run.handle(), run.responder());
    while let Some(message) = run.next().await {
        if let SdkMessage::PermissionRequest(request) = &message {
            handle.set_permission_mode(PermissionMode::Plan);
            responder.respond(&request.id, Answer::Allow);
        }
    }
    let results = texts(&run.into_output().unwrap().messages);
    assert!(results[0].contains("plan mode"), "{results:?}");
    assert_eq!(log.len(), 0);
}

#[tokio::test]
async fn stop_of_a_hook_holds_when_the_schema_or_the_mode_would_refuse_the_call() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    for (mode, args) in [
        (PermissionMode::Default, json!({"n": "x"})),
        (PermissionMode::Plan, json!({"n": 1})),
    ] {
        let act = FuncTool::new("act", "Acts", schema.clone(), |_cx, _args| async {
            "acted"
        });
        let model = ScriptedModel::new().call("act", args).say("went on");
        model.allow_unused();
        let agent = agent(model)
            .tool(act)
            .hook(pre("stop", ToolDecision::stop("enough")))
            .permission_mode(mode)
            .build()
            .unwrap();
        let output = agent.run("Go").await.unwrap();
        assert_eq!(output.end, ExitReason::HookStopped, "{mode}");
        assert_eq!(texts(&output.messages), ["Error: enough"]);
    }
}

#[tokio::test]
async fn stop_of_a_hook_holds_when_a_later_hook_fails() {
    let fails = hook::pre_tool_use("fails", |_, _| async { Err("broken".into()) });
    let model = ScriptedModel::new()
        .call("echo", json!({"text": "x"}))
        .say("went on");
    model.allow_unused();
    let agent = agent(model)
        .tool(echo())
        .hook(pre("stop", ToolDecision::stop("enough")))
        .hook(fails)
        .build()
        .unwrap();
    let output = agent.run("Go").await.unwrap();
    assert_eq!(output.end, ExitReason::HookStopped);
    assert_eq!(texts(&output.messages), ["Error: enough"]);
}

#[tokio::test]
async fn stop_of_a_hook_ends_the_run_when_a_sibling_call_parks() {
    let log = Log::default();
    let decides = hook::pre_tool_use("decides", |_, call: ToolCall| async move {
        Ok(match &*call.name {
            "bad" => ToolDecision::stop("enough"),
            _ => ToolDecision::ask("sure?"),
        })
    });
    let model = ScriptedModel::new().calls([("act", json!({})), ("bad", json!({}))]);
    let agent = agent(model)
        .tools([logged("act", &log), logged("bad", &log)])
        .hook(decides)
        .unanswered(Unanswered::Park)
        .build()
        .unwrap();
    let output = agent.session("s").run("Go").await.unwrap();
    assert_eq!(output.end, ExitReason::HookStopped);
    assert_eq!(texts(&output.messages), ["Error: enough"]);
    let pending = agent.session("s").pending().await.unwrap();
    assert_eq!(
        (pending.len(), log.len()),
        (1, 0),
        "the sibling still waits"
    );
}
