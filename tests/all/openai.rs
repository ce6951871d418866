//! Chat Completions: what is sent, and what is made of the many dialects that come back.

#![allow(clippy::unwrap_used)]

use agentcore::message::{Media, ProviderBlock};
use agentcore::model::{
    ModelEvent, ModelResponse, ModelSettings, ResponseFold, ResponseFormat, Stability, StopReason,
    SystemPrompt, ThinkingMode, ToolChoice, ToolDefinition,
};
use agentcore::providers::{OpenAi, openai};
use agentcore::testing::{FaultServer, Reply, conformance};
use agentcore::{
    Error, ErrorKind, Message, Messages, Model, ModelRequest, Part, Result, ToolCall, Usage,
};
use futures::StreamExt;
use futures::executor::block_on;
use serde_json::value::RawValue;
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
fn names_and_ids_may_come_late_or_never() {
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
fn pieces_find_their_call_without_an_index() {
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
fn one_index_for_two_calls_and_one_id_for_two_calls_are_told_apart() {
    let same_index = piece(
        r#"{"index":0,"id":"x","function":{"name":"t","arguments":"{}"}},
           {"index":0,"id":"y","function":{"name":"u","arguments":"{}"}}"#,
    );
    let found = calls(&[&same_index, STOP]);
    assert_eq!((&*found[0].0, &*found[1].0), ("x", "y"));

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
fn arguments_may_be_an_object_and_broken_ones_are_kept_apart() {
    let object = piece(r#"{"index":0,"id":"x","function":{"name":"t","arguments":{"a": 1}}}"#);
    assert_eq!(calls(&[&object, STOP])[0].2, json!({"a": 1}));

    let broken = piece(r#"{"index":0,"id":"x","function":{"name":"t","arguments":"{\"a\":"}}"#);
    let response = answer(&[&broken, STOP]).unwrap();
    let call = response.tool_calls().next().unwrap();
    assert!(call.args.is_null());
    assert_eq!(call.raw_args.as_deref(), Some("{\"a\":"));

    // An answer that ran into its limit inside a call: the call must not run.
    assert_eq!(calls(&[&broken, LENGTH]), []);
    let whole = piece(r#"{"index":0,"id":"y","function":{"name":"t","arguments":"{}"}}"#);
    let broken = broken.replace(r#""index":0"#, r#""index":1"#);
    assert_eq!(calls(&[&whole, &broken, LENGTH]).len(), 1);
}

#[test]
fn odd_fields_do_not_spoil_a_chunk() {
    let frames = [
        r#"{"id":"","model":"","choices":[],"prompt_filter_results":[{"x":1}]}"#,
        r#"{"id":7,"model":null,"choices":[{"index":"0","delta":{"role":"assistant","content":null,"audio":{}},"finish_reason":""}],"usage":null}"#,
        r#"{"id":"r","choices":[{"delta":{"content":"a"},"finish_reason":null,"logprobs":{}}],"usage":{}}"#,
        r#"{"id":"r","choices":null,"usage":{"prompt_tokens":0,"completion_tokens":0}}"#,
        r#"{"id":"r","choices":[{"index":1,"delta":{"content":"other"}},{"index":0,"delta":{"content":[{"type":"text","text":"b"}]}}]}"#,
        r#"{"id":"r","choices":[{"delta":null,"finish_reason":"odd"}],"error":null}"#,
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
fn a_whole_message_in_place_of_deltas_is_read() {
    let frame = r#"{"id":"r","choices":[{"message":{"content":"hi","tool_calls":[{"id":"x","type":"function","function":{"name":"t","arguments":"{\"a\":1}"}},{"id":"y","type":"function","function":{"name":"t","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}"#;
    let response = answer(&[frame, "[DONE]"]).unwrap();
    assert_eq!(response.text(), "hi");
    assert_eq!(response.tool_calls().count(), 2);
}

#[test]
fn the_end_may_be_marked_in_three_ways_and_must_be_in_one() {
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
    // What comes behind the end is not looked at.
    assert!(answer(&[&text, stop, usage, "{garbage"]).is_ok());
    for torn in [&[&*text][..], &[], &[&*text, usage]] {
        assert_eq!(answer(torn).unwrap_err().kind(), ErrorKind::StreamTruncated);
    }
    // The tokens of a torn answer are paid for all the same.
    let reported = events(&[&text, usage]);
    assert!(matches!(reported[2], Ok(ModelEvent::Usage(usage)) if usage == Usage::new(1, 1)));
}

#[test]
fn reasoning_is_shown_and_kept_as_it_came() {
    for field in ["reasoning_content", "reasoning"] {
        let one = chunk(&format!(r#"{{"{field}":"h\u00e9"}}"#));
        let two = chunk(&format!(r#"{{"{field}":"m","content":null}}"#));
        let text = chunk(r#"{"content":"a"}"#);
        let frames: [&str; 4] = [&one, &two, &text, "[DONE]"];
        let shown = events(&frames);
        assert!(matches!(&shown[1], Ok(ModelEvent::Thinking(text)) if text == "hé"));
        let response = answer(&frames).unwrap();
        let [Part::Thinking(block), Part::Text(_)] = response.content.parts() else {
            panic!("{:?}", response.content);
        };
        assert_eq!(block.raw.get(), format!(r#"{{"{field}":"hém"}}"#));
        assert_eq!(block.provider.as_deref(), Some("openai"));
    }
}

#[test]
fn refusals_and_errors_in_the_stream_are_told() {
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
            r#"{"object":"error","message":"it broke","code":500}"#,
            ErrorKind::Server,
        ),
        (
            r#"{"id":"r","choices":[{"delta":{},"finish_reason":"error"}]}"#,
            ErrorKind::Server,
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
}

/// What is sent for `request`.
async fn sent(
    model: impl FnOnce(String) -> OpenAi,
    request: ModelRequest,
) -> agentcore::testing::fault_server::Received {
    let server = FaultServer::start().await.unwrap();
    server.openai_text("ok");
    let model = model(server.url());
    assert_eq!(model.call(request).await.unwrap().text(), "ok");
    server.requests().remove(0)
}

fn local(url: String) -> OpenAi {
    OpenAi::compatible(url, "m")
}

#[tokio::test]
async fn a_history_becomes_messages() {
    let png = || Part::Image(Media::bytes("image/png", b"png"));
    let raw = RawValue::from_string(r#"{"reasoning_content":"own"}"#.into()).unwrap();
    let foreign = RawValue::from_string(r#"{"type":"thinking"}"#.into()).unwrap();
    let mut system = SystemPrompt::new();
    system.set("b", "volatile", Stability::Volatile);
    system.set("a", "stable", Stability::Stable);
    let history = Messages::new()
        .system("from the history")
        .human("one")
        .human("two")
        .with(Message::ai([
            Part::Thinking(ProviderBlock::new("anthropic", foreign)),
            Part::Thinking(ProviderBlock::new("openai", raw)),
            Part::ToolCall(ToolCall::from_raw("c1", "t", "{ \"a\": 1.50 }")),
            Part::ToolCall(ToolCall::from_raw("c2", "t", "{broken")),
        ]))
        .with(Message::tool("c1", "t", [Part::text("seen"), png()]))
        .tool("c2", "t", "")
        .with(Message::human([
            Part::text("and"),
            Part::Document(Media::bytes("application/pdf", b"pdf").with_name("a.pdf")),
            Part::Image(Media::url("http://x/y.png")),
        ]));
    let request = ModelRequest::new(history).with_system(system);
    let body = sent(local, request).await.json();
    assert_eq!(
        body["messages"],
        json!([
            {"role": "system", "content": "stable\n\nfrom the history\n\nvolatile"},
            {"role": "user", "content": "one\n\ntwo"},
            {"role": "assistant", "content": null, "reasoning_content": "own", "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "t", "arguments": "{ \"a\": 1.50 }"}},
                {"id": "c2", "type": "function", "function": {"name": "t", "arguments": "{}"}},
            ]},
            {"role": "tool", "tool_call_id": "c1", "content": "seen"},
            {"role": "tool", "tool_call_id": "c2", "content": "(empty)"},
            {"role": "user", "content": [
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,cG5n"}},
                {"type": "text", "text": "and"},
                {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,cGRm"}},
                {"type": "image_url", "image_url": {"url": "http://x/y.png"}},
            ]},
        ])
    );
}

#[tokio::test]
async fn settings_become_fields_and_extra_has_the_last_word() {
    let tool = ToolDefinition::new("t", "does", json!({"type": "object"}));
    let mut request = ModelRequest::new("hi")
        .with_tools([tool])
        .with_max_tokens(9);
    request.temperature = Some(0.5);
    request.stop = ["END".to_owned()].into();
    request.tool_choice = ToolChoice::Tool("t".into());
    request.settings = ModelSettings::new()
        .thinking(ThinkingMode::Effort("low".into()))
        .top_p(0.9)
        .top_k(5)
        .seed(1)
        .parallel_tool_calls(false);
    request.response_format = Some(ResponseFormat::JsonSchema {
        name: "n".into(),
        schema: json!({"type": "object", "properties": {"a": {"type": "string"}}}).into(),
    });
    request.extra = json!({"seed": 2, "stream_options": null, "logit_bias": {"1": 2}})
        .as_object()
        .unwrap()
        .clone();
    let received = sent(|url| local(url).key("sk-secret"), request).await;
    assert_eq!(received.path, "/chat/completions");
    assert_eq!(received.header("authorization"), Some("Bearer sk-secret"));
    let mut body = received.json();
    body.as_object_mut().unwrap().remove("messages");
    assert_eq!(
        body,
        json!({
            "model": "m", "stream": true, "max_tokens": 9, "temperature": 0.5, "top_p": 0.9,
            "top_k": 5, "seed": 2, "stop": ["END"], "reasoning_effort": "low",
            "parallel_tool_calls": false, "logit_bias": {"1": 2},
            "tools": [{"type": "function", "function": {
                "name": "t", "description": "does", "parameters": {"type": "object"}}}],
            "tool_choice": {"type": "function", "function": {"name": "t"}},
            "response_format": {"type": "json_schema", "json_schema": {
                "name": "n", "strict": false,
                "schema": {"type": "object", "properties": {"a": {"type": "string"}}}}},
        })
    );
}

#[tokio::test]
async fn only_what_was_set_is_sent() {
    let body = sent(local, ModelRequest::new("hi")).await.json();
    let expected = json!({
        "model": "m", "stream": true, "stream_options": {"include_usage": true},
        "messages": [{"role": "user", "content": "hi"}],
    });
    assert_eq!(body, expected);
    let limited = |url| {
        local(url)
            .max_tokens(7)
            .max_tokens_field("max_completion_tokens")
    };
    let body = sent(limited, ModelRequest::new("hi")).await.json();
    assert_eq!(body["max_completion_tokens"], 7);
    let mut strict = ModelRequest::new("hi");
    strict.model = Some("other".into());
    strict.response_format = Some(ResponseFormat::JsonSchema {
        name: "n".into(),
        schema: json!({
            "type": "object", "additionalProperties": false,
            "properties": {"a": {"type": "string"}}, "required": ["a"],
        })
        .into(),
    });
    let body = sent(local, strict).await.json();
    assert_eq!(body["response_format"]["json_schema"]["strict"], true);
    assert_eq!(body["model"], "other");
}

#[tokio::test]
async fn an_id_that_the_history_has_is_not_given_twice() {
    let server = FaultServer::start().await.unwrap();
    server.reply(Reply::openai_call("t", &json!({})));
    let history = Messages::new()
        .human("hi")
        .ai_calling("", [ToolCall::new("call_1", "t", json!({}))])
        .tool("call_1", "t", "ok");
    let response = local(server.url()).call(history.into()).await.unwrap();
    assert_eq!(&*response.tool_calls().next().unwrap().id, "call_1_2");
}

#[tokio::test]
async fn ids_too_long_for_the_api_are_cut_alike_in_call_and_result() {
    let long = format!("{}-unique", "x".repeat(60));
    let history = Messages::new()
        .human("hi")
        .ai_calling("", [ToolCall::new(&*long, "t", json!({}))])
        .tool(&*long, "t", "ok");
    let body = sent(local, history.into()).await.json();
    let id = body["messages"][2]["tool_call_id"].as_str().unwrap();
    assert_eq!((id.len(), id.ends_with("-unique")), (40, true));
    assert_eq!(body["messages"][1]["tool_calls"][0]["id"], id);
}

#[tokio::test]
async fn a_growing_history_is_sent_as_if_it_were_written_anew() {
    let server = FaultServer::start().await.unwrap();
    server.fallback(Reply::openai_text("ok"));
    let model = local(server.url());
    let mut request = ModelRequest::new("one");
    let steps: [Message; 5] = [
        Message::human("more"),
        Message::ai_calling("", [ToolCall::new("c", "t", json!({}))]),
        Message::tool("c", "t", "r"),
        Message::human("steer"),
        Message::ai("done"),
    ];
    for step in steps {
        // A clone shares the slot with the encoded bytes; a new request has its own.
        model.call(request.clone()).await.unwrap();
        model
            .call(ModelRequest::new(request.messages.clone()))
            .await
            .unwrap();
        request.messages.push(step);
    }
    let bodies = server.requests();
    for pair in bodies.chunks(2) {
        assert_eq!(pair[0].body, pair[1].body);
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn the_suite_for_models_passes() {
    let server = FaultServer::start().await.unwrap();
    server.fallback(Reply::openai_text("an answer in words"));
    conformance::model(|| local(server.url())).await.unwrap();
}

#[test]
fn no_key_shows() {
    let model = OpenAi::new("gpt-4o", "sk-very-secret");
    assert!(!format!("{model:?}").contains("very-secret"));
    assert_eq!(model.id(), "openai:gpt-4o");
    assert_eq!(local("http://x".into()).provider("groq").id(), "groq:m");
}
