//! Properties of the encoders over random streams.

use agentcore::message::{Content, Message, Part, ToolCall, ToolResult};
use agentcore::sdk::{
    ApiMessage, ApiStreamEvent, AssistantEvent, BlockDelta, BlockStart, Envelope, PartialEvent,
    ResultMessage, ResultSubtype, SdkMessage, SystemEvent, SystemKind, ToolProgress, UserEvent,
};
use agentcore::server::{Encoder, EncoderOptions, SseEvent, StreamFormat};
use agentcore::{AgentState, serde_json};
use proptest::prelude::*;
use serde_json::json;

use super::formats::FORMATS;
use super::{ag_ui_rules, ai_sdk_rules};

/// A message without its position in the stream: the number of the agent, where 0 is that of the
/// run, and the kind with a small number.
type Draft = (u8, u8, u8);

fn envelope(agent: u8, seq: u64) -> Envelope {
    let mut envelope = Envelope::new(if agent == 0 { "th" } else { "child" }, seq);
    if agent > 0 {
        envelope.session_id = format!("child_{agent}").into();
        envelope.parent_tool_use_id = Some(format!("call_{}", agent - 1).into());
    }
    envelope
}

fn content(number: u8) -> Content {
    let mut content = Content::new();
    if number & 1 > 0 {
        content.push(Part::text(format!("text {number}\n")));
    }
    if number & 2 > 0 {
        content.push(ToolCall::new(
            format!("call_{}", number % 4),
            "tool",
            json!({"n": number}),
        ));
    }
    content
}

fn message((agent, kind, number): Draft, seq: u64) -> SdkMessage {
    let envelope = envelope(agent, seq);
    let index = u32::from(number % 3);
    let id = format!("msg_{}", number % 3);
    let call = format!("call_{}", number % 4);
    let partial = |event| SdkMessage::from(PartialEvent::new(envelope.clone(), event));
    match kind {
        0 => partial(ApiStreamEvent::MessageStart {
            message: Box::new(ApiMessage::new(id, "m", Message::ai(Content::new()))),
        }),
        1 => partial(ApiStreamEvent::ContentBlockStart {
            index,
            block: match number % 3 {
                0 => BlockStart::Text,
                1 => BlockStart::Thinking,
                _ => BlockStart::ToolUse {
                    id: call.into(),
                    name: "tool".into(),
                },
            },
        }),
        2 => partial(ApiStreamEvent::ContentBlockDelta {
            index,
            delta: match number % 3 {
                0 => BlockDelta::Text("piece".to_owned()),
                1 => BlockDelta::Thinking("hm".to_owned()),
                _ => BlockDelta::InputJson("{\"a\":".to_owned()),
            },
        }),
        3 => partial(ApiStreamEvent::ContentBlockStop { index }),
        4 => {
            let answer = ApiMessage::new(id, "m", Message::ai(content(number)));
            AssistantEvent::new(envelope, answer).into()
        }
        5 => {
            let mut result = ToolResult::new(call, "tool", "output");
            result.is_error = number > 5;
            UserEvent::new(envelope, [Message::Tool(result)]).into()
        }
        6 => UserEvent::new(envelope, [Message::human("steer")]).into(),
        7 => ToolProgress::new(envelope, call, "tool", f64::from(number))
            .with_data(match number % 3 {
                0 => json!({"state": "started", "args": {}}),
                1 => json!({"state": "done", "is_error": false, "output": "x"}),
                _ => json!(number),
            })
            .into(),
        8 => SystemEvent::new(
            envelope,
            SystemKind::StreamRestart {
                attempt: 1,
                supersedes: Vec::new(),
            },
        )
        .into(),
        9 => SystemEvent::new(
            envelope,
            SystemKind::StateChanged {
                todos: number.is_multiple_of(2).then(Vec::new),
                files: Some(vec!["a".to_owned()]),
            },
        )
        .into(),
        _ => task(&envelope, number),
    }
}

fn task(envelope: &Envelope, number: u8) -> SdkMessage {
    let mut fields = json!({
        "type": "system",
        "subtype": if number.is_multiple_of(2) { "task_started" } else { "task_notification" },
        "task_id": envelope.session_id,
        "status": if number % 4 == 1 { "completed" } else { "failed" },
        "session_id": envelope.session_id,
        "seq": envelope.seq,
    });
    if let Some(parent) = &envelope.parent_tool_use_id {
        fields["parent_tool_use_id"] = json!(parent);
    }
    serde_json::from_str(&fields.to_string()).unwrap()
}

fn stream(drafts: &[Draft], has_failed: bool) -> Vec<SdkMessage> {
    let init = json!({"type": "system", "subtype": "init", "session_id": "th", "seq": 0});
    let mut messages = vec![serde_json::from_str(&init.to_string()).unwrap()];
    for draft in drafts {
        messages.push(message(*draft, messages.len() as u64));
    }
    let subtype = if has_failed {
        ResultSubtype::ErrorDuringExecution
    } else {
        ResultSubtype::Success
    };
    let end = ResultMessage::new(envelope(0, messages.len() as u64), subtype);
    messages.push(end.into());
    messages
}

fn encoder(format: StreamFormat) -> Encoder {
    let options = EncoderOptions::new("run").with_state(AgentState::new("th"));
    Encoder::new(format, options)
}

fn encode(messages: &[SdkMessage], format: StreamFormat) -> Vec<SseEvent> {
    let mut encoder = encoder(format);
    let mut events = Vec::new();
    for message in messages {
        encoder.push(message, &mut events);
    }
    events
}

fn drafts() -> impl Strategy<Value = Vec<Draft>> {
    proptest::collection::vec((0_u8..3, 0_u8..11, 0_u8..12), 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(crate::kit::effort::cases(200)) })]

    /// The rules are checked event by event, so that they hold for every prefix.
    #[test]
    fn random_streams_are_well_formed_and_close_all_blocks(
        drafts in drafts(),
        has_failed in any::<bool>(),
    ) {
        let messages = stream(&drafts, has_failed);
        let events = encode(&messages, StreamFormat::AgUi);
        prop_assert_eq!(ag_ui_rules::check(&events, true), Ok(()));
        let events = encode(&messages, StreamFormat::AiSdk);
        let calls = (0..4).map(|number| format!("call_{number}"));
        prop_assert_eq!(ai_sdk_rules::check(&events, calls, true), Ok(()));
    }

    #[test]
    fn random_streams_have_ids_in_order(drafts in drafts()) {
        let messages = stream(&drafts, false);
        for format in FORMATS {
            let events = encode(&messages, format);
            let mut last = (0, None);
            for event in events.iter().filter(|event| !event.id.is_empty()) {
                let place = event.id.strip_prefix("run:").unwrap();
                let (seq, index) = place.split_once('.').unwrap_or((place, "0"));
                let position = (seq.parse::<u64>().unwrap(), Some(index.parse::<u32>().unwrap()));
                prop_assert!(position > last, "{} after {:?}", event.id, last);
                last = position;
            }
        }
    }

    #[test]
    fn equal_messages_give_equal_events(drafts in drafts()) {
        let messages = stream(&drafts, false);
        for format in FORMATS {
            prop_assert_eq!(encode(&messages, format), encode(&messages, format));
        }
    }
}
