//! Answers of Chat Completions, in many dialects.

use std::time::Duration;

use agentcore::model::{ModelEvent, ModelResponse, ResponseFold, StopReason};
use agentcore::providers::openai;
use agentcore::{Error, ErrorKind, Part, Result, ToolCall, Usage};
use bytes::Bytes;
use futures::StreamExt;
use futures::executor::block_on;
use serde_json::{Value, json};

fn events(frames: &[&str]) -> Vec<Result<ModelEvent>> {
    let body: String = frames
        .iter()
        .map(|frame| format!("data: {frame}\n\n"))
        .collect();
    block_on(openai::decode(futures::stream::iter([Ok(body.into())])).collect())
}

fn answer(frames: &[&str]) -> Result<ModelResponse, Error> {
    let mut fold = ResponseFold::new();
    for event in events(frames) {
        fold.push(event?);
    }
    fold.finish()
}

fn calls(frames: &[&str]) -> Vec<(String, String, Value)> {
    let response = answer(frames).unwrap();
    let call = |call: &ToolCall| {
        (
            call.id.to_string(),
            call.name.to_string(),
            (*call.args).clone(),
        )
    };
    response.tool_calls().map(call).collect()
}

/// A chunk of the response `r` with this delta.
fn chunk(delta: &str) -> String {
    format!(r#"{{"id":"r","model":"m","choices":[{{"index":0,"delta":{delta}}}]}}"#)
}

const STOP: &str = r#"{"id":"r","choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#;
const LENGTH: &str = r#"{"id":"r","choices":[{"delta":{},"finish_reason":"length"}]}"#;

fn piece(json: &str) -> String {
    chunk(&format!(r#"{{"tool_calls":[{json}]}}"#)).replace('\n', " ")
}

#[test]
fn late_or_missing_call_names_and_ids_are_accepted() {
    let late = [
        piece(r#"{"index":0,"function":{"arguments":"{\"a\""}}"#),
        piece(r#"{"index":0,"id":"x","function":{"name":"t"}}"#),
        piece(r#"{"index":0,"function":{"arguments":":1}"}}"#),
    ];
    let [a, b, c] = late.each_ref().map(String::as_str);
    assert_eq!(
        calls(&[a, b, c, STOP]),
        [("x".into(), "t".into(), json!({"a": 1}))]
    );

    let never = [
        piece(r#"{"index":0,"function":{"name":"t","arguments":"{}"}}"#),
        piece(r#"{"index":1,"function":{"name":"u","arguments":""}}"#),
    ];
    let [a, b] = never.each_ref().map(String::as_str);
    let expected = [
        ("call_r_0".to_owned(), "t".to_owned(), json!({})),
        ("call_r_1".into(), "u".into(), json!({})),
    ];
    assert_eq!(calls(&[a, b, STOP]), expected);
    assert_eq!(calls(&[a, b, STOP]), expected, "made-up ids repeat");

    let nameless = piece(r#"{"index":0,"id":"x","function":{"arguments":"{}"}}"#);
    let error = answer(&[&nameless, STOP]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol);
}

#[test]
fn call_deltas_without_an_index_are_assigned() {
    let frames = [
        piece(r#"{"id":"x","function":{"name":"t","arguments":"{\"a\":"}}"#),
        piece(r#"{"function":{"arguments":"1}"}}"#),
        piece(r#"{"id":"y","function":{"name":"t","arguments":"{\"b\":"}}"#),
        piece(r#"{"id":"y","function":{"arguments":"2}"}}"#),
        piece(r#"{"function":{"name":"u","arguments":"{}"}}"#),
    ];
    let mut all: Vec<&str> = frames.iter().map(String::as_str).collect();
    all.push(STOP);
    assert_eq!(
        calls(&all),
        [
            ("x".into(), "t".into(), json!({"a": 1})),
            ("y".into(), "t".into(), json!({"b": 2})),
            ("call_r_2".into(), "u".into(), json!({})),
        ]
    );
}

#[test]
fn calls_that_share_an_index_or_id_are_separated() {
    let same_index = piece(
        r#"{"index":0,"id":"x","function":{"name":"t","arguments":"{}"}},
           {"index":0,"id":"y","function":{"name":"u","arguments":"{}"}}"#,
    );
    let pair = calls(&[&same_index, STOP]);
    assert_eq!((&*pair[0].0, &*pair[1].0), ("x", "y"));

    let same_id = piece(
        r#"{"index":0,"id":"x","function":{"name":"t","arguments":"{}"}},
           {"index":1,"id":"x","function":{"name":"u","arguments":"{}"}},
           {"index":2,"id":"x","function":{"name":"v","arguments":"{}"}}"#,
    );
    let ids: Vec<_> = calls(&[&same_id, STOP])
        .into_iter()
        .map(|call| call.0)
        .collect();
    assert_eq!(ids, ["x", "x_2", "x_3"]);
}

#[test]
fn arguments_may_be_an_object_and_invalid_ones_are_kept_raw() {
    let object = piece(r#"{"index":0,"id":"x","function":{"name":"t","arguments":{"a": 1}}}"#);
    assert_eq!(calls(&[&object, STOP])[0].2, json!({"a": 1}));

    let broken = piece(r#"{"index":0,"id":"x","function":{"name":"t","arguments":"{\"a\":"}}"#);
    let response = answer(&[&broken, STOP]).unwrap();
    let call = response.tool_calls().next().unwrap();
    assert!(call.args.is_null());
    assert_eq!(call.raw_args.as_deref(), Some("{\"a\":"));

    // A call that the output limit has cut must not run.
    assert_eq!(calls(&[&broken, LENGTH]), []);
    let full_window = LENGTH.replace("length", "model_length");
    assert_eq!(calls(&[&broken, &full_window]), []);
    let whole = piece(r#"{"index":0,"id":"y","function":{"name":"t","arguments":"{}"}}"#);
    let broken = broken.replace(r#""index":0"#, r#""index":1"#);
    assert_eq!(calls(&[&whole, &broken, LENGTH]).len(), 1);
}

#[test]
fn unexpected_field_types_do_not_fail_a_chunk() {
    let frames = [
        r#"{"id":"","model":"","choices":[],"prompt_filter_results":[{"x":1}]}"#,
        r#"{"id":7,"model":null,"choices":[{"index":"0","delta":{"role":"assistant","content":null,"audio":{}},"finish_reason":""}],"usage":null}"#,
        r#"{"id":"r","choices":[{"delta":{"content":"a"},"finish_reason":null,"logprobs":{}}],"usage":{}}"#,
        r#"{"id":"r","choices":null,"usage":{"prompt_tokens":0,"completion_tokens":0}}"#,
        r#"{"id":"r","choices":[{"delta":{"content":"","tool_calls":""}}]}"#,
        r#"{"id":"r","choices":[{"index":1,"delta":{"content":"other"}},{"index":0,"delta":{"content":[{"type":"text","text":"b"}]}}]}"#,
        r#"{"id":"r","choices":[{"delta":null,"finish_reason":"odd"}],"error":null}"#,
        r#"{"id":"r","choices":[{"delta":{"content":""}}],"usage":"none","error":false}"#,
        r#"{"id":"r","choices":[{"delta":{}}],"usage":{"prompt_tokens_details":[]},"error":{}}"#,
        r#"{"id":"r","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":2.0,"prompt_tokens_details":{"cached_tokens":4}}}"#,
        "[DONE]",
    ];
    let response = answer(&frames).unwrap();
    assert_eq!(response.text(), "ab");
    assert_eq!(&*response.id, "7");
    assert_eq!(response.stop_reason, Some(StopReason::Other("odd".into())));
    assert_eq!(response.usage, Usage::new(6, 2).with_cache(4, 0));
}

#[test]
fn lone_surrogate_does_not_end_an_answer() {
    let frames = [
        &*chunk(r#"{"content":"a\ud83d"}"#),
        &chunk(r#"{"content":"\ude00b"}"#),
        &chunk(r#"{"content":"\ud83d\ude00"}"#),
        LENGTH,
        "[DONE]",
    ];
    assert_eq!(
        answer(&frames).unwrap().text(),
        "a\u{FFFD}\u{FFFD}b\u{1F600}"
    );

    // The other fields of the same delta are read once.
    let calls = r#"{"content":"hi","tool_calls":[
        {"index":0,"id":"x","function":{"name":"f","arguments":"{\"a\":1}"}},
        {"index":1,"id":"y","function":{"name":"f","arguments":"{\"b\":\"\ud83d"}}]}"#;
    let rest = r#"{"tool_calls":[{"index":1,"function":{"arguments":"\"}"}}]}"#;
    let response = answer(&[
        &chunk(&calls.replace("\n", "")),
        &chunk(rest),
        LENGTH,
        "[DONE]",
    ])
    .unwrap();
    assert_eq!(response.text(), "hi");
    let args: Vec<_> = response.tool_calls().map(|call| &*call.args).collect();
    assert_eq!(args, [&json!({"a": 1}), &json!({"b": "\u{FFFD}"})]);
    let garbage = chunk(r#"{"content":"\ud83d"#);
    assert_eq!(answer(&[&garbage]).unwrap_err().kind(), ErrorKind::Protocol);
}

#[test]
fn stop_reasons_are_case_insensitive() {
    for (label, reason) in [
        ("STOP", StopReason::EndTurn),
        ("MAX_TOKENS", StopReason::MaxTokens),
        ("eos", StopReason::EndTurn),
        ("model_length", StopReason::ContextWindow),
        ("Odd", StopReason::Other("Odd".into())),
    ] {
        let end = LENGTH.replace("length", label);
        assert_eq!(answer(&[&end, "[DONE]"]).unwrap().stop_reason, Some(reason));
    }
}

#[test]
fn complete_message_instead_of_deltas_is_read() {
    let frame = r#"{"id":"r","choices":[{"message":{"content":"hi","tool_calls":[{"id":"x","type":"function","function":{"name":"t","arguments":"{\"a\":1}"}},{"id":"y","type":"function","function":{"name":"t","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}"#;
    let response = answer(&[frame, "[DONE]"]).unwrap();
    assert_eq!(response.text(), "hi");
    assert_eq!(response.tool_calls().count(), 2);
}

#[test]
fn message_next_to_deltas_is_not_read_again() {
    let both = |delta: Value, message: Value| {
        json!({"id": "r", "choices": [{"index": 0, "delta": delta, "message": message}]})
            .to_string()
    };
    let first = both(json!({"content": "Hel"}), json!({"content": "Hel"}));
    let second = both(json!({"content": "lo"}), json!({"content": "Hello"}));
    assert_eq!(answer(&[&first, &second, STOP]).unwrap().text(), "Hello");

    // Some servers repeat the whole answer in the last chunk.
    let [empty, one, two] =
        ["", "Hel", "lo"].map(|text| chunk(&json!({"content": text}).to_string()));
    let call = json!({"index": 0, "id": "x", "function": {"name": "t", "arguments": "{}"}});
    let whole = json!({"reasoning": "why", "content": "Hello", "tool_calls": [call]});
    let calling = chunk(&json!({"reasoning": "why", "tool_calls": [call]}).to_string());
    let last = both(json!({}), whole.clone());
    let response = answer(&[&calling, &one, &two, &last, STOP]).unwrap();
    assert_eq!(response.text(), "Hello");
    assert_eq!(response.tool_calls().count(), 1);
    assert_eq!(
        answer(&[&empty, &one, &two, &last, STOP]).unwrap().text(),
        "Hello"
    );

    // A delta that has no part of the answer does not replace the message.
    let empty_delta = json!({"role": "assistant", "content": "", "reasoning_details": []});
    let response = answer(&[&both(empty_delta, whole), STOP]).unwrap();
    assert_eq!(response.text(), "Hello");
    assert_eq!(response.tool_calls().count(), 1);
}

#[test]
fn answer_without_any_end_marker_is_truncated() {
    let text = chunk(r#"{"content":"a"}"#);
    let stop = r#"{"id":"r","choices":[{"delta":{},"finish_reason":"stop"}]}"#;
    let usage = r#"{"id":"r","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}"#;
    assert_eq!(
        answer(&[&text, stop]).unwrap().stop_reason,
        Some(StopReason::EndTurn)
    );
    assert_eq!(answer(&[&text, "[DONE]"]).unwrap().stop_reason, None);
    assert_eq!(
        answer(&[&text, stop, usage]).unwrap().usage,
        Usage::new(1, 1)
    );

    // A report that is empty or zero is not the usage report.
    let empty_report = r#"{"id":"r","choices":[],"usage":{}}"#;
    let zeros = r#"{"id":"r","choices":[],"usage":{"prompt_tokens":0,"completion_tokens":0}}"#;
    let filtered = r#"{"id":"r","choices":[],"prompt_filter_results":[]}"#;
    for extra in [empty_report, zeros, filtered] {
        let response = answer(&[&text, stop, extra, usage, "[DONE]"]).unwrap();
        assert_eq!(response.usage, Usage::new(1, 1), "{extra}");
    }

    // Events after the end are ignored.
    assert!(answer(&[&text, stop, usage, "{garbage"]).is_ok());
    for torn in [&[&*text][..], &[], &[&*text, usage]] {
        assert_eq!(answer(torn).unwrap_err().kind(), ErrorKind::StreamTruncated);
    }

    // The usage of an incomplete answer is reported.
    let reported = events(&[&text, usage]);
    assert!(matches!(reported[2], Ok(ModelEvent::Usage(usage)) if usage == Usage::new(1, 1)));
}

#[test]
fn reasoning_is_emitted_and_kept_as_a_block() {
    for field in ["reasoning_content", "reasoning"] {
        let one = chunk(&format!(r#"{{"{field}":"h\u00e9"}}"#));
        let two = chunk(&format!(r#"{{"{field}":"m","content":null}}"#));
        let text = chunk(r#"{"content":"a"}"#);
        let frames: [&str; 4] = [&one, &two, &text, "[DONE]"];
        let actual = events(&frames);
        assert!(matches!(&actual[1], Ok(ModelEvent::Thinking(text)) if text == "hé"));
        let response = answer(&frames).unwrap();
        let [Part::Thinking(block), Part::Text(_)] = response.content.parts() else {
            panic!("{:?}", response.content);
        };

        assert_eq!(block.raw.get(), format!(r#"{{"{field}":"hém"}}"#));
        assert_eq!(block.provider.as_deref(), Some("openai"));
    }
}

#[test]
fn refusals_and_errors_in_the_stream_are_reported() {
    let refusal = chunk(r#"{"refusal":"I will not."}"#);
    let response = answer(&[&refusal, "[DONE]"]).unwrap();
    assert_eq!(response.text(), "I will not.");
    assert_eq!(response.stop_reason, Some(StopReason::Refusal));

    let text = chunk(r#"{"content":"par"}"#);
    let cases = [
        (
            r#"{"error":{"message":"busy","type":"overloaded_error"}}"#,
            ErrorKind::Overloaded,
        ),
        (
            r#"{"error":{"message":"x","code":429}}"#,
            ErrorKind::RateLimited,
        ),
        (
            r#"{"error":{"message":"x","code":"insufficient_quota"}}"#,
            ErrorKind::QuotaExhausted,
        ),
        (r#"{"error":"it broke"}"#, ErrorKind::Server),
        (
            r#"{"choices":[{"delta":{},"finish_reason":null}],"x_groq":{"id":"r","error":"it broke"}}"#,
            ErrorKind::Server,
        ),
        (
            r#"{"object":"error","message":"it broke","code":500}"#,
            ErrorKind::Server,
        ),
        (
            r#"{"id":"r","choices":[{"delta":{},"finish_reason":"error"}]}"#,
            ErrorKind::Server,
        ),
        (
            r#"{"id":"r","choices":[{"delta":{},"finish_reason":"abort"}]}"#,
            ErrorKind::Server,
        ),
        (
            r#"{"id":"r","choices":[{"delta":{},"finish_reason":"network_error"}]}"#,
            ErrorKind::Server,
        ),
        (
            r#"{"id":"r","choices":[{"delta":{},"finish_reason":"insufficient_system_resource"}]}"#,
            ErrorKind::Overloaded,
        ),
        ("{garbage", ErrorKind::Protocol),
    ];
    for (frame, kind) in cases {
        let events = events(&[&text, frame]);
        assert!(
            matches!(&events[1], Ok(ModelEvent::Text(text)) if text == "par"),
            "{frame}"
        );
        assert_eq!(
            events.last().unwrap().as_ref().unwrap_err().kind(),
            kind,
            "{frame}"
        );
    }

    // The usage of an answer that the server interrupted is reported.
    for reason in ["insufficient_system_resource", "error", "abort"] {
        let broken_off = json!({
            "id": "r",
            "choices": [{"delta": {}, "finish_reason": reason}],
            "usage": {"prompt_tokens": 3, "completion_tokens": 1},
        });
        let actual = events(&[&text, &broken_off.to_string()]);
        let is_reported =
            matches!(actual[2], Ok(ModelEvent::Usage(usage)) if usage == Usage::new(3, 1));
        assert!(is_reported, "{reason}");
        assert!(actual[3].as_ref().unwrap_err().is_retryable(), "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn finish_reason_ends_an_answer_whose_connection_stays_open_or_breaks() {
    let chunk = |delta: Value, finish: Value| -> Result<Bytes> {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
        let chunk = json!({"id": "c", "model": "m", "choices": [choice]});
        Ok(format!("data: {chunk}\n\n").into())
    };
    let answer = || {
        let chunks = [
            chunk(json!({"content": "a"}), Value::Null),
            chunk(json!({}), json!("stop")),
        ];
        futures::stream::iter(chunks)
    };
    let comments = futures::stream::unfold((), |()| async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Some((Ok(Bytes::from_static(b": keep-alive\n\n")), ()))
    });
    let reset = || futures::stream::iter([Err(Error::new(ErrorKind::Connect, "reset"))]);
    let bodies = [
        (answer().chain(futures::stream::pending()).boxed(), 2),
        (answer().chain(comments).boxed(), 2),
        (answer().chain(reset()).boxed(), 0),
    ];
    for (body, seconds) in bodies {
        let start = tokio::time::Instant::now();
        let events: Vec<Result<ModelEvent>> = openai::decode(body).collect().await;
        let mut fold = ResponseFold::new();
        events
            .into_iter()
            .for_each(|event| fold.push(event.unwrap()));
        let response = fold.finish().unwrap();
        assert_eq!(start.elapsed().as_secs(), seconds);
        assert_eq!(
            (&*response.text(), response.stop_reason.clone()),
            ("a", Some(StopReason::EndTurn))
        );
    }
}
