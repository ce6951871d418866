//! The JSON of content: answers, their pieces, and messages to the model.

use std::sync::Arc;

use agentcore::message::{Annotations, Citation, Media, ProviderBlock};
use agentcore::sdk::{
    ApiMessage, ApiStreamEvent, AssistantErrorKind, AssistantEvent, BlockStart, Envelope,
    PartialEvent, UserEvent,
};
use agentcore::{Content, Message, Part, SdkMessage, ToolCall, ToolResult, Usage};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::sdk_golden::{ID, OTHER_ID, assistant, round_trip, stream_event, user};

#[test]
fn assistant_message_with_text_round_trips() {
    let mut json = assistant(json!([{"type": "text", "text": "Hi"}]));
    json["parent_tool_use_id"] = "toolu_0".into();
    json["error"] = "rate_limit".into();
    json["request_id"] = "req_1".into();
    json["supersedes"] = json!([OTHER_ID]);
    json["aborted"] = true.into();
    let read = round_trip(&json);
    assert_eq!(read.text().as_deref(), Some("Hi"));
    assert_eq!(read.uuid().to_string(), ID);
    assert_eq!((read.session_id(), read.seq()), ("th_1", 3));
    assert_eq!(read.parent_tool_use_id(), Some("toolu_0"));
    let SdkMessage::Assistant(event) = read else {
        panic!("not an answer")
    };

    assert_eq!(event.error, Some(AssistantErrorKind::RateLimit));
    assert_eq!((event.supersedes.len(), event.aborted), (1, true));
    assert_eq!(event.message.usage, Usage::new(1, 2));
}

#[test]
fn assistant_message_with_every_block_kind_round_trips() {
    let read = round_trip(&assistant(json!([
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "xx"},
        {"type": "text", "text": "I look"},
        {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "a", "n": 1}},
        {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "q"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
        {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf",
            "data": "aGk="}, "title": "a.pdf"},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "hé"}},
        {"type": "text", "text": 7},
        {"type": "of_tomorrow", "source": {"type": "base64"}, "name": ["not a string"]},
    ])));
    let SdkMessage::Assistant(event) = read else {
        panic!("not an answer")
    };

    let parts = event.message.message.content().parts();
    assert!(matches!(&parts[0], Part::Thinking(block) if block.is_for("anthropic")));
    assert!(matches!(&parts[1], Part::Thinking(_)));
    let call = parts[3].as_tool_call().expect("a call");
    assert_eq!((&*call.id, &*call.name), ("toolu_1", "read"));
    assert_eq!(*call.args, json!({"path": "a", "n": 1}));
    assert!(matches!(&parts[4], Part::Opaque(_)));
    assert!(
        matches!(&parts[5], Part::Image(media) if *media == Media::base64("image/png", "aGk="))
    );
    assert!(
        matches!(&parts[8], Part::Document(media) if *media == Media::bytes("text/plain", "hé".as_bytes()))
    );
    assert!(matches!(
        (&parts[9], &parts[10]),
        (Part::Opaque(_), Part::Opaque(_))
    ));
}

#[test]
fn user_message_with_text_and_results_round_trips() {
    let SdkMessage::User(event) = round_trip(&user(json!("2+2?"))) else {
        panic!()
    };

    assert_eq!(event.messages, [Arc::new(Message::human("2+2?"))]);

    let mut json = user(json!([
        {"type": "tool_result", "tool_use_id": "t1", "content": "4"},
        {"type": "tool_result", "tool_use_id": "t2", "content": "Error: no", "is_error": true},
        {"type": "tool_result", "tool_use_id": "t3", "content": [
            {"type": "text", "text": "a"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}]},
        {"type": "text", "text": "and go on"},
    ]));
    json["tool_use_result"] = json!({"details": [1, null]});
    json["isSynthetic"] = true.into();
    let SdkMessage::User(event) = round_trip(&json) else {
        panic!()
    };

    let results: Vec<_> = event
        .messages
        .iter()
        .filter_map(|one| one.as_tool_result())
        .collect();
    assert_eq!(results.len(), 3);
    assert_eq!(
        (&*results[1].tool_call_id, results[1].is_error),
        ("t2", true)
    );
    assert_eq!(results[2].content.parts().len(), 2);
    assert_eq!(event.messages[3].text(), "and go on");
    assert!(event.is_synthetic && event.tool_use_result.is_some());
}

#[test]
fn stream_events_of_every_kind_round_trip() {
    let start = json!({"type": "message_start", "message": {"id": "msg_1", "type": "message",
        "role": "assistant", "model": "m", "content": [], "stop_reason": null,
        "stop_sequence": null, "usage": {"input_tokens": 9, "output_tokens": 1,
        "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0, "service_tier": "x"}}});
    let delta = |delta: Value| json!({"type": "content_block_delta", "index": 1, "delta": delta});
    let block =
        |block: Value| json!({"type": "content_block_start", "index": 1, "content_block": block});
    for event in [
        start,
        block(json!({"type": "text", "text": ""})),
        block(json!({"type": "text", "text": "already"})),
        block(json!({"type": "text", "text": "", "citations": null})),
        block(json!({"type": "thinking", "thinking": ""})),
        block(json!({"type": "thinking", "thinking": "", "signature": ""})),
        block(json!({"type": "tool_use", "id": "t", "name": "bash", "input": {}})),
        block(json!({"type": "tool_use", "name": "bash", "input": {}})),
        block(json!({"type": "tool_use", "id": 1, "name": "bash"})),
        block(json!({"type": "server_tool_use", "id": "t", "name": "web_search", "input": {}})),
        delta(json!({"type": "text_delta", "text": "Hi"})),
        delta(json!({"type": "input_json_delta", "partial_json": "{\"a"})),
        delta(json!({"type": "thinking_delta", "thinking": "hm"})),
        delta(json!({"type": "signature_delta", "signature": "c2ln"})),
        delta(json!({"type": "citations_delta", "citation": {"url": "u"}})),
        delta(json!({"type": "text_delta", "text": null})),
        json!({"type": "content_block_stop", "index": 1}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null},
               "usage": {"output_tokens": 12, "server_tool_use": {"web_search_requests": 1}}}),
        json!({"type": "message_delta", "delta": "of another shape"}),
        json!({"type": "message_stop"}),
        json!({"type": "ping"}),
        json!({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}),
        json!({"type": "of_tomorrow", "index": "x"}),
        json!({"no": "type"}),
    ] {
        let read = round_trip(&stream_event(event.clone()));
        let text = event["delta"]["text"].as_str();
        assert_eq!(read.text_delta(), text, "{event}");
    }
}

#[test]
fn stream_events_deserialize_into_their_variants() {
    let event = |event: Value| match round_trip(&stream_event(event)) {
        SdkMessage::Partial(partial) => partial.event,
        other => panic!("{other:?}"),
    };

    let block = json!({"type": "tool_use", "id": "t", "name": "bash", "input": {}});
    assert_eq!(
        event(json!({"type": "content_block_start", "index": 2, "content_block": block})),
        ApiStreamEvent::ContentBlockStart {
            index: 2,
            block: BlockStart::ToolUse {
                id: "t".into(),
                name: "bash".into()
            },
        }
    );
    let delta = json!({"type": "message_delta", "usage": {"output_tokens": 12},
        "delta": {"stop_reason": "tool_use", "stop_sequence": null}});
    assert_eq!(
        event(delta),
        ApiStreamEvent::MessageDelta {
            stop_reason: Some("tool_use".into()),
            stop_sequence: None,
            usage: Usage::new(0, 12),
        }
    );
}

#[test]
fn attempt_is_serialized_from_the_second_on() {
    let partial = PartialEvent::new(Envelope::new("s", 1), ApiStreamEvent::Ping);
    let first = serde_json::to_value(SdkMessage::from(partial.clone())).expect("it writes");
    assert!(first.get("attempt").is_none());
    assert_eq!(first["parent_tool_use_id"], Value::Null);
    let mut second = stream_event(json!({"type": "ping"}));
    second["attempt"] = 1.into();
    second["ttft_ms"] = 300.into();
    round_trip(&second);
}

#[test]
fn call_arguments_are_serialized_with_the_spelling_of_the_model() {
    let write = |call: ToolCall| {
        let answer = ApiMessage::new("msg", "m", Message::ai_calling("", [call]));
        let event = AssistantEvent::new(Envelope::new("s", 0), answer);
        serde_json::to_string(&SdkMessage::from(event)).expect("it writes")
    };

    let spaced = write(ToolCall::from_raw("t", "n", "{\"b\": 1,  \"a\": 1.50}"));
    assert!(
        spaced.contains("\"input\":{\"b\": 1,  \"a\": 1.50}}"),
        "{spaced}"
    );

    // A line break between tokens would end the line of a line-delimited stream.
    let broken = write(ToolCall::from_raw("t", "n", "{\n\"a\":\r\n\"x\\n\"\n}"));
    assert!(broken.contains(r#""input":{ "a":  "x\n" }"#), "{broken}");
    assert!(write(ToolCall::from_raw("t", "n", "")).contains(r#""input":{}"#));
    assert!(write(ToolCall::from_raw("t", "n", "{\"a\":")).contains(r#""input":{}"#));
    assert!(write(ToolCall::from_raw("t", "n", "[1]")).contains(r#""input":{}"#));
    assert!(write(ToolCall::new("t", "n", Value::Null)).contains(r#""input":{}"#));
    let rewritten = ToolCall::from_raw("t", "n", "{\"a\":1}").with_args(json!({"a": 2}));
    assert!(write(rewritten).contains(r#""input":{"a":2}"#));
}

#[test]
fn blocks_of_other_providers_and_empty_texts_are_not_serialized() {
    let raw = |text: &str| RawValue::from_string(text.to_owned()).expect("JSON");
    let content = Content::from([
        Part::Thinking(ProviderBlock::new("openai", raw(r#"{"type":"reasoning"}"#))),
        Part::Text(String::new()),
        Part::Thinking(ProviderBlock::new(
            "anthropic",
            raw(r#"{"type":"thinking", "x":1}"#),
        )),
        Part::Text("Hi".to_owned()),
    ]);
    let event = AssistantEvent::new(
        Envelope::new("s", 0),
        ApiMessage::new("i", "m", Message::ai(content)),
    );
    let text = serde_json::to_string(&SdkMessage::from(event)).expect("it writes");
    let content = r#""content":[{"type":"thinking", "x":1},{"type":"text","text":"Hi"}]"#;
    assert!(text.contains(content), "{text}");
}

#[test]
fn text_with_citations_is_one_block_and_reads_back() {
    let citations = json!([
        {"type": "web_search_result_location", "url": "https://example.com", "title": "Tides",
            "cited_text": "noon", "encrypted_index": "Eo8B=="},
        {"type": "char_location", "document_index": 0, "document_title": "a.txt",
            "cited_text": "one", "start_char_index": 0, "end_char_index": 3},
        {"type": "search_result_location", "source": "notes", "title": null, "cited_text": "x"},
        "of tomorrow",
    ]);
    let cited = json!({"type": "text", "text": "It is noon.", "citations": citations});
    let plain = json!({"type": "text", "text": " So."});
    let SdkMessage::Assistant(event) = round_trip(&assistant(json!([cited, plain]))) else {
        panic!("not an answer")
    };

    let content = event.message.message.content();
    let [
        Part::Text(text),
        Part::Annotations(annotations),
        Part::Text(_),
    ] = content.parts()
    else {
        panic!("{content:?}")
    };

    assert_eq!(text, "It is noon.");
    assert_eq!(
        annotations.citations,
        [
            Citation::new("https://example.com")
                .with_title("Tides")
                .with_cited_text("noon"),
            Citation::new("").with_title("a.txt").with_cited_text("one"),
            Citation::new("").with_title("notes").with_cited_text("x"),
        ]
    );
    assert!(
        annotations
            .block
            .as_ref()
            .is_some_and(|block| block.is_for("anthropic"))
    );

    let SdkMessage::User(event) = round_trip(&user(json!([
        {"type": "tool_result", "tool_use_id": "t1", "content": [cited]},
        cited,
        plain,
    ]))) else {
        panic!("not a user's message")
    };

    assert_eq!(event.messages.len(), 2);
    assert_eq!(event.messages[1].content().parts().len(), 3);
}

#[test]
fn text_with_citations_of_another_shape_is_read_as_text() {
    for citations in [json!(null), json!([]), json!("x"), json!({"enabled": true})] {
        let block = json!({"type": "text", "text": "Hi", "citations": citations});
        let message = serde_json::from_value(assistant(json!([block])));
        let message: SdkMessage = message.expect("it reads");
        assert_eq!(message.text().as_deref(), Some("Hi"), "{citations}");
    }

    // Documents also have a field `citations`.
    let document = json!({"type": "document", "source": {"type": "url", "url": "u"},
        "citations": {"enabled": true}});
    let message = serde_json::from_value(user(json!([document])));
    let SdkMessage::User(event) = message.expect("it reads") else {
        panic!("not a user's message")
    };

    assert!(matches!(
        event.messages[0].content().parts(),
        [Part::Document(_)]
    ));
}

#[test]
fn citations_of_other_providers_are_serialized_as_search_results() {
    let raw = RawValue::from_string(r#"{"annotations":[1]}"#.to_owned()).expect("JSON");
    let source = Citation::new("https://example.com").with_title("Tides");
    let annotations = Annotations::new([source]).with_block(ProviderBlock::new("openai", raw));
    let content = Content::from([
        Part::Annotations(annotations.clone()),
        Part::text("a"),
        Part::Annotations(annotations),
        Part::Annotations(Annotations::default()),
        Part::text("b"),
        Part::Annotations(Annotations::default()),
    ]);
    let event = AssistantEvent::new(
        Envelope::new("s", 0),
        ApiMessage::new("i", "m", Message::ai(content)),
    );
    let json = serde_json::to_value(SdkMessage::from(event)).expect("it writes");
    assert_eq!(
        json["message"]["content"],
        json!([
            {"type": "text", "text": "a", "citations": [
                {"type": "web_search_result_location", "url": "https://example.com",
                    "title": "Tides", "cited_text": "", "encrypted_index": ""}]},
            {"type": "text", "text": "b"},
        ])
    );
}

#[test]
fn files_of_other_providers_and_recordings_are_not_serialized() {
    let content = Content::from([
        Part::Audio(Media::bytes("audio/wav", b"x")),
        Part::Image(Media::file("openai", "file-1")),
        Part::Document(Media::file("anthropic", "file_1").with_name("a.pdf")),
    ]);
    let event = UserEvent::new(Envelope::new("s", 0), [Message::human(content)]);
    let json = serde_json::to_value(SdkMessage::from(event)).expect("it writes");
    let document = json!({"type": "document", "source": {"type": "file", "file_id": "file_1"},
        "title": "a.pdf"});
    assert_eq!(json["message"]["content"], json!([document]));
    let SdkMessage::User(event) = round_trip(&user(json!([document]))) else {
        panic!("not a user's message")
    };

    let media = Media::file("anthropic", "file_1").with_name("a.pdf");
    assert_eq!(
        event.messages,
        [Arc::new(Message::human(Part::Document(media)))]
    );
}

#[test]
fn results_of_a_turn_serialize_as_one_message() {
    let call = ToolCall::new("t2", "n", json!({}));
    let event = UserEvent::new(
        Envelope::new("s", 5),
        [
            Message::from(ToolResult::new("t1", "n", "4")),
            Message::from(ToolResult::failed(&call, "no")),
            Message::from(ToolResult::new("t3", "n", Content::new())),
        ],
    );
    let json = serde_json::to_value(SdkMessage::from(event)).expect("it writes");
    assert_eq!(
        json["message"],
        json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": "4"},
            {"type": "tool_result", "tool_use_id": "t2", "content": "Error: no", "is_error": true},
            {"type": "tool_result", "tool_use_id": "t3", "content": ""},
        ]})
    );
}
