//! Inputs that would take a history over its limit, and results of many parts.

use std::sync::{Arc, OnceLock};

use agentcore::testing::{FunctionModel, ScriptedModel};
use agentcore::{
    Agent, ErrorKind, FuncTool, Message, Messages, ModelEvent, Part, RunHandle, StopReason, ToolCall,
    ToolOutput,
};
use serde_json::json;

use crate::kit::{agent, any_object, stored};

/// The limit of the tests.
const LIMIT: usize = 100_000;

/// A model that says `ok`.
fn answering() -> FunctionModel {
    FunctionModel::new(|_| {
        vec![
            Ok(ModelEvent::Text("ok".into())),
            Ok(ModelEvent::stop(StopReason::EndTurn)),
        ]
    })
}

fn limited() -> Agent {
    let agent = agent(answering()).max_history_bytes(LIMIT);
    agent.build().unwrap()
}

fn input(bytes: usize) -> Message {
    Message::human("x".repeat(bytes))
}

#[tokio::test]
async fn input_over_the_limit_is_refused_before_it_is_stored() {
    let agent = limited();
    let error = agent.session("s").run(input(LIMIT)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::RequestTooLarge, "{error}");
    for words in ["the input has 10", "max_history_bytes", "send less"] {
        assert!(error.text().contains(words), "{words}: {error}");
    }

    let output = agent.session("s").run("Hi").await.unwrap();
    assert_eq!(output.messages.len(), 2, "nothing of it stays");
}

#[tokio::test]
async fn inputs_count_together_and_the_one_over_the_limit_is_removed() {
    let agent = limited();
    for _ in 0..2 {
        agent.session("s").run(input(40_000)).await.unwrap();
    }

    let error = agent.session("s").run(input(40_000)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResponseTooLarge, "{error}");
    for words in ["has 12", "rewind_to", "the input was removed"] {
        assert!(error.text().contains(words), "{words}: {error}");
    }

    assert_eq!(stored(&agent, "s").await.len(), 4);
    let output = agent.session("s").run(input(1_000)).await.unwrap();
    assert_eq!(output.text, "ok");
}

#[tokio::test]
async fn message_to_a_run_over_the_limit_ends_it_and_only_the_next_is_stored() {
    let slot = Arc::new(OnceLock::<RunHandle>::new());
    let handle = slot.clone();
    let tool = FuncTool::new("act", "Acts", any_object(), move |_cx, _args| {
        let handle = handle.get().unwrap();
        handle.steer(input(LIMIT));
        handle.steer("And this one");
        async { "done" }
    });
    let model = ScriptedModel::new().call("act", json!({}));
    let agent = agent(model).tool(tool).max_history_bytes(LIMIT);
    let agent = agent.build().unwrap();
    let run = agent.session("s").run("Go");
    slot.set(run.handle()).unwrap();
    let error = run.await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::RequestTooLarge, "{error}");
    let history = stored(&agent, "s").await;
    assert_eq!(history.len(), 4);
    assert_eq!(history.last().unwrap().text(), "And this one");
    history.validate_for_model().unwrap();
}

#[tokio::test]
async fn input_with_answers_of_its_own_over_the_limit_is_removed() {
    let agent = limited();
    agent.session("s").run(input(60_000)).await.unwrap();
    let messages = Messages::from(input(30_000)).ai("So far.");
    let messages = messages.human("x".repeat(30_000));
    let error = agent.session("s").run(messages).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResponseTooLarge, "{error}");
    let removed = "the input was removed (3 messages)";
    assert!(error.text().contains(removed), "{error}");
    assert_eq!(stored(&agent, "s").await.len(), 2);
    assert_eq!(agent.session("s").run("Hi").await.unwrap().text, "ok");
}

/// A part takes a hundred times the bytes of a short text in it.
#[tokio::test]
async fn results_of_many_parts_leave_the_history_within_its_limit() {
    const CALLS: usize = 16;
    let tool = FuncTool::new("act", "Acts", any_object(), |_cx, _args| async {
        let parts = vec![Part::text("x"); LIMIT / 20];
        ToolOutput::new(parts)
    });
    let model = FunctionModel::new(|request| {
        let is_first = request.messages.len() == 1;
        let calls = (0..if is_first { CALLS } else { 0 })
            .map(|number| ToolCall::new(format!("c{number}"), "act", json!({})));
        let calls = calls.map(ModelEvent::ToolCall);
        let reason = if is_first {
            StopReason::ToolUse
        } else {
            StopReason::EndTurn
        };
        let text = ModelEvent::Text("ok".into());
        [text]
            .into_iter()
            .chain(calls)
            .chain([ModelEvent::stop(reason)])
            .map(Ok)
            .collect()
    });
    let agent = agent(model).tool(tool).max_history_bytes(LIMIT);
    let agent = agent.build().unwrap();
    for _ in 0..2 {
        let output = agent.session("s").run("Go").await.unwrap();
        assert_eq!(output.text, "ok");
    }
    let history = stored(&agent, "s").await;
    let first = history.tool_messages().next().unwrap();
    assert!(first.content().parts().len() < LIMIT / CALLS / 80);
    assert!(first.text().contains("more than the limit of"));
}
