//! Messages as other emitters write them, for the tests of the wire form.

use agentcore::SdkMessage;
use agentcore::sdk::SystemKind;
use serde_json::{Value, json};

pub(crate) const ID: &str = "7f8e6a3c-4b1f-4b8e-9d7a-0a1b2c3d4e5f";
pub(crate) const OTHER_ID: &str = "11111111-2222-4333-8444-555555555555";

/// Adds the fields that every message has.
pub(crate) fn message(mut fields: Value) -> Value {
    fields["uuid"] = ID.into();
    fields["session_id"] = "th_1".into();
    fields["seq"] = 3.into();
    fields
}

pub(crate) fn system(subtype: &str, mut fields: Value) -> Value {
    fields["type"] = "system".into();
    fields["subtype"] = subtype.into();
    message(fields)
}

pub(crate) fn result(subtype: &str) -> Value {
    let mut fields = json!({
        "type": "result", "subtype": subtype, "duration_ms": 1200, "duration_api_ms": 1000,
        "is_error": subtype != "success", "num_turns": 2, "stop_reason": "end_turn",
        "total_cost_usd": 0.010935,
        "usage": {"input_tokens": 1000, "output_tokens": 500, "cache_read_input_tokens": 200,
                  "cache_creation_input_tokens": 100},
        "modelUsage": {"claude-sonnet-4-5": {
            "inputTokens": 1000, "outputTokens": 500, "cacheReadInputTokens": 200,
            "cacheCreationInputTokens": 100, "webSearchRequests": 0, "costUSD": 0.010935,
            "contextWindow": 200000, "maxOutputTokens": 64000}},
        "permission_denials": [
            {"tool_name": "bash", "tool_use_id": "toolu_9", "tool_input": {"command": "rm"}}],
        "terminal_reason": "completed",
    });

    match subtype {
        "success" => fields["result"] = "4".into(),
        _ => fields["errors"] = json!(["it broke"]),
    }

    message(fields)
}

/// Returns an assistant message with this content.
pub(crate) fn assistant(content: Value) -> Value {
    let mut answer = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m",
        "stop_reason": null, "stop_sequence": null,
        "usage": {"input_tokens": 1, "output_tokens": 2, "cache_read_input_tokens": 0,
                  "cache_creation_input_tokens": 0}});
    answer["content"] = content;
    let mut fields = json!({"type": "assistant", "parent_tool_use_id": null});
    fields["message"] = answer;
    message(fields)
}

pub(crate) fn user(content: Value) -> Value {
    let mut fields = json!({"type": "user", "parent_tool_use_id": null});
    fields["message"] = json!({"role": "user"});
    fields["message"]["content"] = content;
    message(fields)
}

pub(crate) fn stream_event(event: Value) -> Value {
    let mut fields = json!({"type": "stream_event", "parent_tool_use_id": null});
    fields["event"] = event;
    message(fields)
}

#[track_caller]
pub(crate) fn read(json: &Value) -> SdkMessage {
    serde_json::from_str(&json.to_string()).unwrap_or_else(|error| panic!("{error}: {json}"))
}

/// Reads a message, checks that it is written as the same JSON, and returns it.
#[track_caller]
pub(crate) fn round_trip(json: &Value) -> SdkMessage {
    let read = read(json);
    let text = serde_json::to_string(&read).expect("it writes");
    assert_eq!(&serde_json::from_str::<Value>(&text).expect("JSON"), json);
    assert_eq!(
        serde_json::from_str::<SdkMessage>(&text).expect("it reads"),
        read
    );
    let start = format!(r#"{{"type":{}"#, json["type"]);
    assert!(
        matches!(read, SdkMessage::Unknown(_)) || text.starts_with(&start),
        "{text}"
    );
    read
}

#[track_caller]
pub(crate) fn kind(json: &Value) -> SystemKind {
    match round_trip(json) {
        SdkMessage::System(event) => event.kind,
        other => panic!("not a system message: {other:?}"),
    }
}
