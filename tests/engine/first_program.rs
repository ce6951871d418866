//! Items that a first program uses: the stream without another import, texts, phases of a call,
//! answers to questions, and errors that `main` prints.

use std::error::Error as _;
use std::time::Duration;

use agentcore::testing::{ScriptedModel, Step};
use agentcore::{Agent, Answer, Error, ErrorKind, FuncTool, SdkMessage, ToolDecision, hook};
use serde_json::json;

fn clock() -> FuncTool {
    FuncTool::new(
        "clock",
        "The time",
        json!({"type": "object"}),
        |_cx, _args| async { "noon" },
    )
}

#[tokio::test]
async fn answer_with_tool_calls_only_has_no_text() {
    let model = ScriptedModel::new()
        .call("clock", json!({}))
        .say("It is noon.");
    let mut run = Agent::builder(model)
        .tool(clock())
        .build()
        .unwrap()
        .run("Time?");
    let mut answers = Vec::new();
    let mut texts = Vec::new();
    while let Some(message) = run.next().await {
        texts.extend(message.text().map(|text| text.into_owned()));
        if let SdkMessage::Assistant(answer) = &message {
            answers.push(
                answer
                    .tool_calls()
                    .map(|call| call.name.to_string())
                    .collect::<Vec<_>>(),
            );
        }
    }

    assert_eq!(texts, ["It is noon."]);
    assert_eq!(answers, [vec!["clock".to_owned()], vec![]]);
}

#[tokio::test]
async fn tool_progress_marks_start_and_end_of_a_call() {
    let tool = FuncTool::new(
        "slow",
        "Slow",
        json!({"type": "object"}),
        |cx, _args| async move {
            cx.progress(json!({"done": 1})).await;
            "ready"
        },
    );
    let model = ScriptedModel::new().call("slow", json!({})).say("Ready.");
    let mut run = Agent::builder(model).tool(tool).build().unwrap().run("Go");
    let mut phases = Vec::new();
    while let Some(message) = run.next().await {
        if let SdkMessage::ToolProgress(progress) = message {
            phases.push((progress.is_started(), progress.is_finished()));
        }
    }

    assert_eq!(phases, [(true, false), (false, false), (false, true)]);
}

#[tokio::test]
async fn tool_progress_with_its_own_state_field_is_not_start_or_end() {
    let schema = json!({"type": "object"});
    let tool = FuncTool::new("slow", "Slow", schema, |cx, _args| async move {
        cx.progress(json!({"state": "started"})).await;
        cx.progress(json!({"state": "done"})).await;
        "ready"
    });

    let model = ScriptedModel::new().call("slow", json!({})).say("Ready.");
    let mut run = Agent::builder(model).tool(tool).build().unwrap().run("Go");
    let mut phases = Vec::new();
    while let Some(message) = run.next().await {
        if let SdkMessage::ToolProgress(progress) = message {
            phases.push((progress.is_started(), progress.is_finished()));
        }
    }

    let own = (false, false);
    assert_eq!(phases, [(true, false), own, own, (false, true)]);
}

#[tokio::test]
async fn answer_of_white_space_has_no_text() {
    let blank = Step::text("\n").and_call("clock", json!({}));
    let model = ScriptedModel::new().step(blank).say(" It is noon.\n");
    let agent = Agent::builder(model).tool(clock()).build().unwrap();
    let mut run = agent.run("Time?");
    let mut texts = Vec::new();
    while let Some(message) = run.next().await {
        texts.extend(message.text().map(|text| text.into_owned()));
    }
    assert_eq!(texts, [" It is noon.\n"]);
}

#[tokio::test]
async fn respond_accepts_the_matched_permission_request() {
    let model = ScriptedModel::new()
        .call("clock", json!({}))
        .say("It is noon.");
    let ask = hook::pre_tool_use("ask", |_, _| async { Ok(ToolDecision::ask("May it run?")) });
    let agent = Agent::builder(model)
        .tool(clock())
        .hook(ask)
        .build()
        .unwrap();
    let mut run = agent.run("Time?");
    let responder = run.responder();
    let mut answered = false;
    while let Some(message) = run.next().await {
        if let SdkMessage::PermissionRequest(request) = message {
            answered = responder.respond(&request, Answer::Allow);
        }
    }

    assert!(answered);
    assert_eq!(run.into_output().unwrap().text, "It is noon.");
}

#[tokio::test]
async fn new_session_has_a_unique_id_and_is_stored() {
    let model = ScriptedModel::new().say("4").say("8");
    let agent = Agent::builder(model).build().unwrap();
    let session = agent.new_session();
    assert_ne!(session.id(), agent.new_session().id());
    session.clone().run("2+2?").await.unwrap();
    let output = session.run("And twice that?").await.unwrap();
    assert_eq!(output.messages.len(), 4);
}

#[test]
fn error_debug_is_one_readable_line_with_its_cause() {
    let cause = std::io::Error::other("the cable is out");
    let error = Error::new(ErrorKind::RateLimited, "the server refused")
        .with_source(cause)
        .with_status(429)
        .with_request_id("req_1")
        .with_retry_after(Duration::from_secs(2));
    assert!(error.source().is_some());
    assert_eq!(
        format!("{error:?}"),
        "the server refused [RateLimited, status 429, request req_1, retry after 2s]\n  \
         caused by: the cable is out"
    );
    assert!(format!("{error:#?}").starts_with("Error {\n    kind: RateLimited,"));
}

#[test]
fn error_debug_omits_a_cause_contained_in_its_text() {
    let error = Error::other(std::io::Error::other("the cable is out"));
    assert_eq!(format!("{error:?}"), "the cable is out [Other]");
    let text = "reading the file failed: the cable is out";
    let outer = Error::new(ErrorKind::Io, text).with_source(error);
    assert_eq!(format!("{outer:?}"), format!("{text} [Io]"));
}
