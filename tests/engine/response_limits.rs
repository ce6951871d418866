//! Answers that exceed the limits of an agent.

use agentcore::agent::RetryPolicy;
use agentcore::message::ProviderBlock;
use agentcore::model::ResponseLimits;
use agentcore::testing::{FunctionModel, ScriptedModel, Step};
use agentcore::{
    AgentBuilder, Error, ErrorKind, Message, Model, ModelEvent, ModelRequest, ModelStream, Part,
    Result, SdkMessage, Secret, StopReason, ToolCall,
};
use futures::{StreamExt, stream};
use serde_json::{Value, json};

use crate::kit::{Log, agent, kind, logged, roles, stored, watch};

fn limits() -> ResponseLimits {
    ResponseLimits::default()
        .with_max_bytes(1_000)
        .with_max_calls(10)
        .with_max_blocks(20)
}

fn builder(model: impl Model) -> AgentBuilder {
    agent(model).response_limits(limits())
}

fn block(text: &str) -> ProviderBlock {
    let raw = serde_json::value::to_raw_value(&json!({"thinking": text})).unwrap();
    ProviderBlock::new("scripted", raw)
}

/// Returns the events for the numbers below 100, and the end of the answer.
fn many(event: impl Fn(u32) -> Vec<ModelEvent>) -> Vec<Result<ModelEvent>> {
    let events = (0..100).flat_map(event);
    let stop = ModelEvent::stop(StopReason::EndTurn);
    events.chain([stop]).map(Ok).collect()
}

fn call_start(index: u32, id: &str) -> ModelEvent {
    ModelEvent::ToolCallStart {
        index,
        id: id.into(),
        name: "act".into(),
    }
}

fn whole_call(id: &str) -> ModelEvent {
    ModelEvent::ToolCall(ToolCall::new(id, "act", json!({})))
}

fn text_of_deltas(messages: &[SdkMessage]) -> String {
    let pieces = messages.iter().filter_map(SdkMessage::text_delta);
    pieces.collect()
}

#[tokio::test]
async fn text_over_the_limit_fails_the_run_and_is_kept_up_to_the_limit() {
    for shown in [false, true] {
        let model = ScriptedModel::new()
            .events(many(|_| vec![ModelEvent::Text("a".repeat(300))]))
            .say("Next.");
        let agent = builder(model.clone())
            .include_partial_messages(shown)
            .build()
            .unwrap();
        let (messages, output) = watch(agent.session("s").run("Go")).await;
        let error = output.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ResponseTooLarge);
        assert!(error.text().contains("1000 bytes"), "{error}");
        assert!(error.text().contains("max_bytes"), "{error}");

        // The request is not repeated, and the connection is not read any further.
        assert_eq!(model.requests().len(), 1);

        let history = stored(&agent, "s").await;
        history.validate_for_model().unwrap();
        assert_eq!(roles(&history), "user assistant");
        assert_eq!(history.get(1).unwrap().text(), "a".repeat(1_000));
        assert_eq!(error.partial().unwrap().text, "a".repeat(1_000));
        if shown {
            assert_eq!(text_of_deltas(&messages), "a".repeat(1_000));
        }

        let aborted = messages.iter().find_map(|message| match message {
            SdkMessage::Assistant(event) => Some(event.aborted),
            _ => None,
        });

        assert_eq!(aborted, Some(true));
        let result = serde_json::to_value(messages.last().unwrap()).unwrap();
        assert_eq!(result["terminal_reason"], "model_error");
        assert!(result["errors"][0].as_str().unwrap().contains("1000 bytes"));

        let next = agent.session("s").run("And now?").await.unwrap();
        assert_eq!(next.text, "Next.");
    }
}

#[tokio::test]
async fn text_is_cut_before_the_character_that_does_not_fit() {
    let text = format!("{}é{}", "a".repeat(999), "b".repeat(50));
    let model = ScriptedModel::new().events(vec![
        Ok(ModelEvent::Text(text)),
        Ok(ModelEvent::stop(StopReason::EndTurn)),
    ]);
    let agent = builder(model)
        .include_partial_messages(true)
        .build()
        .unwrap();
    let (messages, output) = watch(agent.run("Go")).await;
    let error = output.unwrap_err();
    assert_eq!(error.partial().unwrap().text, "a".repeat(999));
    assert_eq!(text_of_deltas(&messages), "a".repeat(999));
}

#[tokio::test]
async fn answer_at_the_byte_limit_is_accepted() {
    let agent = builder(ScriptedModel::new().say("a".repeat(1_000)));
    let output = agent.build().unwrap().run("Go").await.unwrap();
    assert_eq!(output.text.len(), 1_000);
}

#[tokio::test]
async fn bytes_calls_and_blocks_of_an_answer_are_limited() {
    check_limits().await;
}

/// In a process with a secret, each response is also redacted.
#[tokio::test]
async fn bytes_calls_and_blocks_of_an_answer_are_limited_in_a_process_with_a_secret() {
    let _secret = Secret::new("sk-not-in-any-response-0123456789");
    check_limits().await;
}

async fn check_limits() {
    let thinking = || ModelEvent::Thinking("h".repeat(300));
    let cases = [
        ("max_bytes", many(|_| vec![thinking()])),
        (
            "max_bytes",
            many(|_| vec![ModelEvent::Part(Part::Thinking(block(&"h".repeat(300))))]),
        ),
        (
            "max_bytes",
            many(|_| vec![ModelEvent::Part(Part::Opaque(block(&"h".repeat(300))))]),
        ),
        (
            "max_bytes",
            many(|at| {
                let json = "1".repeat(300);
                match at {
                    0 => vec![call_start(0, "1")],
                    _ => vec![ModelEvent::ToolCallDelta { index: 0, json }],
                }
            }),
        ),
        // Deltas of calls that never began.
        (
            "max_bytes",
            many(|index| {
                let json = "1".repeat(300);
                vec![ModelEvent::ToolCallDelta { index, json }]
            }),
        ),
        (
            "max_bytes",
            many(|_| {
                let args = Value::from("x".repeat(300));
                vec![ModelEvent::ToolCall(ToolCall::new("1", "act", args))]
            }),
        ),
        (
            "max_calls",
            many(|at| vec![call_start(at, &at.to_string())]),
        ),
        ("max_calls", many(|_| vec![call_start(0, "same")])),
        ("max_calls", many(|at| vec![whole_call(&at.to_string())])),
        (
            "max_blocks",
            many(|_| vec![ModelEvent::Text("a".into()), ModelEvent::PartEnd]),
        ),
        (
            "max_blocks",
            many(|_| vec![ModelEvent::Text(String::new()), ModelEvent::PartEnd]),
        ),
        (
            "max_blocks",
            many(|_| {
                vec![
                    ModelEvent::Text("a".into()),
                    ModelEvent::Thinking("b".into()),
                ]
            }),
        ),
        (
            "max_blocks",
            many(|_| vec![ModelEvent::Start(Box::default())]),
        ),
    ];
    for (at, (limit, events)) in cases.into_iter().enumerate() {
        let log = Log::default();
        let model = ScriptedModel::new().events(events).say("Next.");
        let agent = builder(model)
            .tool(logged("act", &log))
            .include_partial_messages(true)
            .build()
            .unwrap();
        let error = agent.session("s").run("Go").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ResponseTooLarge, "case {at}");
        assert!(error.text().contains(limit), "case {at}: {error}");
        assert_eq!(log.len(), 0, "case {at}");
        let history = stored(&agent, "s").await;
        history.validate_for_model().unwrap();
        assert!(history.iter().all(|m| m.tool_calls().next().is_none()));
        let next = agent.session("s").run("And now?").await.unwrap();
        assert_eq!(next.text, "Next.", "case {at}");
    }
}

#[tokio::test]
async fn complete_calls_before_the_limit_do_not_run() {
    let log = Log::default();
    let model = ScriptedModel::new().events(vec![
        Ok(ModelEvent::Text("I act.".into())),
        Ok(whole_call("1")),
        Ok(ModelEvent::Text("a".repeat(2_000))),
        Ok(ModelEvent::stop(StopReason::ToolUse)),
    ]);
    let agent = builder(model).tool(logged("act", &log)).build().unwrap();
    let error = agent.session("s").run("Go").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResponseTooLarge);
    assert_eq!(log.len(), 0);
    let history = stored(&agent, "s").await;
    assert_eq!(roles(&history), "user assistant");
    assert!(history.get(1).unwrap().tool_calls().next().is_none());
    assert!(history.get(1).unwrap().text().starts_with("I act."));
}

#[tokio::test]
async fn too_large_answer_is_discarded_without_keep_interrupted() {
    let model = ScriptedModel::new().events(many(|_| vec![ModelEvent::Text("a".repeat(300))]));
    let agent = builder(model).keep_interrupted(false).build().unwrap();
    agent.session("s").run("Go").await.unwrap_err();
    assert_eq!(roles(&stored(&agent, "s").await), "user");
}

#[tokio::test]
async fn deltas_and_the_complete_block_count_once() {
    let args = json!({"text": "x".repeat(700)});
    let model = ScriptedModel::new()
        .step(Step::new().and_thinking("h".repeat(200), block(&"h".repeat(200))))
        .step(Step::call("act", args))
        .say("done");
    // The first answer is only thinking, so the request is repeated.
    let log = Log::default();
    let agent = builder(model).tool(logged("act", &log)).build().unwrap();
    assert_eq!(agent.run("Go").await.unwrap().text, "done");
    assert_eq!(log.len(), 1);
}

#[tokio::test]
async fn restart_resets_the_byte_count() {
    let model = ScriptedModel::new().events(vec![
        Ok(ModelEvent::Text("a".repeat(900))),
        Ok(ModelEvent::Restart),
        Ok(ModelEvent::Text("b".repeat(900))),
        Ok(ModelEvent::stop(StopReason::EndTurn)),
    ]);
    let output = builder(model).build().unwrap().run("Go").await.unwrap();
    assert_eq!(output.text, "b".repeat(900));
}

#[tokio::test]
async fn response_too_large_is_not_retryable_and_limits_can_be_set_by_request() {
    assert!(!ErrorKind::ResponseTooLarge.is_retryable());
    let model = ScriptedModel::new().say("a".repeat(50)).say("b".repeat(50));
    let request = |bytes| {
        let limits = ResponseLimits::default().with_max_bytes(bytes);
        ModelRequest::new("Go").with_response_limits(limits)
    };

    let error = Model::call(&model, request(49)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResponseTooLarge);
    let answer = Model::call(&model, request(50)).await.unwrap();
    assert_eq!(answer.text(), "b".repeat(50));
    assert_eq!(
        ModelRequest::new("Go").response_limits(),
        ResponseLimits::default()
    );
}

#[tokio::test]
async fn model_request_has_the_response_limits_of_the_agent() {
    let model = FunctionModel::text(|request| request.response_limits().max_bytes.to_string());
    let output = builder(model).build().unwrap().run("Go").await.unwrap();
    assert_eq!(output.text, "1000");
}

/// The limits also apply to requests that a hook makes of its own.
#[tokio::test]
async fn model_calls_of_hooks_are_limited() {
    let model = ScriptedModel::new().say("a".repeat(2_000)).say("fine");
    let hook = agentcore::hook::before_agent("own", |cx, state| async move {
        let model = cx.model();
        let error = cx.call_model(&model, ModelRequest::new("Judge")).await;
        assert_eq!(error.unwrap_err().kind(), ErrorKind::ResponseTooLarge);
        Ok(state)
    });
    let agent = builder(model).hook(hook).build().unwrap();
    let output = agent.run("Go").await.unwrap();
    assert_eq!(output.text, "fine");
    assert_eq!(roles(&output.messages), "user assistant");
}

#[tokio::test]
async fn hook_may_replace_a_too_large_answer() {
    let model = ScriptedModel::new().events(many(|_| vec![ModelEvent::Text("a".repeat(300))]));
    let hook = agentcore::hook::wrap_model_call("own", |request, next| async move {
        match next.run(request).await {
            Err(error) if error.kind() == ErrorKind::ResponseTooLarge => {
                Ok(agentcore::ModelResponse::new("Short."))
            }
            other => other,
        }
    });

    let agent = builder(model).hook(hook).build().unwrap();
    let output = agent.run("Go").await.unwrap();
    assert_eq!(output.text, "Short.");
    assert_eq!(roles(&output.messages), "user assistant");
    let texts: Vec<_> = output
        .messages
        .iter()
        .map(|m| m.text().into_owned())
        .collect();
    assert_eq!(texts, ["Go", "Short."]);
}

/// A hook holds the events of an attempt until it has succeeded; the pieces of a block are merged.
#[tokio::test]
async fn held_events_are_merged_by_block() {
    let model = FunctionModel::stream(|_| async {
        let pieces = (0..5_000).map(|_| Ok(ModelEvent::Text("a".into())));
        let thoughts = (0..5_000).map(|_| Ok(ModelEvent::Thinking("h".into())));
        let empty = (0..5_000).map(|_| Ok(ModelEvent::Text(String::new())));
        let stop = [Ok(ModelEvent::stop(StopReason::EndTurn))];
        let events = stream::iter(thoughts.chain(pieces).chain(empty).chain(stop));
        Ok::<ModelStream, Error>(events.boxed())
    });

    let agent = agent(model)
        .include_partial_messages(true)
        .hook(agentcore::hook::wrap_model_call(
            "own",
            |request, next| async move { next.run(request.hold_events()).await },
        ))
        .build()
        .unwrap();
    let (messages, output) = watch(agent.run("Go")).await;
    assert_eq!(output.unwrap().text.len(), 5_000);
    assert_eq!(text_of_deltas(&messages).len(), 5_000);
    let shown = messages
        .iter()
        .filter(|m| kind(m) == "stream_event")
        .count();
    assert!(shown < 20, "{shown} events");
}

#[tokio::test]
async fn retry_policy_does_not_repeat_a_too_large_answer() {
    let model = ScriptedModel::new().events(many(|_| vec![ModelEvent::Text("a".repeat(300))]));
    let agent = builder(model.clone())
        .retry(RetryPolicy::default().with_max_retries(5))
        .build()
        .unwrap();
    agent.run("Go").await.unwrap_err();
    assert_eq!(model.requests().len(), 1);
}

#[tokio::test]
async fn next_run_sends_the_kept_part_of_a_too_large_answer() {
    let model = ScriptedModel::new()
        .events(many(|_| vec![ModelEvent::Text("a".repeat(300))]))
        .expect(|request| {
            let texts = request.messages.iter().map(Message::text);
            assert_eq!(
                texts.map(|text| text.len()).collect::<Vec<_>>(),
                [2, 1_000, 4]
            );
        })
        .say("Next.");
    let agent = builder(model).build().unwrap();
    agent.session("s").run("Go").await.unwrap_err();
    agent.session("s").run("More").await.unwrap();
}
