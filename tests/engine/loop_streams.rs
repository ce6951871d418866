//! Stream events of answers in progress.

use agentcore::message::{Annotations, Citation, ProviderBlock};
use agentcore::model::{Compaction, CompactionRequest, Compactor, ModelProfile};
use agentcore::testing::{ScriptedModel, Step};
use agentcore::{
    Error, Messages, ModelEvent, Part, Result, SdkMessage, StopReason, ToolCall, Usage, async_trait,
};
use serde_json::{Value, json};

use crate::kit::{agent, echo, kinds, result_texts, stuck, warnings, watch};

#[tokio::test]
async fn partial_messages_form_a_valid_event_stream() {
    let model = ScriptedModel::new().events(vec![
        Ok(ModelEvent::Text("a ".into())),
        Ok(ModelEvent::Text("b".into())),
        Ok(ModelEvent::ToolCallStart {
            index: 0,
            id: "1".into(),
            name: "stuck".into(),
        }),
        Ok(ModelEvent::ToolCallDelta {
            index: 0,
            json: "{}".into(),
        }),
        Ok(ModelEvent::ToolCall(ToolCall::new("1", "stuck", json!({})))),
        Ok(ModelEvent::Usage(Usage::new(3, 4))),
        Ok(ModelEvent::stop(StopReason::ToolUse)),
    ]);
    let agent = agent(model)
        .tool(stuck())
        .include_partial_messages(true)
        .build()
        .unwrap();
    let mut run = agent.run("Go");
    let mut events = Vec::new();
    while let Some(message) = run.next().await {
        match &message {
            SdkMessage::Partial(_) => {
                events.push(serde_json::to_value(&message).unwrap()["event"].clone());
            }
            SdkMessage::Assistant(_) => break,
            _ => {}
        }
    }

    let shape: Vec<_> = events
        .iter()
        .map(|event| (event["type"].as_str().unwrap(), event["index"].as_u64()))
        .collect();
    assert_eq!(
        shape,
        [
            ("message_start", None),
            ("content_block_start", Some(0)),
            ("content_block_delta", Some(0)),
            ("content_block_delta", Some(0)),
            ("content_block_stop", Some(0)),
            ("content_block_start", Some(1)),
            ("content_block_delta", Some(1)),
            ("content_block_stop", Some(1)),
            ("message_delta", None),
            ("message_stop", None),
        ]
    );
    assert_eq!(events[8]["delta"]["stop_reason"], "tool_use");
    assert_eq!(events[8]["usage"]["output_tokens"], 4);
}

#[tokio::test]
async fn interleaved_streamed_calls_are_emitted_once_each() {
    let start = |index: u32| {
        Ok(ModelEvent::ToolCallStart {
            index,
            id: format!("{index}").into(),
            name: "echo".into(),
        })
    };

    let delta = |index: u32| {
        Ok(ModelEvent::ToolCallDelta {
            index,
            json: format!("{{\"text\":\"{index}\"}}"),
        })
    };

    let whole = |index: u32| {
        let args = json!({"text": index.to_string()});
        Ok(ModelEvent::ToolCall(ToolCall::new(
            format!("{index}"),
            "echo",
            args,
        )))
    };

    let model = ScriptedModel::new()
        .events(vec![
            start(0),
            delta(0),
            start(1),
            delta(1),
            whole(0),
            whole(1),
            Ok(ModelEvent::stop(StopReason::ToolUse)),
        ])
        .say("done");
    let agent = agent(model)
        .tool(echo())
        .include_partial_messages(true)
        .build()
        .unwrap();
    let (messages, output) = watch(agent.run("Go")).await;
    assert_eq!(result_texts(&output.unwrap().messages), ["0", "1"]);
    let ids: Vec<_> = messages
        .iter()
        .filter(|message| matches!(message, SdkMessage::Partial(_)))
        .map(|message| serde_json::to_value(message).unwrap()["event"].clone())
        .filter(|event| event["content_block"]["type"] == "tool_use")
        .map(|event| event["content_block"]["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(ids, ["0", "1"]);
    assert_eq!(warnings(&messages), [""; 0]);
}

/// Returns the stream events of a run whose model answers with `events`.
async fn stream_events(events: Vec<ModelEvent>) -> Vec<Value> {
    let model = ScriptedModel::new().step(events);
    let agent = agent(model).include_partial_messages(true).build().unwrap();
    let (messages, output) = watch(agent.run("Go")).await;
    output.unwrap();
    let partials = messages
        .iter()
        .filter(|message| matches!(message, SdkMessage::Partial(_)));
    partials
        .map(|message| serde_json::to_value(message).unwrap()["event"].clone())
        .collect()
}

fn block(provider: &str, raw: &Value) -> ProviderBlock {
    ProviderBlock::new(provider, serde_json::value::to_raw_value(raw).unwrap())
}

#[tokio::test]
async fn blocks_of_other_providers_are_not_in_partial_messages() {
    let thinking = json!({"type": "reasoning", "encrypted_content": "gAAA"});
    let opaque = json!({"type": "server_tool_use", "id": "x"});
    let events = stream_events(vec![
        ModelEvent::Part(Part::Thinking(block("openai", &thinking))),
        ModelEvent::Text("a".into()),
        ModelEvent::Part(Part::Opaque(block(
            "gemini",
            &json!({"executableCode": {}}),
        ))),
        ModelEvent::Text("b".into()),
        ModelEvent::Part(Part::Opaque(block("anthropic", &opaque))),
        ModelEvent::Thinking("hm".into()),
        ModelEvent::Part(Part::Thinking(block("openai", &thinking))),
    ])
    .await;
    let blocks: Vec<_> = events
        .iter()
        .filter(|event| event["type"] == "content_block_start")
        .map(|event| {
            (
                event["index"].as_u64(),
                event["content_block"]["type"].as_str(),
            )
        })
        .collect();
    assert_eq!(
        blocks,
        [
            (Some(0), Some("text")),
            (Some(1), Some("text")),
            (Some(2), Some("server_tool_use")),
            (Some(3), Some("thinking")),
        ]
    );
    let stops = events
        .iter()
        .filter(|event| event["type"] == "content_block_stop");
    assert_eq!(stops.count(), 4);
}

#[tokio::test]
async fn citations_arrive_as_citations_delta() {
    let own = json!({"type": "char_location", "cited_text": "one", "document_index": 0});
    let own_block = block("anthropic", &json!({"citations": [own]}));
    let annotations = |annotations: Annotations| ModelEvent::Part(Part::Annotations(annotations));
    let source = Citation::new("u").with_title("t").with_cited_text("c");
    let events = stream_events(vec![
        annotations(Annotations::new([source.clone()])),
        ModelEvent::Text("a".into()),
        annotations(Annotations::new([Citation::new("")]).with_block(own_block)),
        annotations(Annotations::new([source.clone()])),
        ModelEvent::Text("b".into()),
        annotations(Annotations::new([source.clone(), source])),
    ])
    .await;
    let shape: Vec<_> = events
        .iter()
        .filter(|event| event["index"].is_u64())
        .map(|event| {
            let kind = event["delta"]["type"].as_str().or(event["type"].as_str());
            (event["index"].as_u64().unwrap(), kind.unwrap())
        })
        .collect();
    assert_eq!(
        shape,
        [
            (0, "content_block_start"),
            (0, "text_delta"),
            (0, "citations_delta"),
            (0, "content_block_stop"),
            (1, "content_block_start"),
            (1, "text_delta"),
            (1, "citations_delta"),
            (1, "citations_delta"),
            (1, "content_block_stop"),
        ]
    );
    let citations: Vec<_> = events
        .iter()
        .filter_map(|event| event["delta"].get("citation"))
        .collect();
    let citation = json!({"type": "web_search_result_location", "url": "u", "title": "t",
        "cited_text": "c", "encrypted_index": ""});
    assert_eq!(citations, [&own, &citation, &citation]);
}

/// Compacts once there are more than a million tokens.
struct WhenLarge;

#[async_trait]
impl Compactor for WhenLarge {
    fn should_compact(&self, _: &Messages, tokens: u64, _: &ModelProfile) -> bool {
        tokens > 1_000_000
    }

    async fn compact(&self, _: CompactionRequest) -> Result<Option<Compaction>> {
        Ok(Some(Compaction::new("They met.", 0)))
    }
}

#[tokio::test]
async fn discarded_answer_is_superseded_by_a_restart() {
    let half = |reason| {
        let shown = ModelEvent::Thinking("Hm".into());
        Step::from(vec![shown, ModelEvent::stop(reason)]).usage(Usage::new(2_000_000, 1))
    };

    let too_long = Error::new(agentcore::ErrorKind::ContextTooLong, "prompt is too long");
    let cases = [
        ScriptedModel::new().step(half(StopReason::MaxTokens)),
        ScriptedModel::new().step(half(StopReason::EndTurn)),
        ScriptedModel::new().events(vec![Ok(ModelEvent::Text("Hal".into())), Err(too_long)]),
    ];
    for model in cases {
        let model = model.say("Whole.");
        let agent = agent(model)
            .compactor(WhenLarge)
            .include_partial_messages(true)
            .build()
            .unwrap();
        let (messages, output) = watch(agent.run("Go")).await;
        assert_eq!(output.unwrap().text, "Whole.");
        let values: Vec<_> = messages
            .iter()
            .map(|message| serde_json::to_value(message).unwrap())
            .collect();
        let at = |wanted: &str| {
            let mut of = values.iter().enumerate();
            of.find(|(_, value)| value["type"] == *wanted || value["subtype"] == *wanted)
                .map(|(at, _)| at)
                .unwrap()
        };

        let restarts: Vec<_> = values
            .iter()
            .filter(|value| value["subtype"] == "stream_restart")
            .collect();
        assert_eq!(restarts.len(), 1, "{values:#?}");
        let restart = at("stream_restart");
        let first = &values[at("stream_event")];
        assert_eq!(values[restart]["supersedes"], json!([first["uuid"]]));
        let next = values[restart..]
            .iter()
            .find(|value| value["type"] == "stream_event")
            .unwrap();
        assert_eq!(values[restart]["attempt"], next["attempt"]);
        assert_ne!(first["attempt"], next["attempt"]);
    }
}

#[tokio::test]
async fn kept_answer_emits_no_restart() {
    let model = ScriptedModel::new()
        .call("echo", json!({"text": "a"}))
        .say("Whole.");
    let agent = agent(model)
        .tool(echo())
        .include_partial_messages(true)
        .build()
        .unwrap();
    let (messages, _) = watch(agent.run("Go")).await;
    assert!(!kinds(&messages).contains(&"system/stream_restart".to_owned()));
}
