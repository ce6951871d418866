//! Histories that would outgrow memory although each answer and each result is within its limit.

use agentcore::hooks::SummarizationHook;
use agentcore::testing::{FunctionModel, ScriptedModel};
use agentcore::{
    Agent, AgentBuilder, ErrorKind, FuncTool, Message, Messages, Model, ModelEvent, Part,
    StopReason, ToolCall, ToolOutput,
};
use serde_json::{Value, json};

use crate::kit::{Log, agent, any_object, logged, roles, stored, warnings, watch};

/// A list that has `values` values, itself among them.
fn list(values: usize) -> Value {
    Value::from(vec![0; values - 1])
}

/// Arguments of so many values.
fn args(values: usize) -> Value {
    json!({"a": list(values - 1)})
}

/// A model that says `I act.` and calls `act` with so many values each time it is asked.
fn calling(values: usize) -> FunctionModel {
    FunctionModel::new(move |request| {
        let call = ToolCall::new(format!("c{}", request.messages.len()), "act", args(values));
        vec![
            Ok(ModelEvent::Text("I act.".into())),
            Ok(ModelEvent::ToolCall(call)),
            Ok(ModelEvent::stop(StopReason::ToolUse)),
        ]
    })
}

fn limited(model: impl Model, log: &Log) -> AgentBuilder {
    agent(model)
        .tool(logged("act", log))
        .max_history_values(100)
}

/// A history of one turn that made a call of so many values.
fn turn(values: usize) -> Messages {
    let call = ToolCall::new("old", "act", args(values));
    Messages::new()
        .human("Hi")
        .ai_calling("I act.", [call])
        .tool("old", "act", "done")
        .ai("Done.")
}

/// Stores a history as the session `s`.
async fn store(agent: &Agent, messages: Messages) {
    let mut state = agentcore::AgentState::new("s");
    state.messages = messages;
    let session = agentcore::session::StoredSession::new(state);
    agent.store().create("s", session).await.unwrap();
}

#[tokio::test]
async fn calls_that_take_the_history_over_its_values_end_the_run() {
    let log = Log::default();
    let agent = limited(calling(30), &log).build().unwrap();
    let error = agent.session("s").run("Go").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResponseTooLarge);
    for part in [
        "120 JSON values",
        "100",
        "max_history_values",
        "compact",
        "another session",
    ] {
        assert!(error.text().contains(part), "{part}: {error}");
    }

    assert_eq!(log.len(), 3);
    let history = stored(&agent, "s").await;
    history.validate_for_model().unwrap();
    assert_eq!(
        roles(&history),
        "user assistant tool assistant tool assistant tool assistant"
    );
    assert_eq!(history.last_content(), "I act.");
    assert!(
        agent
            .store()
            .load("s")
            .await
            .unwrap()
            .unwrap()
            .state
            .message_info(7)
            .unwrap()
            .aborted
    );
}

#[tokio::test]
async fn loaded_values_count_and_are_never_refused_by_themselves() {
    let log = Log::default();
    let model = ScriptedModel::new().call("act", args(30));
    let agent = limited(model, &log).build().unwrap();
    store(&agent, turn(80)).await;
    let error = agent.session("s").run("Go").await.unwrap_err();
    assert!(error.text().contains("110 JSON values"), "{error}");
    assert_eq!(log.len(), 0);
    assert_eq!(stored(&agent, "s").await.len(), 5, "the input stays");

    let model = ScriptedModel::new().say("Hello.");
    let agent = limited(model.clone(), &log).build().unwrap();
    store(&agent, turn(101)).await;
    let error = agent.session("s").run("Go").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResponseTooLarge);
    assert!(
        error.text().contains("the history of the session has 101"),
        "{error}"
    );
    assert_eq!(model.requests().len(), 0, "no call is paid for");
    assert_eq!(stored(&agent, "s").await.len(), 5, "all can be read");
    let back = agent.session("s").rewind_to(0).run("Again").await.unwrap();
    assert_eq!(back.text, "Hello.");
}

#[tokio::test]
async fn a_session_over_the_limit_goes_on_once_it_is_compacted() {
    let log = Log::default();
    let model = ScriptedModel::new().call("act", args(60)).say("Done.");
    let summarizer = ScriptedModel::new().say("They acted.");
    let hook = SummarizationHook::new()
        .with_model(summarizer)
        .with_context_window(1_000_000);
    let agent = limited(model, &log).hook(hook).build().unwrap();
    store(&agent, turn(101)).await;
    let output = agent.session("s").run("Go").await.unwrap();
    assert_eq!(output.text, "Done.");
    assert_eq!(log.len(), 1);
    assert!(output.state.compaction.is_some());
    assert_eq!(output.messages.len(), 8, "nothing is removed");
}

#[tokio::test]
async fn a_run_cannot_make_room_for_its_own_calls() {
    let log = Log::default();
    let summarizer = FunctionModel::new(|_| {
        vec![
            Ok(ModelEvent::Text("They acted.".into())),
            Ok(ModelEvent::stop(StopReason::EndTurn)),
        ]
    });

    let hook = SummarizationHook::new()
        .with_model(summarizer)
        .with_context_window(100);
    let agent = limited(calling(30), &log).hook(hook).build().unwrap();
    let error = agent.session("s").run("Go").await.unwrap_err();
    assert!(error.text().contains("max_history_values"), "{error}");
    assert_eq!(log.len(), 3);
}

#[tokio::test]
async fn details_over_one_half_of_the_values_are_removed_with_a_warning() {
    let tool = FuncTool::new(
        "detailed",
        "Has details",
        any_object(),
        |_cx, args| async move {
            let values = args["n"].as_u64().unwrap_or(1) as usize;
            ToolOutput::new("done").with_details(list(values))
        },
    );
    let model = ScriptedModel::new()
        .call("detailed", json!({"n": 40}))
        .call("detailed", json!({"n": 11}))
        .call("detailed", json!({"n": 12}))
        .call("detailed", json!({"n": 10}))
        .say("Done.");
    let agent = agent(model)
        .tool(tool)
        .max_history_values(100)
        .build()
        .unwrap();
    let (messages, output) = watch(agent.session("s").run("Go")).await;
    let history = output.unwrap().messages;
    let details = history.tool_messages().map(|message| {
        let result = message.as_tool_result().unwrap();
        assert_eq!(result.content.text(), "done");
        result.details.is_some()
    });

    assert_eq!(details.collect::<Vec<_>>(), [true, false, false, true]);
    let warnings = warnings(&messages);
    let [warning] = &warnings[..] else {
        panic!("{warnings:?}");
    };

    assert!(warning.contains("max_history_values"), "{warning}");
}

#[tokio::test]
async fn texts_over_the_bytes_of_the_history_end_the_run_and_stay_as_far_as_they_fit() {
    let log = Log::default();
    let model = FunctionModel::new(|request| {
        let id = format!("c{}", request.messages.len());
        vec![
            Ok(ModelEvent::Text("é".repeat(200))),
            Ok(ModelEvent::ToolCall(ToolCall::new(id, "act", json!({})))),
            Ok(ModelEvent::stop(StopReason::ToolUse)),
        ]
    });

    let agent = agent(model)
        .tool(logged("act", &log))
        .max_history_bytes(1_000);
    let agent = agent.build().unwrap();
    let error = agent.session("s").run("Go").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResponseTooLarge);
    assert!(error.text().contains("max_history_bytes"), "{error}");
    assert_eq!(log.len(), 2);
    let history = stored(&agent, "s").await;
    history.validate_for_model().unwrap();
    let last = history.last_content();
    assert!(
        last.len() < 200 && last.len() > 150 && last.starts_with("éé"),
        "{last}"
    );
}

#[tokio::test]
async fn blocks_of_providers_count_as_bytes() {
    let model = FunctionModel::new(|_| {
        let raw = serde_json::value::to_raw_value(&list(300)).unwrap();
        let block = agentcore::message::ProviderBlock::new("function", raw);
        vec![
            Ok(ModelEvent::Part(Part::Opaque(block))),
            Ok(ModelEvent::stop(StopReason::PauseTurn)),
        ]
    });

    let agent = agent(model).max_history_bytes(2_000).build().unwrap();
    let error = agent.session("s").run("Go").await.unwrap_err();
    assert!(error.text().contains("max_history_bytes"), "{error}");
    stored(&agent, "s").await.validate_for_model().unwrap();
}

#[tokio::test]
async fn results_share_what_an_answer_may_bring() {
    let tool = || {
        FuncTool::new("long", "Is long", any_object(), |_cx, _args| async {
            "x".repeat(100_000)
        })
    };

    for (calls, history_bytes, expected) in [
        (1, 1 << 20, 10_000),
        (2, 1 << 20, 10_000),
        (8, 1 << 20, 2_500),
        (4, 20_000, 5_000),
    ] {
        let events = (0..calls).map(|n| ToolCall::new(format!("c{n}"), "long", json!({})));
        let events = events.map(ModelEvent::ToolCall);
        let events = events
            .chain([ModelEvent::stop(StopReason::ToolUse)])
            .map(Ok);
        let model = ScriptedModel::new().events(events.collect()).say("Done.");
        let agent = agent(model)
            .tool(tool())
            .max_result_bytes(10_000)
            .max_history_bytes(history_bytes)
            .build()
            .unwrap();
        let _ = agent.session("s").run("Go").await;
        let history = stored(&agent, "s").await;
        for result in history.tool_messages() {
            let text = result.text();
            assert!(
                text.len() <= expected && text.len() > expected - 100,
                "{}",
                text.len()
            );
            assert!(text.contains("bytes are more than the limit of"), "{calls}");
        }
    }
}

#[tokio::test]
async fn inputs_of_the_caller_do_not_count() {
    let model = ScriptedModel::new().say("Long.");
    let agent = agent(model).max_history_bytes(100).build().unwrap();
    let input = Message::human("x".repeat(10_000));
    assert_eq!(agent.run(input).await.unwrap().text, "Long.");
}
