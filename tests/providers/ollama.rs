//! Ollama: what is sent, and what comes back.

use agentcore::message::{Media, ProviderBlock};
use agentcore::model::{
    ModelSettings, ResponseFold, ResponseFormat, ThinkingMode, ToolChoice, ToolDefinition,
};
use agentcore::providers::{Ollama, ollama, resolve};
use agentcore::testing::{FaultServer, Reply, conformance};
use agentcore::{
    ErrorKind, Message, Messages, Model, ModelRequest, ModelResponse, Part, Result, ToolCall,
};
use futures::StreamExt;
use futures::executor::block_on;
use serde_json::value::RawValue;
use serde_json::{Value, json};

fn answer(lines: &[&str]) -> Result<ModelResponse> {
    let body = lines.join("\n") + "\n";
    let events: Vec<_> =
        block_on(ollama::decode(futures::stream::iter([Ok(body.into())])).collect());
    let mut fold = ResponseFold::new();
    for event in events {
        fold.push(event?);
    }
    fold.finish()
}

async fn sent(model: impl FnOnce(String) -> Ollama, request: ModelRequest) -> Value {
    let server = FaultServer::start().await.unwrap();
    server.reply(Reply::ollama_text("ok"));
    assert_eq!(
        model(server.url()).call(request).await.unwrap().text(),
        "ok"
    );
    let received = server.requests().remove(0);
    assert_eq!(received.path, "/api/chat");
    received.json()
}

fn local(url: String) -> Ollama {
    Ollama::new("m:8b").base_url(url)
}

#[test]
fn error_line_is_an_error_and_missing_end_is_truncation() {
    let text = r#"{"model":"m","message":{"content":"par"},"done":false}"#;
    let error = answer(&[text, r#"{"error":"an error was encountered"}"#]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Server);
    assert!(error.text().contains("an error was encountered"), "{error}");
    assert_eq!(
        answer(&[text]).unwrap_err().kind(),
        ErrorKind::StreamTruncated
    );
    assert_eq!(
        answer(&[text, "{garbage}"]).unwrap_err().kind(),
        ErrorKind::Protocol
    );
}

#[test]
fn lone_surrogate_in_a_call_does_not_duplicate_other_fields() {
    let response = answer(&[
        r#"{"message":{"content":"hi","thinking":"hm","tool_calls":[{"function":{"name":"f","arguments":"{\"a\":\"\ud83d\"}"}}]}}"#,
        r#"{"done":true,"done_reason":"stop"}"#,
    ])
    .unwrap();
    assert_eq!(response.text(), "hi");
    assert_eq!(
        *response.tool_calls().next().unwrap().args,
        json!({"a": "\u{FFFD}"})
    );
}

#[test]
fn calls_get_generated_ids_and_lenient_arguments() {
    let line = r#"{"message":{"tool_calls":[
        {"function":{"name":"a","arguments":{"x":1}}},
        {"id":"own","function":{"name":"b","arguments":"{\"y\":2}"}},
        {"id":"own","function":{"name":"c"}}]},"done":true,"done_reason":"stop"}"#
        .replace('\n', " ");
    let response = answer(&[&line]).unwrap();
    let calls: Vec<_> = response
        .tool_calls()
        .map(|c| (&*c.id, (*c.args).clone()))
        .collect();
    assert_eq!(
        calls,
        [
            ("call_0_0", json!({"x": 1})),
            ("own", json!({"y": 2})),
            ("own_2", json!({}))
        ]
    );
    let nameless = r#"{"message":{"tool_calls":[{"function":{"arguments":{}}}]},"done":true}"#;
    assert_eq!(answer(&[nameless]).unwrap_err().kind(), ErrorKind::Protocol);
}

#[tokio::test]
async fn history_is_sent_as_messages() {
    let raw = RawValue::from_string(r#"{"thinking":"hm"}"#.into()).unwrap();
    let history = Messages::new()
        .system("rules")
        .human("one")
        .with(Message::human([
            Part::text("two"),
            Part::Image(Media::bytes("image/png", b"png")),
            Part::Image(Media::url("http://x/y.png")),
            Part::Document(Media::bytes("application/pdf", b"pdf").with_name("a.pdf")),
            Part::Document(Media::bytes("text/csv", b"a,b").with_name("b.csv")),
        ]))
        .with(Message::ai([
            Part::Thinking(ProviderBlock::new("ollama", raw)),
            Part::ToolCall(ToolCall::from_raw("c1", "t", "{ \"a\":1.50 }")),
        ]))
        .tool("c1", "t", "");
    let body = sent(local, ModelRequest::new(history).with_system("be brief")).await;
    assert_eq!(
        body["messages"],
        json!([
            {"role": "system", "content": "be brief\n\nrules"},
            {"role": "user", "content": "one\n\ntwo\n\n[image: http://x/y.png]\n\n[document: a.pdf]\n\n[document: b.csv]\na,b", "images": ["cG5n"]},
            {"role": "assistant", "content": "", "thinking": "hm", "tool_calls": [
                {"function": {"name": "t", "arguments": {"a": 1.5}}}]},
            {"role": "tool", "content": "(empty)", "tool_name": "t"},
        ])
    );
}

#[tokio::test]
async fn older_files_and_recordings_are_named_in_the_text() {
    let history = Messages::new().with(Message::human([
        Part::Image(Media::file("openai", "file-1")),
        Part::Audio(Media::bytes("audio/wav", b"x").with_name("talk.wav")),
        Part::Audio(Media::bytes("audio/wav", b"x")),
    ]));
    let history = history.ai("ok").human("And?");
    let body = sent(local, ModelRequest::new(history)).await;
    let text = "[image: file-1]\n\n[audio: talk.wav]\n\n[audio]";
    assert_eq!(
        body["messages"][0],
        json!({"role": "user", "content": text})
    );
}

#[tokio::test]
async fn results_are_sent_in_call_order() {
    let calls = ["1", "2"].map(|id| ToolCall::new(id, "a", json!({})));
    let history = Messages::from("Hi")
        .ai_calling("", calls)
        .tool("2", "a", "second")
        .tool("1", "a", "first")
        .human("And?");
    let body = sent(local, ModelRequest::new(history)).await;
    let contents = body["messages"].as_array().unwrap().iter();
    let contents: Vec<_> = contents.map(|message| &message["content"]).collect();
    assert_eq!(contents, ["Hi", "", "first", "second", "And?"]);
}

#[tokio::test]
async fn consecutive_user_messages_are_sent_as_one() {
    let history = Messages::from("one")
        .human("two")
        .ai_calling("", [ToolCall::new("c", "t", json!({}))])
        .tool("c", "t", "seen")
        .human("three")
        .human("four");
    let body = sent(local, ModelRequest::new(history)).await;
    assert_eq!(
        body["messages"],
        json!([
            {"role": "user", "content": "one\n\ntwo"},
            {"role": "assistant", "content": "", "tool_calls": [
                {"function": {"name": "t", "arguments": {}}}]},
            {"role": "tool", "content": "seen", "tool_name": "t"},
            {"role": "user", "content": "three\n\nfour"},
        ])
    );
}

#[tokio::test]
async fn settings_are_sent_as_options_and_extra_is_merged() {
    let tool = || ToolDefinition::new("t", "does", json!({"type": "object"}));
    let mut request = ModelRequest::new("hi")
        .with_tools([tool()])
        .with_max_output_tokens(9);
    request.temperature = Some(0.5);
    request.stop = ["END".to_owned()].into();
    request.response_format = Some(ResponseFormat::JsonSchema {
        name: "n".into(),
        schema: json!({"type": "object"}).into(),
    });

    request.settings = ModelSettings::new()
        .with_thinking(ThinkingMode::Effort("high".into()))
        .with_top_p(0.9)
        .with_top_k(5)
        .with_seed(1);
    request.extra = json!({"keep_alive": "5m", "options": {"seed": 2, "mirostat": 1}})
        .as_object()
        .unwrap()
        .clone();
    let mut body = sent(|url| local(url).num_ctx(8_192), request.clone()).await;
    body.as_object_mut().unwrap().remove("messages");
    assert_eq!(
        body,
        json!({
            "model": "m:8b", "stream": true, "think": "high", "keep_alive": "5m",
            "format": {"type": "object"},
            "options": {"num_ctx": 8192, "num_predict": 9, "temperature": 0.5, "top_p": 0.9,
                "top_k": 5, "seed": 2, "stop": ["END"], "mirostat": 1},
            "tools": [{"type": "function", "function": {
                "name": "t", "description": "does", "parameters": {"type": "object"}}}],
        })
    );
    request.tool_choice = ToolChoice::None;
    assert_eq!(sent(local, request).await.get("tools"), None);

    let plain = sent(local, ModelRequest::new("hi")).await;
    let expected = json!({
        "model": "m:8b", "stream": true, "messages": [{"role": "user", "content": "hi"}],
    });

    assert_eq!(plain, expected);
}

#[tokio::test]
async fn ollama_passes_the_model_suite() {
    let server = FaultServer::start().await.unwrap();
    server.fallback(Reply::ollama_text("an answer in words"));
    conformance::model(|| local(server.url())).await.unwrap();
}

#[test]
fn model_tag_with_a_colon_is_kept() {
    assert_eq!(
        resolve("ollama:llama3.1:8b").unwrap().id(),
        "ollama:llama3.1:8b"
    );
    assert_eq!(
        resolve("ollama:").err().map(|e| e.kind()),
        Some(ErrorKind::Config)
    );
}
