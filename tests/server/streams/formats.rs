//! The encoders over recorded runs.

use agentcore::SdkMessage;
use agentcore::server::{Encoder, EncoderOptions, SseEvent, StreamFormat};

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

/// The events of a whole run.
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
