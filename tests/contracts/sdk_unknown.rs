//! Unknown fields and kinds of messages, and JSON that is no message.

use agentcore::sdk::{Envelope, SystemEvent, SystemKind};
use agentcore::{Part, SdkMessage};
use serde_json::{Value, json};

use crate::sdk_golden::{ID, assistant, kind, round_trip, system, user};

#[test]
fn user_message_without_ids_is_read() {
    let text = r#"{"type":"user","message":{"role":"user","content":"hi"},"priority":"now"}"#;
    let read: SdkMessage = serde_json::from_str(text).expect("it reads");
    assert!(read.uuid().is_nil());
    assert_eq!(read.session_id(), "");
    let json = serde_json::to_value(&read).expect("it writes");
    assert_eq!(json["priority"], "now");
    assert!(json.get("uuid").is_none() && json.get("session_id").is_none());
}

#[test]
fn id_that_is_not_a_uuid_round_trips() {
    let mut json = user(json!("hi"));
    json["uuid"] = "message 7".into();
    assert!(round_trip(&json).uuid().is_nil());
}

#[test]
fn unknown_subtype_round_trips() {
    let json = system(
        "hook_started",
        json!({"hook_id": "h", "deep": {"a": [1, {"b": null}]}}),
    );
    let kind = kind(&json);
    let SystemKind::Unknown { subtype, fields } = kind else {
        panic!("{kind:?}")
    };
    assert_eq!(&*subtype, "hook_started");
    assert_eq!(fields.keys().collect::<Vec<_>>(), ["deep", "hook_id"]);
}

#[test]
fn unknown_type_round_trips_byte_for_byte() {
    let line = r#"{"z":1.0,"type":"rate_limit_event","a":[ 1, 2],"uuid":"7f8e6a3c-4b1f-4b8e-9d7a-0a1b2c3d4e5f"}"#;
    let read: SdkMessage = serde_json::from_str(line).expect("it reads");
    assert_eq!(read.uuid().to_string(), ID);
    assert_eq!(serde_json::to_string(&read).expect("it writes"), line);
    round_trip(&json!({"type": "keep_alive"}));
}

#[test]
fn unknown_fields_round_trip_at_every_depth() {
    let mut json = assistant(json!([
        {"type": "text", "text": "Hi", "citations": [{"url": "u"}]},
        {"type": "tool_use", "id": "t", "name": "n", "input": {}, "caller": {"type": "direct"}},
    ]));
    json["timestamp"] = "2026-01-01T00:00:00Z".into();
    json["context_usage"] = json!({"model": "m", "categories": [{"name": "n"}, null]});
    json["message"]["container"] = json!({"id": "c"});
    json["message"]["usage"]["cache_creation"] = json!({"ephemeral_5m_input_tokens": 1});
    json["message"]["usage"]["service_tier"] = Value::Null;
    let SdkMessage::Assistant(event) = round_trip(&json) else {
        panic!()
    };

    assert_eq!(event.envelope.extra.len(), 2);
    assert_eq!(event.message.extra["container"], json!({"id": "c"}));
    assert_eq!(event.text(), "Hi");

    let mut json = user(
        json!([{"type": "tool_result", "tool_use_id": "t", "content": "4",
        "cache_control": {"type": "ephemeral"}}]),
    );
    json["message"]["id"] = "x".into();
    json["isReplay"] = true.into();
    json["file_attachments"] = json!([{"a": 1}]);
    round_trip(&json);
}

#[test]
fn result_with_unknown_content_is_an_opaque_block_of_its_message() {
    for content in [json!({"rows": 3}), json!(7)] {
        let json = user(json!([
            {"type": "tool_result", "tool_use_id": "t", "content": content},
            {"type": "text", "text": "Go on"},
        ]));
        let SdkMessage::User(event) = round_trip(&json) else {
            panic!()
        };
        let [message] = &event.messages[..] else {
            panic!("{:?}", event.messages)
        };
        assert!(matches!(message.content().parts()[0], Part::Opaque(_)));
        assert_eq!(message.text(), "Go on");
    }
}

#[test]
fn extra_fields_never_replace_known_fields() {
    let mut event = SystemEvent::new(
        Envelope::new("s", 0),
        SystemKind::StateChanged {
            todos: None,
            files: Some(vec!["a".to_owned()]),
        },
    );
    event.envelope.extra.insert("files".to_owned(), json!("b"));
    event
        .envelope
        .extra
        .insert("agent_id".to_owned(), json!("x"));
    let text = serde_json::to_string(&SdkMessage::from(event)).expect("it writes");
    assert_eq!(text.matches("files").count(), 1, "{text}");
    let json: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(
        (&json["files"], &json["agent_id"]),
        (&json!(["a"]), &json!("x"))
    );
}

#[test]
fn json_that_is_not_a_message_is_an_error() {
    for text in [
        "",
        "[]",
        "null",
        "{}",
        r#"{"type":7}"#,
        r#"{"type":"assistant"}"#,
        r#"{"type":"assistant","message":{"content":{}}}"#,
        r#"{"type":"system"}"#,
        r#"{"type":"system","subtype":"api_retry","attempt":"one"}"#,
        r#"{"type":"result"}"#,
        r#"{"type":"stream_event"}"#,
        r#"{"type":"tool_progress","tool_use_id":"t"}"#,
    ] {
        assert!(serde_json::from_str::<SdkMessage>(text).is_err(), "{text}");
    }
}
