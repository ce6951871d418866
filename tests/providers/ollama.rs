//! Requests to Ollama, and its answers.

use agentcore::message::{Media, ProviderBlock};
use agentcore::model::{
    ModelEvent, ModelSettings, ResponseFold, ResponseFormat, ThinkingMode, ToolChoice,
    ToolDefinition,
};
use agentcore::providers::{Ollama, ollama, resolve};
use agentcore::testing::{FaultServer, Reply, conformance};
use agentcore::{
    AgentBuilder, ErrorKind, Message, Messages, Model, ModelRequest, ModelResponse, Part, Result,
    ToolCall,
};
use futures::StreamExt;
use futures::executor::block_on;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::kit::doubles::ollama::{Double, Thinking};
use crate::kit::echo;

/// The levels of current servers; [`OLD_LEVELS`] are those of servers without `max`.
const LEVELS: &[&str] = &["high", "medium", "low", "max"];
const OLD_LEVELS: &[&str] = &["high", "medium", "low"];

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
                {"id": "c1", "function": {"name": "t", "arguments": {"a": 1.5}}}]},
            {"role": "tool", "content": "(empty)", "tool_name": "t", "tool_call_id": "c1"},
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
                {"id": "c", "function": {"name": "t", "arguments": {}}}]},
            {"role": "tool", "content": "seen", "tool_name": "t", "tool_call_id": "c"},
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

/// Sends a request with this mode. Returns the answer, the warnings, and the modes that were sent.
async fn thought(
    (thinking, levels): (Thinking, &'static [&'static str]),
    mode: ThinkingMode,
) -> (Result<ModelResponse>, Vec<String>, Vec<Value>) {
    let (_, server) = Double::start(thinking, levels, []).await;
    let mut request = ModelRequest::new("hi");
    request.settings = ModelSettings::new().with_thinking(mode);
    let model = local(server.url());
    let mut fold = ResponseFold::new();
    let mut warnings = Vec::new();
    let result = async {
        let mut events = model.stream(request).await?;
        while let Some(event) = events.next().await {
            match event? {
                ModelEvent::Warning(text) => warnings.push(text),
                event => fold.push(event),
            }
        }
        fold.finish()
    };
    let result = result.await;
    let requests = server.requests().into_iter();
    let modes = requests.map(|request| request.json()["think"].take());
    (result, warnings, modes.collect())
}

#[tokio::test]
async fn modes_of_thinking_become_the_levels_of_the_server() {
    let effort = |name: &str| ThinkingMode::Effort(name.into());
    for (mode, sent) in [
        (ThinkingMode::Disabled, json!(false)),
        (ThinkingMode::Adaptive, json!(true)),
        (ThinkingMode::Budget(1_024), json!(true)),
        (effort("none"), json!(false)),
        (effort("minimal"), json!("low")),
        (effort("low"), json!("low")),
        (effort("medium"), json!("medium")),
        (effort("high"), json!("high")),
        (effort("xhigh"), json!("max")),
        (effort("max"), json!("max")),
    ] {
        let (response, warnings, modes) = thought((Thinking::Levels, LEVELS), mode).await;
        assert_eq!(response.unwrap().text(), "ok");
        assert_eq!((modes, warnings), (vec![sent], vec![]));
    }

    let (response, _, modes) = thought((Thinking::Levels, LEVELS), effort("extreme")).await;
    let error = response.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    let text = "m:8b has no effort \"extreme\"; use one of: none, low, medium, high, max";
    assert!(error.text().contains(text), "{error}");
    assert_eq!(modes, Vec::<Value>::new());
}

#[tokio::test]
async fn level_that_a_model_or_server_lacks_is_replaced() {
    let effort = |name: &str| ThinkingMode::Effort(name.into());
    let switched = (Thinking::Switched, LEVELS);
    let (response, warnings, modes) = thought(switched, effort("low")).await;
    assert_eq!(response.unwrap().text(), "ok");
    assert_eq!(modes, [json!("low"), json!(true)]);
    assert_eq!(
        warnings,
        ["the model has no levels of thinking; it thinks without one"]
    );

    let (response, warnings, modes) = thought((Thinking::Levels, OLD_LEVELS), effort("max")).await;
    assert_eq!(response.unwrap().text(), "ok");
    assert_eq!(modes, [json!("max"), json!("high")]);
    assert_eq!(
        warnings,
        ["the server has no level \"max\" of thinking; \"high\" was sent"]
    );

    let (response, _, modes) = thought((Thinking::None, LEVELS), effort("low")).await;
    let error = response.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidRequest);
    assert!(
        error.text().contains("\"m:8b\" does not support thinking"),
        "{error}"
    );
    assert_eq!(modes, [json!("low")]);
}

#[tokio::test]
async fn double_refuses_what_the_server_refuses() {
    let (double, _server) = Double::start(Thinking::Levels, LEVELS, []).await;
    let call = |arguments: Value| {
        json!({"messages": [{"role": "assistant", "content": "",
            "tool_calls": [{"id": "c", "function": {"name": "t", "arguments": arguments}}]}]})
    };
    let user = |field: &str, value: Value| {
        let mut message = json!({"role": "user", "content": "hi"});
        message[field] = value;
        json!({"messages": [message]})
    };
    for body in [
        call(json!("{}")),
        user("content", json!([{"type": "text", "text": "hi"}])),
        user("images", json!(["http://x/y.png"])),
        user("tool_call_id", json!(1)),
        json!({"messages": [], "think": "extreme"}),
        json!({"messages": [], "think": 1}),
    ] {
        assert!(double.check(&body).is_err(), "{body}");
    }
    assert_eq!(double.check(&call(json!({}))), Ok(()));
}

#[tokio::test]
async fn ids_of_calls_come_back_with_their_results() {
    let call = |fields: Value, text: &str| {
        let mut call = json!({"function": {"name": "echo", "arguments": {"text": text}}});
        for (name, value) in fields.as_object().unwrap() {
            call[name] = value.clone();
        }
        call
    };
    let calls =
        |calls: [Value; 2]| json!({"role": "assistant", "content": "", "tool_calls": calls});
    let (double, server) = Double::start(
        Thinking::None,
        LEVELS,
        [
            calls([
                call(json!({"id": "call_a"}), "a"),
                call(json!({"id": "call_b"}), "b"),
            ]),
            calls([call(json!({}), "c"), call(json!({}), "d")]),
        ],
    )
    .await;
    let agent = AgentBuilder::new(local(server.url()))
        .tool(echo())
        .build()
        .unwrap();
    assert_eq!(agent.run("Hi").await.unwrap().text, "ok");
    assert_eq!(double.refusals(), Vec::<String>::new());

    let body = server.requests().pop().unwrap().json();
    let messages = body["messages"].as_array().unwrap();
    let call_ids: Vec<_> = messages
        .iter()
        .flat_map(|message| message["tool_calls"].as_array().into_iter().flatten())
        .map(|call| call["id"].as_str().unwrap())
        .collect();
    let results: Vec<_> = messages
        .iter()
        .filter(|message| message["role"] == "tool")
        .map(|message| {
            (
                message["tool_call_id"].as_str().unwrap(),
                &message["content"],
            )
        })
        .collect();
    assert_eq!(call_ids[..2], ["call_a", "call_b"]);
    let expected = call_ids.iter().zip(["a", "b", "c", "d"]);
    let results: Vec<_> = results
        .iter()
        .map(|(id, text)| (*id, text.as_str().unwrap()))
        .collect();
    assert_eq!(
        results,
        expected.map(|(id, text)| (*id, text)).collect::<Vec<_>>()
    );
}
