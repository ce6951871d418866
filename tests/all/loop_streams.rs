//! An answer while it is written, as stream events.

use agentcore::testing::ScriptedModel;
use agentcore::{ModelEvent, SdkMessage, StopReason, ToolCall, Usage};
use futures::StreamExt;
use serde_json::json;

use crate::kit::{agent, echo, stuck, texts, warnings, watch};

#[tokio::test]
async fn stream_events() {
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
            SdkMessage::StreamEvent(_) => {
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
async fn calls_that_stream_before_any_is_whole_are_shown_once_each() {
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
    assert_eq!(texts(&output.unwrap().messages), ["0", "1"]);
    let ids: Vec<_> = messages
        .iter()
        .filter(|message| matches!(message, SdkMessage::StreamEvent(_)))
        .map(|message| serde_json::to_value(message).unwrap()["event"].clone())
        .filter(|event| event["content_block"]["type"] == "tool_use")
        .map(|event| event["content_block"]["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(ids, ["0", "1"]);
    assert_eq!(warnings(&messages), [""; 0]);
}
