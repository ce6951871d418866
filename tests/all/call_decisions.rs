//! Decisions about a call: modes set meanwhile, stops, grants, contexts and errors of hooks.

use agentcore::testing::{ScriptedModel, Step};
use agentcore::{Answer, PermissionMode, PermissionRequest, SdkMessage, ToolDecision, hook};
use serde_json::json;

use crate::kit::{Log, agent, asking, echo, logged, texts};

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
