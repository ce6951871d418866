//! Answers of the Gemini API, and the errors that end them.
//!
//! The recordings follow the API reference, except `aimock-*`, which are those of a scripted
//! server.

use std::time::Duration;

use agentcore::message::{Annotations, Citation, ProviderBlock};
use agentcore::model::{ModelEvent, ModelResponse, StopReason};
use agentcore::providers::gemini;
use agentcore::{Error, ErrorKind, Part, Result, Secret, ToolCall, Usage};
use bytes::Bytes;
use futures::executor::block_on;
use futures::{StreamExt, stream};
use serde_json::{Value, json};

use crate::kit::serving::fold;

macro_rules! recording {
    ($name:literal) => {
        include_bytes!(concat!("../../data/gemini/", $name)).as_slice()
    };
}

fn decode(body: Vec<Result<Bytes>>) -> Vec<Result<ModelEvent>> {
    block_on(gemini::decode(stream::iter(body)).collect())
}

fn recorded(bytes: &'static [u8]) -> Vec<ModelEvent> {
    let events = decode(vec![Ok(bytes.into())]);
    events.into_iter().map(Result::unwrap).collect()
}

fn answer(bytes: &'static [u8]) -> ModelResponse {
    fold(decode(vec![Ok(bytes.into())])).unwrap()
}

/// Returns the events before the error, and the error.
fn failure(body: Vec<Result<Bytes>>) -> (Vec<ModelEvent>, Error) {
    let mut events = decode(body);
    let error = events.pop().unwrap().unwrap_err();
    (events.into_iter().map(Result::unwrap).collect(), error)
}

fn frame(chunk: &Value) -> Result<Bytes> {
    Ok(format!("data: {chunk}\n\n").into())
}

/// A chunk with these parts, without a finish reason.
fn parts(parts: &Value) -> Result<Bytes> {
    let candidate = json!({"content": {"role": "model", "parts": parts}, "index": 0});
    frame(&json!({"candidates": [candidate], "responseId": "r", "modelVersion": "m"}))
}

fn finish(word: &str) -> Result<Bytes> {
    frame(&json!({"candidates": [{"finishReason": word}]}))
}

fn text(text: &str) -> Result<Bytes> {
    parts(&json!([{"text": text}]))
}

fn broken() -> Result<Bytes> {
    Err(Error::new(ErrorKind::Timeout, "nothing arrived for 60 s"))
}

fn block(json: &str) -> ProviderBlock {
    let raw = serde_json::value::RawValue::from_string(json.to_owned()).unwrap();
    ProviderBlock::new("gemini", raw)
}

fn extra(call: &ToolCall) -> Option<&ProviderBlock> {
    call.extra.as_deref()
}

#[test]
fn body_without_finish_reason_is_truncated() {
    let usage = json!({"usageMetadata": {"promptTokenCount": 3}});
    let (events, error) = failure(vec![text("a"), frame(&usage)]);
    assert_eq!(error.kind(), ErrorKind::StreamTruncated);
    assert_eq!(events[1..2], [ModelEvent::Text("a".into())]);
    assert_eq!(events[2..], [ModelEvent::Usage(Usage::new(3, 0))]);
    for body in [vec![], vec![Ok("".into())], vec![frame(&usage)]] {
        assert_eq!(failure(body).1.kind(), ErrorKind::StreamTruncated);
    }
}

#[test]
fn broken_connection_before_the_finish_reason_is_its_error() {
    let (events, error) = failure(vec![text("a"), broken()]);
    assert_eq!(events.len(), 2);
    assert_eq!(error.kind(), ErrorKind::Timeout);
}

#[test]
fn idle_connection_after_the_finish_reason_completes_the_answer() {
    let torn = || Ok("data: {\"usageMeta".into());
    for end in [vec![], vec![broken()], vec![torn(), broken()], vec![torn()]] {
        let body = [text("a"), finish("STOP")].into_iter().chain(end);
        let response = fold(decode(body.collect())).unwrap();
        assert_eq!(response.text(), "a");
        assert_eq!(response.stop_reason, Some(StopReason::EndTurn));
    }
}

#[tokio::test(start_paused = true)]
async fn two_seconds_of_silence_end_a_complete_answer() {
    let late = |seconds: f64, chunk: Result<Bytes>| async move {
        tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
        chunk
    };
    let usage = json!({"usageMetadata": {"promptTokenCount": 3}});
    let chunks = [
        (0.0, text("a")),
        (9.0, finish("STOP")),
        (1.5, frame(&usage)),
    ];
    let body = stream::iter(chunks)
        .then(move |(seconds, chunk)| late(seconds, chunk))
        .chain(stream::pending());
    let start = tokio::time::Instant::now();
    let response = fold(gemini::decode(body).collect().await).unwrap();
    assert_eq!(start.elapsed(), Duration::from_millis(12_500));
    assert_eq!(response.stop_reason, Some(StopReason::EndTurn));
    assert_eq!(response.usage, Usage::new(3, 0));
}

#[tokio::test(start_paused = true)]
async fn comments_do_not_prolong_a_complete_answer() {
    let comments = stream::unfold((), |()| async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Some((Ok(Bytes::from_static(b": keep-alive\n\n")), ()))
    });
    let body = stream::iter([text("a"), finish("STOP")]).chain(comments);
    let start = tokio::time::Instant::now();
    let response = fold(gemini::decode(body).collect().await).unwrap();
    assert_eq!(start.elapsed(), Duration::from_secs(2));
    assert_eq!(response.text(), "a");
}

#[test]
fn error_behind_the_finish_reason_is_the_error() {
    let unreadable = || Ok("data: {\"usageMeta\n\n".into());
    let (_, error) = failure(vec![text("a"), finish("STOP"), unreadable()]);
    assert_eq!(error.kind(), ErrorKind::Protocol);
    let overloaded = || frame(&json!({"error": {"code": 503, "message": "busy"}}));
    let (_, error) = failure(vec![text("a"), finish("STOP"), overloaded()]);
    assert_eq!(error.kind(), ErrorKind::Overloaded);

    // The frame of an error may be incomplete.
    let body = b"data: {\"error\":{\"code\":503,\"message\":\"busy\"}}";
    let (_, error) = failure(vec![finish("STOP"), Ok(body.as_slice().into())]);
    assert_eq!(error.kind(), ErrorKind::Overloaded);
}

#[test]
fn malformed_call_is_a_server_error() {
    let (events, error) = failure(vec![Ok(recording!("malformed_call.sse").into())]);
    assert_eq!(events.last(), Some(&ModelEvent::Usage(Usage::new(40, 0))));
    assert_eq!(error.kind(), ErrorKind::Server);
    assert!(error.is_retryable());
    for word in ["MALFORMED_FUNCTION_CALL", "print(default_api.get_weather"] {
        assert!(error.text().contains(word), "{error}");
    }

    for word in [
        "MALFORMED_RESPONSE",
        "UNEXPECTED_TOOL_CALL",
        "TOO_MANY_TOOL_CALLS",
        "MISSING_THOUGHT_SIGNATURE",
    ] {
        let (_, error) = failure(vec![text("a"), finish(word)]);
        assert_eq!(error.kind(), ErrorKind::Server, "{word}");
    }
}

#[test]
fn error_chunk_after_200_is_the_error() {
    let (events, error) = failure(vec![Ok(recording!("error_chunk.sse").into())]);
    assert_eq!(error.kind(), ErrorKind::Overloaded, "{error}");
    assert!(error.text().contains("The model is overloaded"), "{error}");
    assert_eq!(events.last(), Some(&ModelEvent::Usage(Usage::new(10, 1))));

    let wrapped = json!([{"error": {"code": 429, "message": "slow down"}}]);
    let (_, error) = failure(vec![text("a"), frame(&wrapped)]);
    assert_eq!(error.kind(), ErrorKind::RateLimited, "{error}");
    let document = json!({"error": {"code": 503, "message": "busy"}}).to_string();
    let (events, error) = failure(vec![Ok(document.into())]);
    assert!(events.is_empty());
    assert_eq!(error.kind(), ErrorKind::Overloaded);
}

#[test]
fn body_that_is_not_a_stream_is_a_protocol_error() {
    let (events, error) = failure(vec![Ok(recording!("error_array.json").into())]);
    assert!(events.is_empty());
    assert_eq!(error.kind(), ErrorKind::Protocol);
    assert!(error.text().contains("exceeded your current"), "{error}");
    let bodies = [
        "<html>busy</html>",
        "{\"message\":\"no\"}",
        "data: {no}\n\n",
        "data: 7\n\n",
        "data: \"busy\"\n\n",
    ];
    for body in bodies {
        let (events, error) = failure(vec![Ok(body.into())]);
        assert!(events.is_empty(), "{body}");
        assert_eq!(error.kind(), ErrorKind::Protocol, "{body}: {error}");
    }
}

#[test]
fn blocked_prompt_is_a_refusal() {
    let events = recorded(recording!("blocked.sse"));
    assert!(matches!(&events[0], ModelEvent::Start(head) if &*head.id == "Rk1naYq2"));
    let warning = "the provider blocked the prompt: PROHIBITED_CONTENT";
    assert_eq!(events[1], ModelEvent::Warning(warning.into()));
    assert_eq!(events[2], ModelEvent::Usage(Usage::new(17, 0)));
    assert_eq!(events[3..], [ModelEvent::stop(StopReason::Refusal)]);
}

#[test]
fn finish_reasons_become_stop_reasons() {
    let other = |word: &str| StopReason::Other(word.into());
    for (word, reason) in [
        ("STOP", StopReason::EndTurn),
        ("FUNCTION_CALL", StopReason::EndTurn),
        ("MAX_TOKENS", StopReason::MaxTokens),
        ("RECITATION", StopReason::Refusal),
        ("MODEL_ARMOR", StopReason::Refusal),
        ("IMAGE_PROHIBITED_CONTENT", StopReason::Refusal),
        ("NO_IMAGE", other("NO_IMAGE")),
        ("OTHER", other("OTHER")),
        ("NEW", other("NEW")),
    ] {
        let response = fold(decode(vec![text("a"), finish(word)])).unwrap();
        assert_eq!(response.stop_reason, Some(reason), "{word}");
    }

    let response = answer(recording!("safety.sse"));
    assert_eq!(response.text(), "First, take");
    assert_eq!(response.stop_reason, Some(StopReason::Refusal));
    let response = answer(recording!("continuation.sse"));
    assert_eq!(response.text(), "Chapter 1. It was a dark");
    assert_eq!(response.stop_reason, Some(StopReason::MaxTokens));
}

#[test]
fn partial_arguments_are_a_protocol_error() {
    let partial = json!([{"jsonPath": "$.city", "stringValue": "Par"}]);
    for call in [
        json!({"name": "f", "willContinue": true}),
        json!({"name": "f", "partialArgs": partial}),
    ] {
        let (_, error) = failure(vec![parts(&json!([{"functionCall": call}]))]);
        assert_eq!(error.kind(), ErrorKind::Protocol);
        assert!(error.text().contains("not requested"), "{error}");
    }

    let (_, error) = failure(vec![parts(&json!([{"functionCall": {"args": {}}}]))]);
    assert_eq!(error.kind(), ErrorKind::Protocol);
    assert!(error.text().contains("has no name"), "{error}");
}

#[test]
fn call_without_id_gets_one() {
    let response = answer(recording!("call_without_id.sse"));
    let calls: Vec<_> = response.tool_calls().collect();
    assert_eq!(&*calls[0].id, "call_Rk1naYq2_0");
    assert_eq!(&*calls[1].id, "call_Rk1naYq2_1");
    assert_eq!(calls[1].raw_args.as_deref(), Some("{}"));
    assert_eq!(response.stop_reason, Some(StopReason::ToolUse));

    let same = json!({"functionCall": {"id": "x", "name": "f"}});
    let body = vec![parts(&json!([same, same])), finish("STOP")];
    let response = fold(decode(body)).unwrap();
    let ids: Vec<_> = response.tool_calls().map(|call| &*call.id).collect();
    assert_eq!(ids, ["x", "x_2"]);
}

#[test]
fn call_is_emitted_with_its_signature() {
    let events = recorded(recording!("call.sse"));
    let args = r#"{"city": "Zürich", "days": [1, 2]}"#;
    let [start, delta, ModelEvent::ToolCall(call)] = &events[2..5] else {
        panic!("{events:?}");
    };

    let (index, id, name) = (0, "fc_7a".into(), "get_weather".into());
    assert_eq!(*start, ModelEvent::ToolCallStart { index, id, name });
    let json = args.to_owned();
    assert_eq!(*delta, ModelEvent::ToolCallDelta { index, json });
    assert_eq!(call.raw_args.as_deref(), Some(args));
    assert_eq!(call.args["days"], json!([1, 2]));
    let fields = block(r#"{"thoughtSignature":"c2lnLTE="}"#);
    assert_eq!(extra(call), Some(&fields));
    assert_eq!(events.last(), Some(&ModelEvent::stop(StopReason::ToolUse)));
}

#[test]
fn parallel_calls_keep_the_signature_of_the_first() {
    let response = answer(recording!("parallel.sse"));
    let calls: Vec<_> = response.tool_calls().collect();
    let ids: Vec<_> = calls.iter().map(|call| &*call.id).collect();
    assert_eq!(ids, ["fc_1", "fc_2", "fc_3"]);
    let fields = block(r#"{"thoughtSignature":"c2lnLTE="}"#);
    assert_eq!(extra(calls[0]), Some(&fields));
    assert_eq!((extra(calls[1]), extra(calls[2])), (None, None));
}

#[test]
fn empty_signed_text_is_kept() {
    let response = answer(recording!("empty_signed.sse"));
    let raw = r#"{"text": "", "thoughtSignature": "c2lnLTM="}"#;
    let expected = [Part::text("Yes."), Part::Opaque(block(raw))];
    assert_eq!(response.content.parts(), expected);

    // Sources in the same chunk belong to the text before it.
    let source = json!({"web": {"uri": "u", "title": "t"}});
    let end = json!({"candidates": [{
        "content": {"parts": [{"text": "", "thoughtSignature": "s"}]},
        "groundingMetadata": {"groundingChunks": [source, {"web": {"title": "x"}}, {}]},
        "finishReason": "STOP",
    }]});
    let response = fold(decode(vec![text("a"), frame(&end)])).unwrap();
    let annotations = Annotations::new([Citation::new("u").with_title("t")]);
    assert_eq!(response.content.parts()[1], Part::Annotations(annotations));
    assert!(matches!(response.content.parts()[2], Part::Opaque(_)));
}

#[test]
fn sources_behind_other_parts_are_those_of_the_last_text() {
    let source = json!({"web": {"uri": "u", "title": "t"}});
    let metadata = json!({"groundingChunks": [source]});
    let end = json!({"candidates": [{"groundingMetadata": metadata, "finishReason": "STOP"}]});
    let call = json!({"functionCall": {"name": "f", "args": {}}});
    let signed = json!({"text": "", "thoughtSignature": "s"});
    let thought = json!({"text": "Hm.", "thought": true});
    let code = json!({"executableCode": {"code": "1"}});
    for between in [
        json!([call]),
        json!([signed]),
        json!([thought]),
        json!([code, thought]),
    ] {
        let chunks = vec![text("a"), parts(&between), frame(&end)];
        let response = fold(decode(chunks)).unwrap();
        let parts = response.content.parts();
        let annotations = Annotations::new([Citation::new("u").with_title("t")]);
        assert_eq!(
            parts[..2],
            [Part::text("a"), Part::Annotations(annotations)],
            "{between}"
        );
        assert_eq!(
            parts.len(),
            2 + between.as_array().unwrap().len(),
            "{parts:?}"
        );
        assert_eq!(response.content.citations().count(), 1);
    }

    // If another text follows, the sources belong to that text.
    let chunks = vec![text("a"), parts(&json!([code])), text("b"), frame(&end)];
    let response = fold(decode(chunks)).unwrap();
    let parts = response.content.parts();
    assert!(matches!(parts[1], Part::Opaque(_)), "{parts:?}");
    assert!(matches!(parts[3], Part::Annotations(_)), "{parts:?}");

    // The events before a failure are emitted.
    let (events, _) = failure(vec![text("a"), super::answers::parts(&json!([thought]))]);
    assert!(
        events.contains(&ModelEvent::Thinking("Hm.".into())),
        "{events:?}"
    );
}

#[test]
fn signed_text_is_not_joined() {
    let signature = r#"{"thoughtSignature":"c2lnLTI="}"#;
    let annotations = Part::Annotations(Annotations::default().with_block(block(signature)));
    let events = recorded(recording!("signed_text.sse"));
    let expected = [
        ModelEvent::Text(" is 42.".into()),
        ModelEvent::PartEnd,
        ModelEvent::Text(" Or not.".into()),
        ModelEvent::Part(annotations.clone()),
    ];
    assert_eq!(events[2..6], expected);
    let expected = [
        Part::text("The answer is 42."),
        Part::text(" Or not."),
        annotations,
    ];
    assert_eq!(
        answer(recording!("signed_text.sse")).content.parts(),
        expected
    );

    let signed = |text: &str| json!({"text": text, "thoughtSignature": text});
    let texts = json!([signed("a"), signed("b"), {"text": "c"}, {"text": "d"}]);
    let response = fold(decode(vec![parts(&texts), finish("STOP")])).unwrap();
    let texts: Vec<_> = response
        .content
        .parts()
        .iter()
        .filter_map(Part::as_text)
        .collect();
    assert_eq!(texts, ["a", "b", "cd"]);
    assert_eq!(response.content.parts().len(), 5);
}

#[test]
fn thoughts_are_one_part() {
    let events = recorded(recording!("thoughts.sse"));
    let [first, second] = ["**Tides**\n\nThe user", " asks about tides."];
    assert_eq!(events[1], ModelEvent::Thinking(first.into()));
    assert_eq!(events[2], ModelEvent::Thinking(second.into()));
    let raw = r#"{"text":"**Tides**\n\nThe user asks about tides.","thought":true}"#;
    assert_eq!(events[3], ModelEvent::Part(Part::Thinking(block(raw))));
    assert_eq!(events[4], ModelEvent::Text("Twice".into()));

    // A part ends with its signature.
    let thought = |text: &str| json!({"text": text, "thought": true});
    let mut signed = thought("b");
    signed["thoughtSignature"] = "s".into();
    let body = json!([thought("a"), thought(""), signed, thought("c")]);
    let response = fold(decode(vec![parts(&body), finish("STOP")])).unwrap();
    let expected = [
        Part::Thinking(block(
            r#"{"text":"ab","thought":true,"thoughtSignature":"s"}"#,
        )),
        Part::Thinking(block(r#"{"text":"c","thought":true}"#)),
    ];
    assert_eq!(response.content.parts(), expected);
}

#[test]
fn parts_of_other_kinds_are_kept_as_they_came() {
    let response = answer(recording!("code.sse"));
    let [
        Part::Text(_),
        Part::Opaque(code),
        Part::Opaque(result),
        Part::Opaque(image),
        Part::Text(last),
    ] = response.content.parts()
    else {
        panic!("{:?}", response.content);
    };

    assert!(
        code.raw
            .get()
            .starts_with(r#"{"executableCode": {"id": "ec_1""#)
    );
    assert!(
        code.raw
            .get()
            .ends_with(r#""thoughtSignature": "c2lnLTQ="}"#)
    );
    assert!(result.raw.get().starts_with(r#"{"codeExecutionResult""#));
    assert!(image.raw.get().starts_with(r#"{"inlineData""#));
    assert_eq!(last, "It is 42.");

    let odd = json!([{}, null, {"text": ""}, {"new": [1]}]);
    let response = fold(decode(vec![parts(&odd), finish("STOP")])).unwrap();
    let expected = [Part::Opaque(block(r#"{"new":[1]}"#))];
    assert_eq!(response.content.parts(), expected);
}

#[test]
fn grounding_becomes_citations() {
    let response = answer(recording!("grounding.sse"));
    let tides = Citation::new("https://example.com/tides").with_title("Tides");
    let lakes = Citation::new("https://example.org/lakes").with_title("Lakes");
    let [first, second] = ["High water is at 12:04.", "Lakes have no tide."];
    let citations = [
        tides.with_cited_text(first),
        lakes.clone().with_cited_text(first),
        lakes.with_cited_text(second),
    ];
    let signature = block(r#"{"thoughtSignature":"c2lnLTY="}"#);
    let annotations = Annotations::new(citations).with_block(signature);
    let [Part::Opaque(call), Part::Opaque(_), texts @ ..] = response.content.parts() else {
        panic!("{:?}", response.content);
    };

    assert!(call.raw.get().contains("GOOGLE_SEARCH"));
    let expected = [
        Part::text(first),
        Part::text(" Lakes have no tide."),
        Part::Annotations(annotations),
    ];
    assert_eq!(texts, expected);
    assert_eq!(response.usage.server_tool_requests, 2);
}

#[test]
fn output_usage_includes_the_thoughts() {
    let usage = answer(recording!("thoughts.sse")).usage;
    assert_eq!((usage.input_tokens, usage.output_tokens), (15, 34));
    assert_eq!(usage.reasoning_tokens, 30);

    // The last report counts, and the cached tokens are part of the prompt.
    let usage = answer(recording!("text.sse")).usage;
    assert_eq!(usage, Usage::new(12, 9).with_cache(100, 0));
}

#[test]
fn answer_in_one_document_is_read() {
    let response = answer(recording!("document.json"));
    assert_eq!(response.text(), "2 + 2 = 4.");
    assert!(matches!(response.content.parts()[0], Part::Thinking(_)));
    assert_eq!(
        (&*response.id, &*response.model),
        ("Rk1naYq2", "gemini-3-pro-preview")
    );
    assert_eq!(
        answer(recording!("aimock-text.sse")).text(),
        "Hi there, friend!"
    );
    let response = answer(recording!("aimock-call.sse"));
    assert_eq!(response.tool_calls().next().unwrap().args["city"], "Paris");
    assert_eq!(response.stop_reason, Some(StopReason::ToolUse));
}

#[test]
fn other_candidates_and_unexpected_types_are_ignored() {
    let odd = json!({"candidates": [
        {"index": 1, "content": {"parts": [{"text": "other"}]}, "finishReason": "SAFETY"},
        {"index": "0", "content": {"parts": [{"text": "a", "thought": null}]}, "finishReason": null},
    ], "usageMetadata": [], "promptFeedback": null, "error": null, "responseId": 7});
    let empty = json!({"candidates": [{"content": {"parts": null}, "groundingMetadata": 1}]});
    let body = vec![
        frame(&odd),
        frame(&empty),
        Ok("data:\n\n".into()),
        finish("STOP"),
    ];
    let response = fold(decode(body)).unwrap();
    assert_eq!(response.text(), "a");
    assert_eq!((&*response.id, response.usage), ("7", Usage::default()));
}

#[test]
fn lone_surrogate_does_not_end_an_answer() {
    let part = r#"{"text":"a\ud83d"},{"functionCall":{"name":"f","args":{"b":"\ud83d"}}}"#;
    let chunk = format!("data: {{\"candidates\":[{{\"content\":{{\"parts\":[{part}]}}}}]}}\n\n");
    let response = fold(decode(vec![Ok(chunk.into()), finish("STOP")])).unwrap();
    assert_eq!(response.text(), "a\u{FFFD}");
    let calls: Vec<_> = response.tool_calls().map(|call| &*call.args).collect();
    assert_eq!(calls, [&json!({"b": "\u{FFFD}"})]);

    let part = r#"{"functionCall":{"name":"f","args":{"b":"\ud83d"}}}"#;
    let chunk = format!("data: {{\"candidates\":[{{\"content\":{{\"parts\":[{part}]}}}}]}}\n\n");
    let response = fold(decode(vec![Ok(chunk.into()), finish("STOP")])).unwrap();
    assert_eq!(response.tool_calls().next().unwrap().args["b"], "\u{FFFD}");
}

#[test]
fn answer_over_a_limit_is_too_large() {
    let large = "x".repeat(2 << 20);
    let call =
        |id: String, args: Value| json!({"functionCall": {"id": id, "name": "f", "args": args}});
    let many = |count: usize, part: &dyn Fn(usize) -> Value| {
        let frames = (0..count).map(|at| parts(&json!([part(at)])));
        frames.collect::<Vec<_>>()
    };

    // The text is once in the chunk, but counts once for each source.
    let cited = json!({"candidates": [{
        "content": {"parts": [{"text": "a"}]},
        "groundingMetadata": {
            "groundingChunks": [{"web": {"uri": "u"}}],
            "groundingSupports": [{"segment": {"text": large}, "groundingChunkIndices": vec![0; 10]}],
        },
        "finishReason": "STOP",
    }]});
    let list = Value::from(vec![0; 30_000]);
    let cases = [
        (
            "max_bytes",
            many(9, &|_| json!({"text": large, "thought": true})),
        ),
        (
            "max_bytes",
            many(9, &|_| json!({"text": "a", "thoughtSignature": large})),
        ),
        (
            "max_bytes",
            many(9, &|at| call(at.to_string(), json!({"a": large}))),
        ),
        (
            "max_bytes",
            many(9, &|_| json!({"inlineData": {"data": large}})),
        ),
        ("max_bytes", vec![frame(&cited)]),
        (
            "max_calls",
            many(1_001, &|at| call(at.to_string(), json!({}))),
        ),
        ("max_blocks", many(10_001, &|_| json!({"new": 1}))),
        (
            "max_values",
            many(2, &|at| call(at.to_string(), json!({"a": list}))),
        ),
        ("max_values", many(2, &|_| json!({"new": list}))),
        (
            "call's id",
            many(1, &|_| call("n".repeat(1_025), json!({}))),
        ),
    ];
    for (at, (limit, mut body)) in cases.into_iter().enumerate() {
        body.push(finish("STOP"));
        let (_, error) = failure(body);
        assert_eq!(
            error.kind(),
            ErrorKind::ResponseTooLarge,
            "case {at}: {error}"
        );
        assert!(error.text().contains(limit), "case {at}: {error}");
    }
}

#[test]
fn chunks_that_differ_in_text_and_usage_read_as_others_do() {
    let texts = ["a", " b", "", " \"c\"\n", " d", "\u{1F600}"];
    let parts = texts.map(|text| json!({"text": text}));
    let thought = json!({"text": "hm", "thought": true});
    let signed = json!({"text": "signed", "thoughtSignature": "c2ln"});
    let call = json!({"functionCall": {"name": "f", "args": {}}});
    let parts = [&parts[..], &[thought], &parts, &[signed], &parts, &[call]].concat();
    let stream = |has_numbers: bool| {
        let chunks = (1..).zip(&parts).map(|(number, part)| {
            let mut chunk = json!({"candidates": [{"content": {"parts": [part]}, "index": 0}]});
            chunk["usageMetadata"] = json!({"promptTokenCount": 5, "candidatesTokenCount": number});
            chunk["responseId"] = "r".into();
            // A chunk with other differences is parsed as a whole.
            if has_numbers {
                chunk["number"] = number.into();
            }
            format!("data: {chunk}\n\n")
        });
        let end = "data: {\"candidates\":[{\"finishReason\":\"STOP\"}]}\n\n";
        chunks.collect::<String>() + end
    };
    let read = |body: String| -> Vec<_> {
        let events = decode(vec![Ok(body.into())]);
        events.into_iter().map(Result::unwrap).collect()
    };
    let expected = read(stream(true));
    assert!(
        expected.contains(&ModelEvent::Text(" d".into())),
        "{expected:?}"
    );
    assert_eq!(read(stream(false)), expected);
}

#[test]
fn equal_arrays_of_chunks_are_read_whole() {
    let chunk = |text: &str| {
        let content = json!({"parts": [{"text": text}]});
        json!({"candidates": [{"content": content}], "usageMetadata": {"promptTokenCount": 5}})
    };
    let frame = format!("data: {}\n\n", json!([chunk("a"), chunk("b")]));
    let end = "data: {\"candidates\":[{\"finishReason\":\"STOP\"}]}\n\n";
    let events = decode(vec![Ok(format!("{frame}{frame}{end}").into())]);
    let texts = events.into_iter().filter_map(|event| match event.unwrap() {
        ModelEvent::Text(text) => Some(text),
        _ => None,
    });
    assert_eq!(texts.collect::<String>(), "abab");
}

#[test]
fn generated_call_id_has_no_part_of_a_secret() {
    const KEY: &str = "sk-live-zk3vQ8mW2xT7bN5dJ9hL4cR6";
    let _secret = Secret::new(KEY);
    let part = json!({"functionCall": {"name": "f", "args": {}}});
    let candidate = json!({"content": {"parts": [part]}, "finishReason": "STOP"});
    let chunk = json!({"candidates": [candidate], "responseId": KEY});
    let events = decode(vec![frame(&chunk)]);
    let ids = events.into_iter().filter_map(|event| match event.unwrap() {
        ModelEvent::ToolCall(call) => Some(call.id),
        _ => None,
    });
    let ids: Vec<_> = ids.collect();
    assert_eq!(ids.len(), 1);
    assert!(!ids[0].contains("sk-live"), "{ids:?}");
}
