//! Answers whose JSON holds more values than allowed, and calls with names that are too long.

use agentcore::message::ProviderBlock;
use agentcore::model::{ResponseHead, ResponseLimits};
use agentcore::testing::ScriptedModel;
use agentcore::{Error, ErrorKind, ExitReason, ModelEvent, Part, Result, StopReason, ToolCall};
use serde_json::{Value, json};

use crate::kit::{Log, agent, logged, roles, stored};

fn limits() -> ResponseLimits {
    ResponseLimits::default().with_max_values(100)
}

/// Returns a list of `values` values, counting the list itself.
fn list(values: usize) -> Value {
    Value::from(vec![0; values - 1])
}

fn block(raw: &Value) -> ProviderBlock {
    ProviderBlock::new("scripted", serde_json::value::to_raw_value(raw).unwrap())
}

fn written(id: &str, args: &Value) -> ModelEvent {
    ModelEvent::ToolCall(ToolCall::from_raw(id, "act", args.to_string()))
}

fn built(id: &str, args: &Value) -> ModelEvent {
    ModelEvent::ToolCall(ToolCall::new(id, "act", args.clone()))
}

fn with_text(events: Vec<ModelEvent>) -> Vec<Result<ModelEvent>> {
    let text = ModelEvent::Text("I act.".into());
    let stop = ModelEvent::stop(StopReason::ToolUse);
    let events = [text].into_iter().chain(events).chain([stop]);
    events.map(Ok).collect()
}

/// Runs an agent whose first answer must be refused and whose second answer must succeed. Returns
/// the error of the first.
async fn refused(name: &str, events: Vec<ModelEvent>) -> Error {
    let log = Log::default();
    let model = ScriptedModel::new().events(with_text(events)).say("Next.");
    let agent = agent(model.clone())
        .response_limits(limits())
        .include_partial_messages(true)
        .tool(logged("act", &log))
        .build()
        .unwrap();
    let error = agent.session("s").run("Go").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResponseTooLarge, "{name}: {error}");
    assert_eq!(model.requests().len(), 1, "{name} was retried");
    assert_eq!(log.len(), 0, "{name}");
    let history = stored(&agent, "s").await;
    history.validate_for_model().unwrap();
    assert_eq!(roles(&history), "user assistant", "{name}");
    assert_eq!(history.get(1).unwrap().text(), "I act.", "{name}");
    let next = agent.session("s").run("And now?").await.unwrap();
    assert_eq!(next.text, "Next.", "{name}");
    error
}

#[tokio::test]
async fn answer_with_too_many_values_is_an_error_and_keeps_its_text() {
    let args = |values| json!({"a": list(values)});
    let cases = [
        ("arguments as text", vec![written("1", &args(100))]),
        ("arguments as values", vec![built("1", &args(100))]),
        (
            "several calls",
            vec![
                written("1", &args(40)),
                built("2", &args(40)),
                written("3", &args(20)),
            ],
        ),
        (
            "arguments that are not valid",
            vec![ModelEvent::ToolCall(ToolCall::from_raw(
                "1",
                "act",
                format!("{{\"a\":[{}", "0,".repeat(100)),
            ))],
        ),
        (
            "a provider's block",
            vec![ModelEvent::Part(Part::Opaque(block(&list(101))))],
        ),
        (
            "thinking",
            vec![ModelEvent::Part(Part::Thinking(block(&list(101))))],
        ),
        (
            "a call as a part",
            vec![ModelEvent::Part(Part::ToolCall(ToolCall::new(
                "1",
                "act",
                args(100),
            )))],
        ),
    ];
    for (name, events) in cases {
        let error = refused(name, events).await;
        assert!(error.text().contains("100 JSON values"), "{name}: {error}");
        assert!(error.text().contains("max_values"), "{name}: {error}");
        assert!(error.text().contains("response_limits"), "{name}: {error}");
    }
}

#[tokio::test]
async fn answer_at_the_value_limit_is_accepted() {
    let log = Log::default();
    let events = vec![
        written("1", &json!({"a": list(39)})),
        built("2", &json!({"a": list(39)})),
        ModelEvent::Part(Part::Opaque(block(&list(20)))),
    ];
    let model = ScriptedModel::new().events(with_text(events)).say("done");
    let agent = agent(model)
        .response_limits(limits())
        .tool(logged("act", &log))
        .build()
        .unwrap();
    assert_eq!(agent.run("Go").await.unwrap().text, "done");
    assert_eq!(log.len(), 2);
}

#[tokio::test]
async fn restart_resets_the_value_count() {
    let call = || written("1", &json!({"a": list(90)}));
    let events = with_text(vec![call(), ModelEvent::Restart, call()]);
    let log = Log::default();
    let model = ScriptedModel::new().events(events).say("done");
    let agent = agent(model).response_limits(limits());
    let agent = agent.tool(logged("act", &log)).build().unwrap();
    assert_eq!(agent.run("Go").await.unwrap().text, "done");
    assert_eq!(log.len(), 1);
}

#[tokio::test]
async fn too_long_ids_and_names_are_an_error() {
    let long = || "n".repeat(1_025);
    let call = |id: String, name: String| ModelEvent::ToolCall(ToolCall::new(id, name, json!({})));
    let begin = |id: String, name: String| ModelEvent::ToolCallStart {
        index: 0,
        id: id.into(),
        name: name.into(),
    };

    let head =
        |id: String, model: String| vec![ModelEvent::Start(Box::new(ResponseHead::new(id, model)))];
    let cases = [
        ("call's id", vec![call(long(), "act".into())]),
        ("call's name", vec![call("1".into(), long())]),
        ("call's id", vec![begin(long(), "act".into())]),
        ("call's name", vec![begin("1".into(), long())]),
        ("response's id", head(long(), "m".into())),
        ("response's model", head("1".into(), long())),
        (
            "reason to stop",
            vec![ModelEvent::stop(StopReason::Other(long().into()))],
        ),
    ];
    for (name, events) in cases {
        let error = refused(name, events).await;
        assert!(error.text().contains(name), "{name}: {error}");
        assert!(error.text().contains("1025 bytes"), "{name}: {error}");
        assert!(!error.text().contains("nnnn"), "{name}: {error}");
    }
}

#[tokio::test]
async fn ids_and_names_at_the_length_limit_are_accepted() {
    let name = "n".repeat(1_024);
    let call = ToolCall::new("1".repeat(1_024), &*name, json!({}));
    let events = with_text(vec![ModelEvent::ToolCall(call)]);
    let model = ScriptedModel::new().events(events).say("done");
    let agent = agent(model).build().unwrap();
    assert_eq!(agent.run("Go").await.unwrap().text, "done");
}

#[tokio::test]
async fn structured_output_with_too_many_values_is_requested_again() {
    let large = json!({"list": list(100)}).to_string();
    let model = ScriptedModel::new().say(large).say(r#"{"list": []}"#);
    let agent = agent(model.clone()).response_limits(limits());
    let agent = agent.build().unwrap();
    let run = agent.run("Go");
    let run = run.output_schema("list", json!({"type": "object"}));
    let output = run.await.unwrap();
    assert_eq!(output.end, ExitReason::EndTurn);
    assert_eq!(output.structured, Some(json!({"list": []})));
    let requests = model.requests();
    let asked = requests[1].messages.last_content();
    assert!(asked.contains("more than 100 JSON values"), "{asked}");
}
