//! Answers of the Messages API, from recorded streams.

use agentcore::model::{ModelEvent, ResponseFold, StopReason};
use agentcore::providers::anthropic;
use agentcore::{ErrorKind, ModelResponse, Part, Usage};
use futures::{FutureExt, StreamExt, stream};
use serde_json::{Value, json};

use crate::kit::effort::cuts;

const RECORDINGS: &[(&str, &str)] = &[
    ("text", include_str!("../../data/anthropic/text.sse")),
    ("tools", include_str!("../../data/anthropic/tools.sse")),
    (
        "thinking",
        include_str!("../../data/anthropic/thinking.sse"),
    ),
    (
        "max_tokens_in_tool",
        include_str!("../../data/anthropic/max_tokens_in_tool.sse"),
    ),
    (
        "open_tool",
        include_str!("../../data/anthropic/open_tool.sse"),
    ),
    (
        "server_tool",
        include_str!("../../data/anthropic/server_tool.sse"),
    ),
    ("unknown", include_str!("../../data/anthropic/unknown.sse")),
    ("refusal", include_str!("../../data/anthropic/refusal.sse")),
    (
        "stop_sequence",
        include_str!("../../data/anthropic/stop_sequence.sse"),
    ),
    (
        "interleaved",
        include_str!("../../data/anthropic/interleaved.sse"),
    ),
    (
        "citations",
        include_str!("../../data/anthropic/citations.sse"),
    ),
    (
        "server_and_local",
        include_str!("../../data/anthropic/server_and_local.sse"),
    ),
    (
        "code_execution",
        include_str!("../../data/anthropic/code_execution.sse"),
    ),
    (
        "refusal_details",
        include_str!("../../data/anthropic/refusal_details.sse"),
    ),
    (
        "omitted_thinking",
        include_str!("../../data/anthropic/omitted_thinking.sse"),
    ),
    (
        "usage_split",
        include_str!("../../data/anthropic/usage_split.sse"),
    ),
    // Responses of llama.cpp's server and of a mock server.
    (
        "captured_text",
        include_str!("../../data/anthropic/captured_text.sse"),
    ),
    (
        "captured_tool",
        include_str!("../../data/anthropic/captured_tool.sse"),
    ),
    (
        "document",
        include_str!("../../data/anthropic/document.json"),
    ),
];

pub(super) fn recording(name: &str) -> &'static str {
    RECORDINGS
        .iter()
        .find(|(known, _)| *known == name)
        .expect("a recording of this name")
        .1
}

pub(super) type Events = Vec<Result<ModelEvent, (ErrorKind, String)>>;

pub(super) fn replay(chunks: &[&[u8]]) -> Events {
    let chunks: Vec<_> = chunks
        .iter()
        .map(|chunk| Ok(chunk.to_vec().into()))
        .collect();
    let events = anthropic::decode(stream::iter(chunks))
        .map(|event| event.map_err(|error| (error.kind(), error.text().to_owned())));
    events
        .collect()
        .now_or_never()
        .expect("a recording never waits")
}

fn fold(events: Events) -> ModelResponse {
    let mut fold = ResponseFold::new();
    for event in events {
        fold.push(event.expect("no error"));
    }
    fold.finish().expect("a whole answer")
}

pub(super) fn answer(name: &str) -> ModelResponse {
    fold(replay(&[recording(name).as_bytes()]))
}

/// Returns the error with which a stream of these `data` lines ends.
fn failure(data: &[Value]) -> (ErrorKind, String) {
    let stream: String = data
        .iter()
        .map(|data| format!("data: {data}\n\n"))
        .collect();
    let mut events = replay(&[stream.as_bytes()]);
    let error = events.pop().expect("an event").expect_err("an error");
    assert!(events.iter().all(Result::is_ok));
    error
}

pub(super) fn raw(parts: &[Part], at: usize) -> Value {
    match &parts[at] {
        Part::Thinking(block) | Part::Opaque(block) => {
            assert_eq!(block.provider.as_deref(), Some("anthropic"));
            serde_json::from_str(block.raw.get()).expect("JSON")
        }
        part => panic!("{part:?} is not a provider's block"),
    }
}

#[test]
fn split_at_any_byte_gives_equal_events() {
    for (name, recording) in RECORDINGS {
        let bytes = recording.as_bytes();
        let whole = replay(&[bytes]);
        assert!(whole.iter().all(Result::is_ok), "{name}: {whole:?}");
        for at in cuts(bytes) {
            let (a, b) = bytes.split_at(at);
            assert_eq!(replay(&[a, b]), whole, "{name} cut at {at}");
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(replay(&single), whole, "{name} byte by byte");
    }
}

#[test]
fn truncated_stream_is_never_an_answer() {
    for (name, recording) in RECORDINGS {
        // The stream is complete without the whitespace after the last event.
        let bytes = recording.trim_end().as_bytes();
        for at in cuts(bytes).into_iter().filter(|at| *at < bytes.len()) {
            let mut events = replay(&[&bytes[..at]]);
            let last = events.pop().expect("an event");
            let (kind, _) = last.expect_err(&format!("{name} truncated at {at}"));
            assert_eq!(kind, ErrorKind::StreamTruncated, "{name} truncated at {at}");
            assert!(events.iter().all(Result::is_ok));
        }
    }
}

#[test]
fn text_is_streamed_in_pieces_and_stored_as_one_part() {
    let events = replay(&[recording("text").as_bytes()]);
    let texts: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Ok(ModelEvent::Text(text)) => Some(&**text),
            _ => None,
        })
        .collect();
    assert_eq!(texts, ["Hel", "lo \u{E9}\u{1F600}", " \"quoted\"\n"]);
    let response = fold(events);
    assert_eq!(response.content.parts().len(), 1);
    assert_eq!(&*response.id, "msg_01");
    assert_eq!(&*response.model, "claude-sonnet-4-5-20250929");
    assert_eq!(response.stop_reason, Some(StopReason::EndTurn));
    assert_eq!(response.usage, Usage::new(25, 15).with_cache(200, 100));
}

#[test]
fn calls_keep_the_raw_arguments() {
    let response = answer("tools");
    let calls: Vec<_> = response.tool_calls().collect();
    assert_eq!(*calls[0].args, json!({"city": "Paris"}));
    assert_eq!(calls[0].raw_args.as_deref(), Some("{\"city\": \"Paris\"}"));
    assert_eq!((&*calls[1].id, &*calls[1].name), ("toolu_02", "now"));
    assert_eq!(*calls[1].args, json!({}));
    assert_eq!(response.stop_reason, Some(StopReason::ToolUse));
    assert_eq!(response.text(), "Looking.");
}

#[test]
fn thinking_is_kept_with_its_signature() {
    let response = answer("thinking");
    let parts = response.content.parts();
    assert_eq!(
        raw(parts, 0),
        json!({
            "type": "thinking",
            "thinking": "Let me see.",
            "signature": "EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pk=",
        })
    );
    assert_eq!(
        raw(parts, 1),
        json!({"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3pzix/LafPsn4a"})
    );
    assert_eq!(parts[2].as_text(), Some("Four."));
}

#[test]
fn call_cut_by_the_output_limit_is_dropped() {
    let response = answer("max_tokens_in_tool");
    let ids: Vec<_> = response.tool_calls().map(|call| &*call.id).collect();
    assert_eq!(ids, ["toolu_01"]);
    assert_eq!(response.stop_reason, Some(StopReason::MaxTokens));

    let response = answer("open_tool");
    assert_eq!(response.tool_calls().count(), 0);
    assert_eq!(response.text(), "Writing");
}

#[test]
fn invalid_arguments_of_a_complete_answer_are_kept_raw() {
    let stream = recording("max_tokens_in_tool").replace("\"max_tokens\"", "\"tool_use\"");
    let response = fold(replay(&[stream.as_bytes()]));
    let broken = response.tool_calls().nth(1).expect("a second call");
    assert!(!broken.args.is_object());
    assert_eq!(broken.raw_args.as_deref(), Some("{\"path\": \"b\", \"te"));
}

#[test]
fn server_tool_blocks_are_kept() {
    let response = answer("server_tool");
    let parts = response.content.parts();
    assert_eq!(
        raw(parts, 0),
        json!({
            "type": "server_tool_use", "id": "srvtoolu_01", "name": "web_search",
            "input": {"query": "rust"},
        })
    );
    assert_eq!(raw(parts, 1)["content"][0]["encrypted_content"], "Eo8B");
    assert_eq!(parts[2].as_text(), Some("Rust is a language."));
    assert_eq!(response.stop_reason, Some(StopReason::PauseTurn));
    assert_eq!(response.usage.input_tokens, 30);
}

#[test]
fn unknown_blocks_are_kept_and_unknown_events_ignored() {
    let response = answer("unknown");
    let parts = response.content.parts();
    assert_eq!(
        raw(parts, 0),
        json!({"type": "hologram_block", "text": "ab", "depth": 2})
    );
    assert_eq!(parts[1].as_text(), Some("Hi"));
    assert_eq!(
        response.stop_reason,
        Some(StopReason::Other("a_new_reason".into()))
    );
}

#[test]
fn unexpected_field_types_do_not_fail_an_answer() {
    let events = [
        json!({"type": "message_start", "message": {"id": "m", "content": null,
            "usage": {"input_tokens": "12", "output_tokens": null, "server_tool_use": null}}}),
        json!({"type": "content_block_start", "index": u32::MAX,
            "content_block": {"type": "text", "text": "Hi"}}),
        json!({"type": "content_block_stop", "index": u32::MAX}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"},
            "usage": {"output_tokens": 3.0, "cache_read_input_tokens": {}}}),
        json!({"type": "message_stop"}),
    ];
    let stream: String = events
        .iter()
        .map(|data| format!("data: {data}\n\n"))
        .collect();
    let response = fold(replay(&[stream.as_bytes()]));
    assert_eq!(response.text(), "Hi");
    assert_eq!(response.usage, Usage::new(12, 3));
}

#[test]
fn refusal_and_stop_sequence_are_reported() {
    let refusal = answer("refusal");
    assert_eq!(refusal.stop_reason, Some(StopReason::Refusal));
    assert!(refusal.content.parts().is_empty());

    let response = answer("stop_sequence");
    assert_eq!(response.stop_sequence.as_deref(), Some("END"));
    assert_eq!(response.content.parts().len(), 2);
}

#[test]
fn interleaved_blocks_decode_and_duplicate_ids_are_renamed() {
    let response = answer("interleaved");
    let calls: Vec<_> = response.tool_calls().collect();
    assert_eq!(*calls[0].args, json!({"x": 1}));
    assert_eq!(*calls[1].args, json!({"x": 2}));
    assert_ne!(calls[0].id, calls[1].id);
}

#[test]
fn answer_in_one_document_is_read() {
    let response = answer("document");
    assert_eq!(response.text(), "Hello");
    assert_eq!(
        *response.tool_calls().next().expect("a call").args,
        json!({"x": [1, 2]})
    );
    assert_eq!(response.usage, Usage::new(3, 7));

    let error = replay(&[br#"{"type":"error","error":{"type":"not_found_error","message":"no"}}"#]);
    assert!(matches!(&error[..], [Err((ErrorKind::NotFound, _))]));
}

#[test]
fn error_in_the_stream_keeps_earlier_events() {
    let events = replay(&[include_bytes!("../../data/anthropic/overloaded.sse")]);
    assert!(matches!(&events[2], Ok(ModelEvent::Text(text)) if text == "Hel"));
    let Some(Err((kind, text))) = events.last() else {
        panic!("{events:?} has no error");
    };

    assert_eq!(*kind, ErrorKind::Overloaded);
    assert!(
        text.contains("Overloaded") && text.starts_with("anthropic: "),
        "{text}"
    );

    let cases = [
        ("rate_limit_error", ErrorKind::RateLimited),
        ("invalid_request_error", ErrorKind::InvalidRequest),
        ("authentication_error", ErrorKind::Auth),
        ("api_error", ErrorKind::Server),
        ("billing_error", ErrorKind::QuotaExhausted),
        ("something_new", ErrorKind::Server),
    ];
    for (code, kind) in cases {
        let event = json!({"type": "error", "error": {"type": code, "message": "m"}});
        assert_eq!(failure(&[event]).0, kind, "{code}");
    }
}

#[test]
fn events_out_of_order_are_protocol_errors() {
    let start = || json!({"type": "message_start", "message": {"id": "m"}});
    let block = |index: u32| {
        json!({"type": "content_block_start", "index": index,
            "content_block": {"type": "text", "text": ""}})
    };

    let delta = |index: u32| {
        json!({"type": "content_block_delta", "index": index,
            "delta": {"type": "text_delta", "text": "x"}})
    };

    let end = |index: u32| json!({"type": "content_block_stop", "index": index});
    let ending = || {
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"},
            "usage": {"output_tokens": 1}})
    };

    let stop = || json!({"type": "message_stop"});
    let cases: [&[Value]; 13] = [
        &[block(0)],
        &[delta(0), start(), block(0)],
        &[ending()],
        &[ending(), start(), stop()],
        &[stop()],
        &[start(), start()],
        &[start(), delta(0)],
        &[start(), end(0)],
        &[start(), block(0), delta(1)],
        &[start(), block(0), block(0)],
        &[start(), block(0), end(0), delta(0)],
        &[start(), block(0), end(0), block(0)],
        &[start(), json!({"type": "content_block_delta", "index": 0})],
    ];
    for case in cases {
        assert_eq!(failure(case).0, ErrorKind::Protocol, "{case:?}");
    }
}

#[test]
fn garbage_is_a_protocol_error_with_a_short_excerpt() {
    let cases: [&[u8]; 4] = [
        b"<html>down for repairs</html>",
        b"data: {not json}\n\n",
        b"data: {\"type\":\"content_block_delta\",\"index\":\"one\"}\n\n",
        b"complete nonsense\n\n",
    ];
    for garbage in cases {
        let events = replay(&[garbage]);
        let [Err((ErrorKind::Protocol, text))] = &events[..] else {
            panic!("{events:?}");
        };

        assert!(text.len() < 400, "{text}");
    }
}
