//! The Messages API: recorded streams, and the requests that are sent.

use agentcore::message::{Media, ProviderBlock};
use agentcore::model::{
    ModelEvent, ModelSettings, ResponseFold, ResponseFormat, Stability, StopReason, SystemPrompt,
    ThinkingMode, ToolChoice, ToolDefinition,
};
use agentcore::providers::{Anthropic, anthropic};
use agentcore::{
    Content, ErrorKind, Message, Messages, Model, ModelRequest, ModelResponse, Part, ToolCall,
    ToolResult, Usage,
};
use futures::{FutureExt, StreamExt, stream};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::fake_server::{FakeServer, events};

const RECORDINGS: &[(&str, &str)] = &[
    ("text", include_str!("../data/anthropic/text.sse")),
    ("tools", include_str!("../data/anthropic/tools.sse")),
    ("thinking", include_str!("../data/anthropic/thinking.sse")),
    (
        "max_tokens_in_tool",
        include_str!("../data/anthropic/max_tokens_in_tool.sse"),
    ),
    ("open_tool", include_str!("../data/anthropic/open_tool.sse")),
    (
        "server_tool",
        include_str!("../data/anthropic/server_tool.sse"),
    ),
    ("unknown", include_str!("../data/anthropic/unknown.sse")),
    ("refusal", include_str!("../data/anthropic/refusal.sse")),
    (
        "stop_sequence",
        include_str!("../data/anthropic/stop_sequence.sse"),
    ),
    (
        "interleaved",
        include_str!("../data/anthropic/interleaved.sse"),
    ),
    // What llama.cpp's server and a mock server really sent.
    (
        "captured_text",
        include_str!("../data/anthropic/captured_text.sse"),
    ),
    (
        "captured_tool",
        include_str!("../data/anthropic/captured_tool.sse"),
    ),
    ("document", include_str!("../data/anthropic/document.json")),
];

fn recording(name: &str) -> &'static str {
    RECORDINGS
        .iter()
        .find(|(known, _)| *known == name)
        .expect("a recording of this name")
        .1
}

type Events = Vec<Result<ModelEvent, (ErrorKind, String)>>;

fn replay(chunks: &[&[u8]]) -> Events {
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

fn answer(name: &str) -> ModelResponse {
    fold(replay(&[recording(name).as_bytes()]))
}

/// The error a stream of these `data` lines ends with.
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

fn raw(parts: &[Part], at: usize) -> Value {
    match &parts[at] {
        Part::Thinking(block) | Part::Opaque(block) => {
            assert_eq!(block.provider.as_deref(), Some("anthropic"));
            serde_json::from_str(block.raw.get()).expect("JSON")
        }
        part => panic!("{part:?} is not a provider's block"),
    }
}

#[test]
fn a_cut_at_any_byte_changes_nothing() {
    for (name, recording) in RECORDINGS {
        let bytes = recording.as_bytes();
        let whole = replay(&[bytes]);
        assert!(whole.iter().all(Result::is_ok), "{name}: {whole:?}");
        for at in 0..bytes.len() {
            let (a, b) = bytes.split_at(at);
            assert_eq!(replay(&[a, b]), whole, "{name} cut at {at}");
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(replay(&single), whole, "{name} byte by byte");
    }
}

#[test]
fn a_stream_that_breaks_off_is_never_an_answer() {
    for (name, recording) in RECORDINGS {
        // The white space after the last event is no part of the answer.
        let bytes = recording.trim_end().as_bytes();
        for at in 0..bytes.len() {
            let mut events = replay(&[&bytes[..at]]);
            let last = events.pop().expect("an event");
            let (kind, _) = last.expect_err(&format!("{name} truncated at {at}"));
            assert_eq!(kind, ErrorKind::StreamTruncated, "{name} truncated at {at}");
            assert!(events.iter().all(Result::is_ok));
        }
    }
}

#[test]
fn text_is_shown_as_it_comes_and_kept_as_one_part() {
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
fn calls_keep_the_arguments_as_they_were_written() {
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
fn thinking_is_kept_whole_with_its_signature() {
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
fn a_call_cut_off_by_the_output_limit_is_dropped() {
    let response = answer("max_tokens_in_tool");
    let ids: Vec<_> = response.tool_calls().map(|call| &*call.id).collect();
    assert_eq!(ids, ["toolu_01"]);
    assert_eq!(response.stop_reason, Some(StopReason::MaxTokens));

    let response = answer("open_tool");
    assert_eq!(response.tool_calls().count(), 0);
    assert_eq!(response.text(), "Writing");
}

#[test]
fn unreadable_arguments_are_a_call_when_nothing_was_cut_off() {
    let stream = recording("max_tokens_in_tool").replace("\"max_tokens\"", "\"tool_use\"");
    let response = fold(replay(&[stream.as_bytes()]));
    let broken = response.tool_calls().nth(1).expect("a second call");
    assert!(!broken.args.is_object());
    assert_eq!(broken.raw_args.as_deref(), Some("{\"path\": \"b\", \"te"));
}

#[test]
fn blocks_of_the_server_are_kept() {
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
fn what_is_not_known_is_kept_or_ignored() {
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
fn a_refusal_and_a_stop_sequence_are_told() {
    let refusal = answer("refusal");
    assert_eq!(refusal.stop_reason, Some(StopReason::Refusal));
    assert!(refusal.content.parts().is_empty());

    let response = answer("stop_sequence");
    assert_eq!(response.stop_sequence.as_deref(), Some("END"));
    assert_eq!(response.content.parts().len(), 2);
}

#[test]
fn blocks_may_overlap_and_ids_become_distinct() {
    let response = answer("interleaved");
    let calls: Vec<_> = response.tool_calls().collect();
    assert_eq!(*calls[0].args, json!({"x": 1}));
    assert_eq!(*calls[1].args, json!({"x": 2}));
    assert_ne!(calls[0].id, calls[1].id);
}

#[test]
fn an_answer_that_is_not_streamed_is_read_too() {
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
fn an_error_in_the_stream_keeps_what_came_before() {
    let events = replay(&[include_bytes!("../data/anthropic/overloaded.sse")]);
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
fn events_out_of_order_break_the_protocol() {
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
    let stop = || json!({"type": "message_stop"});
    let cases: [&[Value]; 10] = [
        &[block(0)],
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
fn garbage_is_named_and_shown() {
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

// Requests.

async fn send(server: &FakeServer, request: ModelRequest) -> ModelResponse {
    Anthropic::new("claude-sonnet-4-5", "sk-test-123456")
        .base_url(server.url())
        .call(request)
        .await
        .expect("an answer")
}

async fn sent(request: ModelRequest) -> Value {
    let server = FakeServer::start([events(recording("text"))]).await;
    send(&server, request).await;
    server.last_request().json()
}

fn marked() -> Value {
    json!({"type": "ephemeral"})
}

fn history() -> Messages {
    let thinking = serde_json::value::RawValue::from_string(
        "{ \"signature\":\"s\", \"thinking\":\"t\", \"type\":\"thinking\" }".to_owned(),
    )
    .expect("JSON");
    let foreign = serde_json::value::RawValue::from_string("{\"x\":1}".to_owned()).expect("JSON");
    let mut answer = Content::new();
    answer.push(Part::Thinking(ProviderBlock::new("anthropic", thinking)));
    answer.push(Part::Opaque(ProviderBlock::new("openai", foreign)));
    answer.push(Part::text("  \n"));
    answer.push(Part::text("I look."));
    answer.push(ToolCall::from_raw(
        "call:1",
        "weather.now",
        "{ \"city\": \"Oslo\" }",
    ));
    answer.push(ToolCall::from_raw("b", "now", "{broken"));
    let failed = ToolResult::failed(&ToolCall::new("b", "now", json!({})), "bad arguments");
    Messages::new()
        .system("Be brief.")
        .human("Hi\0there")
        .ai(answer)
        .tool("call:1", "weather.now", "")
        .with(Message::from(failed))
        .human(vec![
            Part::text("And this?"),
            Part::Image(Media::base64("image/png", "aGk=")),
            Part::Document(Media::bytes("text/plain", b"notes").with_name("n.txt")),
        ])
        .system("The clock struck.")
}

#[tokio::test]
async fn a_history_becomes_alternating_messages() {
    let tool = ToolDefinition::new("now", "The time.", json!({"type": "object"}));
    let mut system = SystemPrompt::from("You help.");
    system.set("clock", "It is noon.", Stability::Volatile);
    let request = ModelRequest::new(history())
        .with_system(system)
        .with_tools([tool])
        .with_max_tokens(100);
    assert_eq!(
        sent(request).await,
        json!({
            "model": "claude-sonnet-4-5",
            "max_tokens": 100,
            "stream": true,
            "tools": [{"name": "now", "description": "The time.",
                "input_schema": {"type": "object"}, "cache_control": marked()}],
            "system": [
                {"type": "text", "text": "You help."},
                {"type": "text", "text": "Be brief.", "cache_control": marked()},
                {"type": "text", "text": "It is noon."},
            ],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "Hi\u{FFFD}there"}]},
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "t", "signature": "s"},
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "call_1", "name": "weather_now",
                        "input": {"city": "Oslo"}},
                    {"type": "tool_use", "id": "b", "name": "now", "input": {}},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "call_1",
                        "content": [{"type": "text", "text": "(no output)"}]},
                    {"type": "tool_result", "tool_use_id": "b", "is_error": true,
                        "content": [{"type": "text", "text": "Error: bad arguments"}]},
                    {"type": "text", "text": "And this?"},
                    {"type": "image", "source":
                        {"type": "base64", "media_type": "image/png", "data": "aGk="}},
                    {"type": "document", "title": "n.txt", "source":
                        {"type": "text", "media_type": "text/plain", "data": "notes"}},
                    {"type": "text", "text": "<system>\nThe clock struck.\n</system>",
                        "cache_control": marked()},
                ]},
            ],
        })
    );
}

#[tokio::test]
async fn blocks_and_arguments_are_sent_as_they_came() {
    let server = FakeServer::start([events(recording("text"))]).await;
    send(&server, ModelRequest::new(history())).await;
    let request = server.last_request();
    for verbatim in [
        "{ \"signature\":\"s\", \"thinking\":\"t\", \"type\":\"thinking\" }",
        "{ \"city\": \"Oslo\" }",
    ] {
        assert!(request.text().contains(verbatim), "{verbatim}");
    }
    assert!(request.head.contains("post /v1/messages "));
    assert!(request.head.contains("\r\nx-api-key: sk-test-123456\r\n"));
    assert!(
        request
            .head
            .contains("\r\nanthropic-version: 2023-06-01\r\n")
    );
    assert!(
        request
            .head
            .contains("\r\ncontent-type: application/json\r\n")
    );
}

#[tokio::test]
async fn settings_become_fields() {
    let mut request = ModelRequest::new("x").with_max_tokens(500);
    request.temperature = Some(0.5);
    request.stop = vec!["END".to_owned()].into();
    request.settings = ModelSettings::new()
        .top_p(0.9)
        .top_k(5)
        .seed(1)
        .parallel_tool_calls(false)
        .prompt_cache(false);
    request.tools = [ToolDefinition::new("f", "", json!({"type": "object"}))].into();
    request
        .extra
        .insert("metadata".into(), json!({"user_id": "u"}));
    request.extra.insert("max_tokens".into(), json!(7));
    request.response_format = Some(ResponseFormat::JsonSchema {
        name: "n".into(),
        schema: json!({"type": "object"}).into(),
    });
    assert_eq!(
        sent(request.clone()).await,
        json!({
            "model": "claude-sonnet-4-5", "max_tokens": 7, "stream": true,
            "messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}],
            "tools": [{"name": "f", "input_schema": {"type": "object"}}],
            "tool_choice": {"type": "auto", "disable_parallel_tool_use": true},
            "temperature": 0.5, "top_p": 0.9, "top_k": 5, "stop_sequences": ["END"],
            "output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}},
            "metadata": {"user_id": "u"},
        })
    );

    request.extra.clear();
    request.settings.thinking = Some(ThinkingMode::Budget(2000));
    let body = sent(request.clone()).await;
    assert_eq!(
        body["thinking"],
        json!({"type": "enabled", "budget_tokens": 2000})
    );
    assert_eq!(body["max_tokens"], 2500);
    for dropped in ["temperature", "top_k", "top_p"] {
        assert_eq!(body[dropped], Value::Null, "{dropped}");
    }

    request.settings.thinking = Some(ThinkingMode::Adaptive);
    assert_eq!(
        sent(request.clone()).await["thinking"],
        json!({"type": "adaptive"})
    );

    request.tool_choice = ToolChoice::Tool("f".into());
    let body = sent(request.clone()).await;
    assert_eq!(body["thinking"], Value::Null);
    assert_eq!(
        body["tool_choice"],
        json!({"type": "tool", "name": "f", "disable_parallel_tool_use": true})
    );

    request.settings.thinking = Some(ThinkingMode::Effort("low".into()));
    request.model = Some("claude-haiku-4-5".into());
    let body = sent(request).await;
    assert_eq!(body["output_config"]["effort"], "low");
    assert_eq!(body["model"], "claude-haiku-4-5");
}

#[tokio::test]
async fn odd_histories_are_made_acceptable() {
    let nothing = json!([{"type": "text", "text": "(nothing)"}]);
    let mut request = ModelRequest::new(
        Messages::new()
            .ai("I begin.")
            .ai("And go on.")
            .human(" ")
            .ai("Continue: "),
    );
    request.settings = ModelSettings::new().prompt_cache(false);
    let text = |text: &str| json!({"type": "text", "text": text});
    assert_eq!(
        sent(request).await["messages"],
        json!([
            {"role": "user", "content": nothing},
            {"role": "assistant", "content": [text("I begin."), text("And go on.")]},
            {"role": "user", "content": nothing},
            {"role": "assistant", "content": [text("Continue:")]},
        ])
    );
}

#[tokio::test]
async fn a_request_without_messages_is_refused_before_it_is_sent() {
    let server = FakeServer::start([events(recording("text"))]).await;
    let error = Anthropic::new("m", "k")
        .base_url(server.url())
        .call(ModelRequest::new(Messages::new().system("only")))
        .await
        .expect_err("nothing to send");
    assert_eq!(error.kind(), ErrorKind::InvalidMessages);
    assert!(server.requests().is_empty());
}

/// What a turn of a run may do to its history.
#[derive(Clone, Debug)]
enum Turn {
    Push(u8),
    Truncate(usize),
    Replace(usize),
}

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let turn = prop_oneof![
        8 => (0_u8..5).prop_map(Turn::Push),
        1 => (0_usize..12).prop_map(Turn::Truncate),
        1 => (0_usize..12).prop_map(Turn::Replace),
    ];
    proptest::collection::vec(turn, 1..16)
}

fn apply(turn: &Turn, at: usize, messages: &mut Messages) {
    let text = format!("message {at}");
    match turn {
        Turn::Push(0) => messages.push(Message::human(text)),
        Turn::Push(1) => messages.push(Message::ai(text)),
        Turn::Push(2) => messages.push(Message::tool("c", "f", text)),
        Turn::Push(3) => messages.push(Message::system(text)),
        Turn::Push(_) => {
            messages.push(Message::ai_calling(
                text,
                [ToolCall::new("c", "f", json!({"a": at}))],
            ));
        }
        Turn::Truncate(len) => {
            *messages = messages.as_slice().iter().take(*len).cloned().collect();
        }
        Turn::Replace(index) => {
            if let Some(message) = messages.get_mut(*index) {
                *message.content_mut() = text.into();
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn kept_bytes_equal_fresh_ones(turns in turns()) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let server = FakeServer::start([events(recording("text"))]).await;
            let mut running = ModelRequest::new(Messages::new().human("begin"));
            for (at, turn) in turns.iter().enumerate() {
                apply(turn, at, &mut running.messages);
                if running.messages.iter().all(|message| message.role().as_str() == "system") {
                    continue;
                }
                send(&server, running.clone()).await;
                let kept = server.last_request().body;
                send(&server, ModelRequest::new(running.messages.clone())).await;
                assert_eq!(kept, server.last_request().body, "after {:?}", &turns[..=at]);
            }
        });
    }
}

#[tokio::test]
async fn a_turn_leaves_the_bytes_before_it_as_they_were() {
    let server = FakeServer::start([events(recording("text"))]).await;
    let mut request = ModelRequest::new("begin")
        .with_system("You help.")
        .with_tools([ToolDefinition::new("f", "d", json!({"type": "object"}))]);
    let mut before: Option<String> = None;
    for turn in 0..6 {
        send(&server, request.clone()).await;
        let body = server.last_request().text().to_owned();
        if let Some(before) = before {
            // All but the last message, whose breakpoint moves on.
            let stable = before.rfind("{\"role\":").expect("a message");
            assert_eq!(body[..stable], before[..stable], "turn {turn}");
        }
        before = Some(body);
        let call = ToolCall::from_raw(format!("c{turn}"), "f", "{ }");
        request
            .messages
            .push(Message::ai_calling("working", [call]));
        request
            .messages
            .push(Message::tool(format!("c{turn}"), "f", "done"));
    }
}
