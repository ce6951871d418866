//! Messages in the spellings of other emitters: counts that are null or fractions, content in the
//! long form.

use agentcore::sdk::SystemKind;
use agentcore::{SdkMessage, Usage};
use serde_json::{Value, json};

use crate::kit::small_stack::survives;
use crate::sdk_golden::{assistant, read, result, round_trip, stream_event, system, user};

fn kind(json: &Value) -> SystemKind {
    match read(json) {
        SdkMessage::System(event) => event.kind,
        other => panic!("not a system message: {other:?}"),
    }
}

#[test]
fn results_within_results_do_not_exhaust_the_stack() {
    survives(
        "sdk_foreign::results_within_results_do_not_exhaust_the_stack",
        || {
            let open = r#"[{"type":"tool_result","tool_use_id":"c","content":"#.repeat(5_000);
            let nested = format!(r#"{open}""{}"#, "}]".repeat(5_000));
            let line =
                format!(r#"{{"type":"user","message":{{"role":"user","content":{nested}}}}}"#);
            // Whether it is read or refused, the process does not abort.
            drop(serde_json::from_str::<SdkMessage>(&line));
        },
    );
}

#[test]
fn null_counts_are_read_as_none_or_zero() {
    let mut json = assistant(json!([{"type": "text", "text": "Hi"}]));
    json["message"]["usage"] = json!({"input_tokens": 3, "output_tokens": 2,
        "cache_creation_input_tokens": null, "cache_read_input_tokens": null,
        "server_tool_use": null, "service_tier": null});
    let SdkMessage::Assistant(event) = read(&json) else {
        panic!()
    };

    assert_eq!(event.message.usage, Usage::new(3, 2));
    assert_eq!(event.text(), "Hi");

    let delta = json!({"type": "message_delta",
        "delta": {"stop_reason": "end_turn", "stop_sequence": null},
        "usage": {"input_tokens": null, "output_tokens": 5, "cache_read_input_tokens": null}});
    let read_back = serde_json::to_value(read(&stream_event(delta))).unwrap();
    assert_eq!(read_back["event"]["usage"]["output_tokens"], 5);

    let mut json = result("success");
    json["usage"]["cache_read_input_tokens"] = Value::Null;
    json["modelUsage"]["claude-sonnet-4-5"]["webSearchRequests"] = Value::Null;
    json["ttft_ms"] = Value::Null;
    json["duration_api_ms"] = Value::Null;
    let read = read(&json);
    let result = read.as_result().unwrap();
    assert_eq!(result.usage, Usage::new(1000, 500).with_cache(0, 100));
    assert_eq!((result.ttft_ms, result.duration_api_ms), (None, 0));
}

#[test]
fn fractions_of_milliseconds_are_rounded() {
    let retry = json!({"attempt": 1, "max_retries": 10, "retry_delay_ms": 522.384,
        "error_status": 529, "error": "overloaded"});
    let SystemKind::ApiRetry(retry) = kind(&system("api_retry", retry)) else {
        panic!()
    };

    assert_eq!(retry.retry_delay_ms, 522);

    let meta = json!({"trigger": "auto", "pre_tokens": 150000.0, "duration_ms": 12.5});
    let SystemKind::CompactBoundary(boundary) = kind(&system(
        "compact_boundary",
        json!({"compact_metadata": meta}),
    )) else {
        panic!()
    };

    assert_eq!(
        (
            boundary.pre_tokens,
            boundary.duration_ms,
            boundary.post_tokens
        ),
        (150_000, Some(13), None)
    );

    let usage = json!({"total_tokens": 9, "tool_uses": 2, "duration_ms": 1500.25});
    let progress = json!({"task_id": "t", "description": "d", "usage": usage});
    let SystemKind::TaskProgress(progress) = kind(&system("task_progress", progress)) else {
        panic!()
    };

    assert_eq!(progress.usage.duration_ms, 1500);

    let shown = json!({"key": "k", "text": "t", "priority": "low", "timeout_ms": 0.4});
    let SystemKind::Notification(shown) = kind(&system("notification", shown)) else {
        panic!()
    };

    assert_eq!(shown.timeout_ms, Some(0));

    let mut json = result("error_max_turns");
    json["duration_ms"] = 1200.5.into();
    json["ttft_ms"] = 10.49.into();
    let read = read(&json);
    let result = read.as_result().unwrap();
    assert_eq!((result.duration_ms, result.ttft_ms), (1201, Some(10)));

    let mut json = stream_event(json!({"type": "ping"}));
    json["ttft_ms"] = 99.9.into();
    let SdkMessage::Partial(event) = crate::sdk_golden::read(&json) else {
        panic!()
    };

    assert_eq!(event.ttft_ms, Some(100));
}

#[test]
fn values_that_are_not_counts_are_errors() {
    for count in [json!(-1), json!(-0.5), json!("12"), json!([1]), json!(true)] {
        let mut json = result("success");
        json["duration_ms"] = count.clone();
        let read = serde_json::from_str::<SdkMessage>(&json.to_string());
        assert!(read.is_err(), "{count}");
    }
}

#[test]
fn content_in_array_form_round_trips_as_an_array() {
    let cached = json!({"type": "text", "text": "2+2?", "cache_control": {"type": "ephemeral"}});
    let plain = json!({"type": "text", "text": "4"});
    for content in [
        json!([cached]),
        json!([plain]),
        json!([]),
        json!([{"type": "tool_result", "tool_use_id": "t", "content": [cached]}]),
        json!([{"type": "tool_result", "tool_use_id": "t", "content": []},
               {"type": "tool_result", "tool_use_id": "u", "content": [plain], "is_error": true}]),
    ] {
        round_trip(&user(content));
    }
}

#[test]
fn changed_content_is_serialized_instead_of_the_original() {
    let SdkMessage::User(mut event) = read(&user(json!([{"type": "text", "text": "old"}]))) else {
        panic!()
    };
    event.messages = vec![std::sync::Arc::new("new".into())];
    let json = serde_json::to_value(SdkMessage::User(event)).unwrap();
    assert_eq!(json["message"]["content"], "new");
}
