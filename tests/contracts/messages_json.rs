//! The JSON of messages, byte for byte.

use agentcore::message::{
    Annotations, Citation, Media, MediaSource, ProviderBlock, Role, ToolResultView,
};
use agentcore::{Content, ErrorKind, Message, Messages, Part, ToolCall, ToolResult};
use serde_json::value::RawValue;
use serde_json::{Value, json};

fn write(message: &Message) -> String {
    serde_json::to_string(message).expect("messages can always be written")
}

fn read(json: &str) -> Message {
    serde_json::from_str(json).expect(json)
}

/// Reads a message in three ways, checks that the results agree, and returns it as JSON.
fn rewrite(json: &str) -> String {
    let message = read(json);
    let from_slice: Message = serde_json::from_slice(json.as_bytes()).expect(json);
    assert_eq!(from_slice, message);
    let text = write(&message);
    assert_eq!(read(&text), message, "{json} was written as {text}");
    text
}

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).expect(json)
}

fn block(provider: Option<&str>, json: &str) -> ProviderBlock {
    let mut block = ProviderBlock::new("", raw(json));
    block.provider = provider.map(Into::into);
    block
}

#[test]
fn sample_conversation_round_trips_byte_for_byte() {
    let json = concat!(
        r##"[{"role":"system","content":"You are a coding assistant.\n\n<agent_memory>\n# Project notes\n</agent_memory>"},"##,
        r#"{"role":"user","content":"Read the main.py file"},"#,
        r#"{"role":"assistant","content":"","tool_calls":[{"id":"call_abc123","name":"read_file","args":{"path":"/workspace/main.py"}}]},"#,
        r#"{"role":"tool","content":"from fastapi import FastAPI\napp = FastAPI()","tool_call_id":"call_abc123","name":"read_file"}]"#,
    );
    let history: Messages = serde_json::from_str(json).unwrap();
    assert_eq!(serde_json::to_string(&history).unwrap(), json);
    let value: Value = serde_json::from_str(json).unwrap();
    assert_eq!(serde_json::from_value::<Messages>(value).unwrap(), history);
    assert_eq!(Messages::from_json(json).unwrap(), history);
    let call = ToolCall::new(
        "call_abc123",
        "read_file",
        json!({"path": "/workspace/main.py"}),
    );
    assert_eq!(history.get(2), Some(&Message::ai_calling("", [call])));
    history.validate_for_model().unwrap();
}

#[test]
fn raw_arguments_are_not_serialized() {
    let call = ToolCall::from_raw("c", "f", r#"{ "secret spelling" : 1}"#);
    let json = write(&Message::ai_calling("Hm", [call]));
    assert_eq!(
        json,
        r#"{"role":"assistant","content":"Hm","tool_calls":[{"id":"c","name":"f","args":{"secret spelling":1}}]}"#
    );
    assert!(read(&json).tool_calls().all(|call| call.raw_args.is_none()));
}

#[test]
fn content_other_than_text_then_calls_is_an_array_of_parts() {
    let call = || ToolCall::new("c", "f", json!({}));
    let cases: [(Content, &str); 8] = [
        (
            [Part::text("a"), Part::text("b")].into(),
            r#"[{"type":"text","text":"a"},{"type":"text","text":"b"}]"#,
        ),
        (
            [Part::ToolCall(call()), Part::text("b")].into(),
            r#"[{"type":"tool_call","id":"c","name":"f","args":{}},{"type":"text","text":"b"}]"#,
        ),
        (
            [Part::text(""), Part::ToolCall(call())].into(),
            r#"[{"type":"text","text":""},{"type":"tool_call","id":"c","name":"f","args":{}}]"#,
        ),
        (
            Part::Image(Media::base64("image/png", "AAEC").with_name("p.png")).into(),
            r#"[{"type":"image","media_type":"image/png","data":"AAEC","name":"p.png"}]"#,
        ),
        (
            Part::Document(Media::url("https://example.com/a.pdf")).into(),
            r#"[{"type":"document","url":"https://example.com/a.pdf"}]"#,
        ),
        (
            Part::Thinking(block(
                Some("anthropic"),
                r#"{"type":"thinking", "signature":"x=="}"#,
            ))
            .into(),
            r#"[{"type":"thinking","provider":"anthropic","block":{"type":"thinking", "signature":"x=="}}]"#,
        ),
        (
            Part::Opaque(block(Some("openai"), r#"{"b":1,"a":[ ]}"#)).into(),
            r#"[{"type":"opaque","provider":"openai","block":{"b":1,"a":[ ]}}]"#,
        ),
        (
            Part::Opaque(block(None, "[1, 2]")).into(),
            r#"[{"type":"opaque","block":[1, 2]}]"#,
        ),
    ];
    for (content, expected) in cases {
        let message = Message::ai(content);
        let json = write(&message);
        assert_eq!(
            json,
            format!(r#"{{"role":"assistant","content":{expected}}}"#)
        );
        assert_eq!(rewrite(&json), json);
        assert_eq!(read(&json), message);
        let content = serde_json::to_string(message.content()).unwrap();
        assert_eq!(&content, expected);
        assert_eq!(
            &serde_json::from_str::<Content>(&content).unwrap(),
            message.content()
        );
    }
}

#[test]
fn blocks_without_a_provider_are_read_and_written_unwrapped() {
    for (block, thinking) in [
        (
            r#"{"type":"thinking","thinking":"","signature":"EqQB+/=="}"#,
            true,
        ),
        (r#"{"type":"redacted_thinking","data":"Eu8="}"#, true),
        (
            r#"{"z":1.0,  "type" : "server_tool_use", "text":7, "id":{}, "big":12345678901234567890123}"#,
            false,
        ),
        (
            r#"{"type":"image","source":{"type":"base64","media_type":"image/png","data":""}}"#,
            false,
        ),
        (r#"{"type":"opaque","payload":null}"#, false),
    ] {
        let json = format!(r#"{{"role":"assistant","content":[{block}]}}"#);
        assert_eq!(rewrite(&json), json);
        let message = read(&json);
        let provider_block = match &message.content().parts()[0] {
            Part::Thinking(provider_block) if thinking => provider_block,
            Part::Opaque(provider_block) if !thinking => provider_block,
            other => panic!("{block} was read as {other:?}"),
        };
        assert_eq!(provider_block.raw.get(), block);
        assert_eq!(provider_block.provider, None);
    }
}

#[test]
fn bare_block_that_looks_like_another_part_is_wrapped() {
    for part in [
        Part::Opaque(block(None, r#"{"type":"text","text":"not ours"}"#)),
        Part::Opaque(block(None, r#"{"type":"opaque","block":1}"#)),
        Part::Thinking(block(None, r#"{"type":"reasoning","id":"rs_1"}"#)),
        Part::Thinking(block(None, "\"a string\"")),
    ] {
        let message = Message::ai(part);
        assert_eq!(read(&write(&message)), message);
    }
}

#[test]
fn parts_deserialize_from_a_json_value() {
    let value = json!({"role": "user", "content": [
        {"type": "text", "text": "look"},
        {"type": "image", "media_type": "image/png", "data": "AA=="},
        {"type": "thinking", "provider": "p", "block": {"x": 1}},
        {"type": "custom", "x": [1, 2]},
    ]});
    let message: Message = serde_json::from_value(value.clone()).unwrap();
    assert_eq!(message.content().parts().len(), 4);
    assert_eq!(serde_json::to_value(&message).unwrap(), value);
}

#[test]
fn call_with_malformed_extra_is_read_without_it() {
    for extra in [
        "null",
        "5",
        r#""text""#,
        "[]",
        "{}",
        r#"{"provider":"gemini"}"#,
        r#"{"provider":7,"block":{}}"#,
    ] {
        for json in [
            format!(
                r#"{{"role":"assistant","content":"","tool_calls":[{{"id":"c","name":"f","args":{{"a":1}},"extra":{extra}}}]}}"#
            ),
            format!(
                r#"{{"role":"assistant","content":[{{"type":"tool_call","id":"c","name":"f","args":{{"a":1}},"extra":{extra}}}]}}"#
            ),
        ] {
            let call = ToolCall::new("c", "f", json!({"a": 1}));
            let message = read(&json);
            assert_eq!(message, Message::ai_calling("", [call]), "{json}");
            assert!(message.tool_calls().all(|call| call.extra.is_none()));
            rewrite(&json);
        }
    }
}

#[test]
fn extra_of_calls_round_trips_byte_for_byte() {
    let extra = r#""extra":{"provider":"gemini","block":{"thoughtSignature" : "c2ln", "n":1e2}}"#;
    for json in [
        format!(
            r#"{{"role":"assistant","content":"Hm","tool_calls":[{{"id":"c","name":"f","args":{{}},{extra}}}]}}"#
        ),
        format!(
            r#"{{"role":"assistant","content":[{{"type":"tool_call","id":"c","name":"f","args":{{}},{extra}}},{{"type":"text","text":"b"}}]}}"#
        ),
    ] {
        assert_eq!(rewrite(&json), json);
        let message = read(&json);
        let call = message.tool_calls().next().unwrap();
        let fields = call.extra.as_deref().unwrap();
        assert_eq!(fields.provider.as_deref(), Some("gemini"));
        assert_eq!(
            fields.raw.get(),
            r#"{"thoughtSignature" : "c2ln", "n":1e2}"#
        );
        assert_eq!(
            *call,
            ToolCall::new("c", "f", json!({})),
            "it does not count"
        );
        let value: Value = serde_json::from_str(&json).unwrap();
        let from_value: Message = serde_json::from_value(value).unwrap();
        assert!(from_value.tool_calls().all(|call| call.extra.is_some()));
    }

    let call = ToolCall::from_raw("c", "f", "{}").with_extra(block(Some("gemini"), "{}"));
    assert!(call.with_args(json!({"a": 1})).extra.is_some());
}

#[test]
fn audio_and_files_round_trip() {
    for part in [
        r#"{"type":"audio","media_type":"audio/wav","data":"AA==","name":"a.wav"}"#,
        r#"{"type":"audio","url":"https://example.com/a.mp3"}"#,
        r#"{"type":"audio","file":{"provider":"gemini","id":"files/a"}}"#,
        r#"{"type":"image","file":{"provider":"openai","id":"file-1"}}"#,
        r#"{"type":"document","file":{"provider":"anthropic","id":"file_1"},"name":"a.pdf"}"#,
    ] {
        let json = format!(r#"{{"role":"user","content":[{part}]}}"#);
        assert_eq!(rewrite(&json), json);
        let message = read(&json);
        assert!(
            matches!(
                &message.content().parts()[0],
                Part::Audio(_) | Part::Image(_) | Part::Document(_)
            ),
            "{json} was read as {message:?}"
        );
    }

    let message = read(
        r#"{"role":"user","content":[{"type":"image","file":{"provider":"openai","id":"file-1"}}]}"#,
    );
    assert_eq!(
        message,
        Message::human(Part::Image(Media::file("openai", "file-1")))
    );
}

/// Checks that a part of an unknown shape is kept as it is.
fn assert_opaque(role: &str, parts: &[&str]) {
    for part in parts {
        let json = format!(r#"{{"role":"{role}","content":[{part}]}}"#);
        assert_eq!(rewrite(&json), json);
        let message = read(&json);
        assert!(
            matches!(&message.content().parts()[0], Part::Opaque(_)),
            "{json}"
        );
    }
}

#[test]
fn media_of_another_shape_stay_opaque() {
    let parts = [
        r#"{"type":"audio"}"#,
        r#"{"type":"audio","data":7}"#,
        r#"{"type":"audio","source":{"type":"url","url":"u"}}"#,
        r#"{"type":"document","file":{"provider":"anthropic"}}"#,
        r#"{"type":"image","file":"file_1"}"#,
    ];
    assert_opaque("user", &parts);
}

#[test]
fn annotations_round_trip_byte_for_byte() {
    for part in [
        r#"{"type":"annotations","citations":[]}"#,
        r#"{"type":"annotations","citations":[{}]}"#,
        r#"{"type":"annotations","citations":[{"url":"u","title":"t","cited_text":"c"},{"title":"t"}]}"#,
        r#"{"type":"annotations","citations":[{"url":"u"}],"provider":"openai","block":{"b":1, "a":[ ]}}"#,
        r#"{"type":"annotations","citations":[],"block":{}}"#,
    ] {
        let json =
            format!(r#"{{"role":"assistant","content":[{{"type":"text","text":"a"}},{part}]}}"#);
        assert_eq!(rewrite(&json), json);
        let message = read(&json);
        assert!(
            matches!(&message.content().parts()[1], Part::Annotations(_)),
            "{json}"
        );
        let value: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(
            serde_json::from_value::<Message>(value).unwrap().text(),
            "a"
        );
    }

    let citation = |url: &str| Citation::new(url);
    let message = Message::ai([
        Part::text("a"),
        Part::Annotations(Annotations::new([citation("1"), citation("2")])),
        Part::text("b"),
        Part::Annotations(Annotations::new([citation("3")])),
    ]);
    let urls: Vec<_> = message.content().citations().map(|one| &*one.url).collect();
    assert_eq!(urls, ["1", "2", "3"]);
    assert_eq!(message.text(), "ab");
}

#[test]
fn annotations_of_another_shape_stay_opaque() {
    let parts = [
        r#"{"type":"annotations"}"#,
        r#"{"type":"annotations","citations":{"url":"u"}}"#,
        r#"{"type":"annotations","citations":[{"url":7}]}"#,
        r#"{"type":"annotations","citations":["u"],"block":{}}"#,
    ];
    assert_opaque("assistant", &parts);
}

#[test]
fn text_after_annotations_is_a_separate_part() {
    let mut content = Content::from([
        Part::text("a"),
        Part::Annotations(Annotations::new([Citation::new("u")])),
    ]);
    content.push_text("b");
    assert_eq!(content.parts().len(), 3);
    assert_eq!(content.parts()[2], Part::text("b"));
}

/// The rows are one message of each kind as earlier versions wrote it.
#[test]
fn old_json_is_unchanged() {
    for json in [
        r#"{"role":"user","content":[{"type":"text","text":"look"},{"type":"image","media_type":"image/png","data":"AA==","name":"p.png"},{"type":"document","url":"https://example.com/a.pdf"}]}"#,
        r#"{"role":"assistant","content":[{"type":"thinking","provider":"anthropic","block":{"type":"thinking", "signature":"x=="}},{"type":"text","text":"Hm"},{"type":"tool_call","id":"c","name":"f","args":{"a":[1.5,null]}},{"type":"opaque","provider":"openai","block":{"b":1,"a":[ ]}}]}"#,
        r#"{"role":"assistant","content":"Hm","tool_calls":[{"id":"c","name":"f","args":{}},{"id":"d","name":"g","args":null}]}"#,
        r#"{"role":"tool","content":"4","tool_call_id":"c","name":"f","is_error":true}"#,
    ] {
        assert_eq!(rewrite(json), json);
    }
}

#[test]
fn tool_messages_serialize_only_fields_that_are_set() {
    let mut result = ToolResult::new("c", "f", "4");
    let plain = r#"{"role":"tool","content":"4","tool_call_id":"c","name":"f"}"#;
    assert_eq!(write(&result.clone().into()), plain);

    result.is_error = true;
    result.details = Some(json!({"k": [1]}));
    result.display = Some("four".into());
    result.silent = true;
    result.is_async = true;
    let message = Message::from(result.clone());
    let json = write(&message);
    assert_eq!(
        json,
        r#"{"role":"tool","content":"4","tool_call_id":"c","name":"f","is_error":true,"details":{"k":[1]},"display":"four","silent":true,"is_async":true}"#
    );
    assert_eq!(read(&json), message);

    result.details = Some(Value::Null);
    result.content = [Part::text("a"), Part::Image(Media::url("u"))].into();
    let message = Message::from(result);
    assert_eq!(read(&write(&message)), message);
}

#[test]
fn absent_null_and_unknown_fields_are_accepted() {
    for json in [
        r#"{"role":"assistant"}"#,
        r#"{"role":"assistant","content":null}"#,
        r#"{"role":"assistant","content":""}"#,
        r#"{"role":"assistant","content":[]}"#,
        r#"{"role":"assistant","content":"","tool_calls":null,"name":null,"tool_call_id":null}"#,
        r#"{"refusal":null,"role":"assistant","content":"","extra":{"a":[1,2,{"b":null}]}}"#,
    ] {
        assert!(read(json).content().parts().is_empty(), "{json}");
        assert_eq!(rewrite(json), r#"{"role":"assistant","content":""}"#);
    }

    let tool = read(r#"{"role":"tool","content":"x"}"#);
    let result = tool.as_tool_result().unwrap();
    assert_eq!((&*result.tool_call_id, &*result.name), ("", ""));

    let message = read(
        r#"{"role":"assistant","content":"","tool_calls":[{"name":"f"},{"id":"c","args":null},{"id":"d","name":"g","args":"{}"}]}"#,
    );
    let calls: Vec<_> = message.tool_calls().collect();
    assert_eq!(*calls[0], ToolCall::new("", "f", json!({})));
    assert_eq!(*calls[1], ToolCall::new("c", "", Value::Null));
    assert_eq!(*calls[2], ToolCall::new("d", "g", json!("{}")));
    assert_eq!(message.content().parts().len(), 3, "no text part");
}

#[test]
fn calls_are_read_from_list_and_from_parts() {
    let list = read(
        r#"{"role":"assistant","content":"Hm","tool_calls":[{"id":"c","name":"f","args":{}}]}"#,
    );
    let parts = read(
        r#"{"role":"assistant","content":[{"type":"text","text":"Hm"},{"type":"tool_call","id":"c","name":"f","args":{}}]}"#,
    );
    let both = read(
        r#"{"role":"assistant","content":[{"type":"text","text":"Hm"},{"type":"tool_call","id":"c","name":"f","args":{}}],"tool_calls":[{"id":"c","name":"f","args":{}}]}"#,
    );
    assert_eq!(list, parts);
    assert_eq!(list, both);
    let mixed = read(
        r#"{"role":"assistant","content":[{"type":"image","url":"u"}],"tool_calls":[{"id":"c","name":"f","args":{}}]}"#,
    );
    assert_eq!(mixed.tool_calls().count(), 1);
    let Part::Image(media) = &mixed.content().parts()[0] else {
        panic!("{mixed:?}")
    };

    assert_eq!(media.source, MediaSource::Url("u".into()));
}

#[test]
fn parse_errors_name_message_and_part() {
    for (json, expected) in [
        (
            r#"[{"role":"hacker","content":"x"}]"#,
            r#"message[0]: unknown role "hacker""#,
        ),
        (
            r#"[{"role":"user","content":"x"},{"role":"a\"b"}]"#,
            r#"message[1]: unknown role "a\"b""#,
        ),
        (r#"[{"content":"x"}]"#, "message[0]: missing field `role`"),
        (
            r#"[{"role":"user","content":7}]"#,
            "message[0]: invalid type: integer `7`, expected a string or an array of parts",
        ),
        (
            r#"[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text"}]}]"#,
            "message[0]: content[1]: text part: missing field `text`",
        ),
        (
            r#"[{"role":"user","content":[{"text":"a"}]}]"#,
            "message[0]: content[0]: missing field `type`",
        ),
    ] {
        let error = Messages::from_json(json).unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert_eq!(error.kind(), ErrorKind::InvalidMessages);
        assert!(std::error::Error::source(&error).is_some());
        let value: Value = serde_json::from_str(json).unwrap();
        let error = serde_json::from_value::<Messages>(value).unwrap_err();
        assert_eq!(error.to_string(), expected);
        let error = serde_json::from_str::<Messages>(json).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with(&format!("{expected} at line 1 column ")),
            "{error}"
        );
    }

    let error = serde_json::from_value::<Message>(json!({"role": "hacker"})).unwrap_err();
    assert_eq!(error.to_string(), r#"unknown role "hacker""#);
    let error = Messages::from_json("[{").unwrap_err();
    assert_eq!(
        error.to_string(),
        "EOF while parsing an object at line 1 column 2"
    );
    assert!(
        Messages::from_json("{}")
            .unwrap_err()
            .to_string()
            .contains("array of messages")
    );
    assert_eq!(
        "hacker".parse::<Role>().unwrap_err().to_string(),
        r#"unknown role "hacker""#
    );
}

#[test]
fn result_view_has_four_fields() {
    let call = ToolCall::new("call_edit01", "edit_file", json!({}));
    let failed = ToolResult::failed(&call, "old_text not found in file");
    let json = serde_json::to_string(&failed.view()).unwrap();
    assert_eq!(
        json,
        r#"{"tool_call_id":"call_edit01","name":"edit_file","output":"","error":"old_text not found in file"}"#
    );
    let view: ToolResultView = serde_json::from_str(&json).unwrap();
    assert_eq!(ToolResult::from(view), failed);
    let json = serde_json::to_string(&ToolResult::ok(&call, "done").view()).unwrap();
    assert_eq!(
        json,
        r#"{"tool_call_id":"call_edit01","name":"edit_file","output":"done"}"#
    );
}

#[test]
fn content_from_empty_text_has_no_parts() {
    assert!(Content::from("").parts().is_empty());
    assert_eq!(
        write(&Message::ai("")),
        r#"{"role":"assistant","content":""}"#
    );
    let mut content = Content::new();
    content.push_text("");
    assert!(content.parts().is_empty());
    content.push_text("a");
    content.push_text("b");
    assert_eq!(content.parts(), [Part::text("ab")]);
}
