//! The encoders over recorded runs.

use agentcore::message::{Part, ToolCall, ToolResult};
use agentcore::sdk::{
    ApiMessage, AssistantEvent, Envelope, ResultMessage, ResultSubtype, ToolProgress, UserEvent,
};
use agentcore::server::{Encoder, EncoderOptions, SseEvent, StreamFormat};
use agentcore::{AgentState, Message, Messages, SdkMessage};
use serde_json::{Value, json};

use super::ai_sdk_rules;
use super::story::Recording;

pub const FORMATS: [StreamFormat; 5] = [
    StreamFormat::Events,
    StreamFormat::Sdk,
    StreamFormat::Ndjson,
    StreamFormat::AgUi,
    StreamFormat::AiSdk,
];

pub fn encoder(recording: &Recording, format: StreamFormat) -> Encoder {
    let mut options = EncoderOptions::new("run_1")
        .with_client_run_id("client_run")
        .with_state(recording.before.clone());
    for (number, message) in recording.input.iter().enumerate() {
        options = options.with_input(format!("input_{number}"), message.clone());
    }
    Encoder::new(format, options)
}

/// Returns the events of a complete run.
pub fn encode(recording: &Recording, format: StreamFormat) -> Vec<SseEvent> {
    let mut encoder = encoder(recording, format);
    let mut events = Vec::new();
    for message in &recording.messages {
        push(&mut encoder, message, recording, &mut events);
    }
    events
}

pub fn push(
    encoder: &mut Encoder,
    message: &SdkMessage,
    recording: &Recording,
    events: &mut Vec<SseEvent>,
) {
    if message.is_result() {
        encoder.set_state(&recording.after);
    }
    encoder.push(message, events);
}

pub fn bytes(events: &[SseEvent]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for event in events {
        event.write(&mut bytes);
    }
    bytes
}

#[test]
fn sse_event_with_line_breaks_has_one_data_line_each() {
    let mut bytes = Vec::new();
    SseEvent::new("a\nb\r\nc\rd")
        .with_event("x")
        .write(&mut bytes);
    assert_eq!(bytes, b"event: x\ndata: a\ndata: b\ndata: c\ndata: d\n\n");
}

#[test]
fn format_is_chosen_by_query_then_accept() {
    let choose = |query, accept| StreamFormat::choose(query, accept).map_err(|e| e.to_string());
    assert_eq!(choose(None, None), Ok(StreamFormat::Events));
    assert_eq!(
        choose(None, Some("application/x-ndjson")),
        Ok(StreamFormat::Ndjson)
    );
    let accept = "text/html, text/event-stream; format=\"ai-sdk\"; q=0.9";
    assert_eq!(choose(None, Some(accept)), Ok(StreamFormat::AiSdk));
    assert_eq!(choose(Some("sdk"), Some(accept)), Ok(StreamFormat::Sdk));
    let error = choose(Some("xml"), None).unwrap_err();
    assert!(
        error.contains("unknown format \"xml\"; use events, sdk"),
        "{error}"
    );
    for format in FORMATS {
        assert_eq!(choose(Some(format.as_str()), None), Ok(format));
    }
}

/// A message in which the model calls the tool `read` as `call_1`.
fn calling() -> Message {
    let call = ToolCall::new("call_1", "read", json!({"path": "a.txt"}));
    Message::ai([Part::ToolCall(call)])
}

/// Returns two progress reports of `call_1`, its result, and the end of the run.
fn rest_of_the_run(first_seq: u64) -> Vec<SdkMessage> {
    let envelope = |offset: u32| Envelope::new("th", first_seq + u64::from(offset));
    let progress = |offset: u32| {
        ToolProgress::new(envelope(offset), "call_1", "read", f64::from(offset))
            .with_data(json!({"bytes": offset}))
    };
    let result = ToolResult::new("call_1", "read", "contents");
    vec![
        progress(0).into(),
        progress(1).into(),
        UserEvent::new(envelope(2), [Message::Tool(result)]).into(),
        ResultMessage::new(envelope(3), ResultSubtype::Success).into(),
    ]
}

/// Returns the kinds of the chunks of the AI SDK.
fn kinds(events: &[SseEvent]) -> Vec<String> {
    let chunks = events.iter().filter(|event| event.data != "[DONE]");
    let kinds = chunks.map(|event| {
        let json: Value = serde_json::from_str(&event.data).unwrap();
        let kind = json["type"].as_str().unwrap();
        if json["preliminary"] == true {
            format!("{kind} (preliminary)")
        } else {
            kind.to_owned()
        }
    });
    kinds.collect()
}

const SHOWN_CALL: [&str; 4] = [
    "tool-input-available",
    "tool-output-available (preliminary)",
    "tool-output-available (preliminary)",
    "tool-output-available",
];

#[test]
fn ai_sdk_reader_is_shown_a_call_of_an_earlier_run_before_its_progress() {
    let mut before = AgentState::new("th");
    before.messages = Messages::from("Read it").with(calling());
    let options = EncoderOptions::new("run_1").with_state(before);
    let mut encoder = Encoder::new(StreamFormat::AiSdk, options);
    let mut events = Vec::new();
    encoder.push(&init(), &mut events);
    for message in rest_of_the_run(1) {
        encoder.push(&message, &mut events);
    }
    ai_sdk_rules::check(&events, [], true).unwrap();
    let expected = [&["start"][..], &SHOWN_CALL, &["finish"]].concat();
    assert_eq!(kinds(&events), expected);
}

#[test]
fn ai_sdk_reader_that_begins_within_a_call_is_shown_the_call_before_its_progress() {
    let answer = ApiMessage::new("msg_1", "m", calling());
    let answer = SdkMessage::from(AssistantEvent::new(Envelope::new("th", 1), answer));
    let options = EncoderOptions::new("run_1").with_state(AgentState::new("th"));
    let mut encoder = Encoder::new(StreamFormat::AiSdk, options);
    let mut events = Vec::new();
    encoder.push(&init(), &mut events);
    encoder.push(&answer, &mut events);
    events.clear();
    encoder.snapshot(&mut events);
    let count = events.len();
    for message in rest_of_the_run(2) {
        encoder.push(&message, &mut events);
    }
    let kinds = kinds(&events);
    let expected = [&SHOWN_CALL[..], &["finish-step", "finish"]].concat();
    assert_eq!(kinds[count..], expected);
}

#[test]
fn progress_of_an_unknown_call_has_no_chunk_of_the_ai_sdk() {
    let options = EncoderOptions::new("run_1");
    let mut encoder = Encoder::new(StreamFormat::AiSdk, options);
    let mut events = Vec::new();
    encoder.push(&init(), &mut events);
    for message in rest_of_the_run(1).into_iter().take(2) {
        encoder.push(&message, &mut events);
    }
    assert_eq!(kinds(&events), ["start"]);
}

#[test]
fn ai_sdk_answer_that_was_cut_off_ends_with_its_length() {
    for (stop_reason, expected) in [
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "content-filter"),
        ("end_turn", "stop"),
    ] {
        let mut result = ResultMessage::new(Envelope::new("th", 1), ResultSubtype::Success);
        result.stop_reason = Some(stop_reason.into());
        let mut encoder = Encoder::new(StreamFormat::AiSdk, EncoderOptions::new("run_1"));
        let mut events = Vec::new();
        encoder.push(&init(), &mut events);
        encoder.push(&SdkMessage::from(result), &mut events);
        let is_finish = |event: &&SseEvent| event.data.contains(r#""type":"finish""#);
        let finish = events.iter().find(is_finish).unwrap();
        let json: Value = serde_json::from_str(&finish.data).unwrap();
        assert_eq!(json["finishReason"], expected, "{stop_reason}");
    }
}

/// Returns the first message of a run.
fn init() -> SdkMessage {
    let init = json!({"type": "system", "subtype": "init", "session_id": "th", "seq": 0});
    serde_json::from_str(&init.to_string()).unwrap()
}
