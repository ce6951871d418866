//! Conversations with a strict OpenAI on Chat Completions.

use agentcore::message::{Media, ProviderBlock};
use agentcore::model::{ResponseFormat, ThinkingMode, ToolDefinition};
use agentcore::providers::OpenAi;
use agentcore::providers::openai::Dialect;
use agentcore::testing::{FaultServer, Reply};
use agentcore::{ErrorKind, Message, Messages, Model, ModelRequest, Part, ToolCall};
use serde_json::value::to_raw_value;
use serde_json::{Value, json};

use super::conversation::{agent, converse, picture};
use crate::kit::doubles::chat::{Double, call, text_of};
use crate::kit::doubles::openai_chat::{KEY, check, check_body};

fn model(server: &FaultServer, name: &str) -> OpenAi {
    OpenAi::new(name, KEY)
        .base_url(server.url())
        .dialect(Dialect::openai())
}

#[test]
fn double_refuses_what_the_server_refuses() {
    let user = json!({"role": "user", "content": "Hi"});
    let calls = json!([{"id": "c1", "type": "function", "function": {"name": "t"}}]);
    let answer = json!({"role": "assistant", "content": null, "tool_calls": calls});
    let result = json!({"role": "tool", "content": "ok", "tool_call_id": "c1"});
    let body = |model: &str, messages: Value| json!({"model": model, "messages": messages});
    let mini = |messages: Value| text_of(check_body(&body("gpt-5.4-mini", messages)));
    assert_eq!(mini(json!([user, answer, result, user])), "");

    let mut thought = answer.clone();
    thought["reasoning_content"] = "hm".into();
    let mut long_id = answer.clone();
    long_id["tool_calls"][0]["id"] = "x".repeat(41).into();
    let mut odd_name = answer.clone();
    odd_name["tool_calls"][0]["function"]["name"] = "a.b".into();
    let part = |part: Value| json!([{"role": "user", "content": [part]}]);
    for (messages, refusal) in [
        (json!([user, thought, result]), "reasoning_content"),
        (json!([user, long_id, result]), "maximum length 40"),
        (json!([user, odd_name, result]), "does not match pattern"),
        (json!([user, answer]), "did not have response messages"),
        (json!([user, answer, user, result]), "did not have response"),
        (json!([user, result]), "must be a response to"),
        (json!([{"role": "assistant", "content": null}]), "got null"),
        (part(json!({"type": "document_url"})), "document_url"),
        (
            part(json!({"type": "file", "file": {"file_data": "https://x"}})),
            "file",
        ),
        (
            part(json!({"type": "input_audio", "input_audio": "d2F2"})),
            "input_audio",
        ),
        (
            part(json!({"type": "input_audio", "input_audio": {"format": "wav"}})),
            "input_audio",
        ),
    ] {
        let text = mini(messages.clone());
        assert!(text.contains(refusal), "{refusal}: {text}: {messages}");
    }

    for (model, fields, refusal) in [
        ("gpt-5.4-mini", json!({"top_k": 1}), "top_k"),
        ("gpt-5.4-mini", json!({"max_tokens": 1}), "max_tokens"),
        (
            "gpt-5.4-mini",
            json!({"reasoning_effort": "max"}),
            "does not support 'max'",
        ),
        (
            "gpt-5.4-mini",
            json!({"reasoning_effort": "low", "top_p": 0.5}),
            "top_p",
        ),
        (
            "gpt-6-luna",
            json!({"tools": [{}]}),
            "Function tools with reasoning_effort",
        ),
        (
            "gpt-6-luna",
            json!({"stop": ["x"], "reasoning_effort": "none"}),
            "stop",
        ),
        (
            "gpt-6-astra",
            json!({"reasoning_effort": "none"}),
            "reasoning_effort",
        ),
        ("gpt-5.4-pro", json!({}), "not a chat model"),
    ] {
        let mut body = body(model, json!([user]));
        body.as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        let text = text_of(check_body(&body));
        assert!(text.contains(refusal), "{refusal}: {text}");
    }

    let refusal = |schema: Value| {
        let format = json!({"name": "n", "strict": true, "schema": schema});
        let format = json!({"type": "json_schema", "json_schema": format});
        let mut body = body("gpt-5.4-mini", json!([user]));
        body["response_format"] = format;
        text_of(check_body(&body))
    };
    assert!(refusal(json!({"type": "string"})).contains("type:"));
    assert!(refusal(json!({"type": "object"})).contains("additionalProperties"));
    let open = json!({"type": "object", "properties": {"a": {}}, "additionalProperties": false});
    assert!(refusal(open).contains("every key"));
    let fault_of = |field: Value| {
        refusal(
            json!({"type": "object", "properties": {"a": field}, "required": ["a"],
            "additionalProperties": false}),
        )
    };
    assert_eq!(fault_of(json!({"type": "string"})), "");
    for (field, fault) in [
        (json!({}), "must have a 'type' key"),
        (json!({"type": "array"}), "missing items"),
        (json!({"$ref": "#", "description": "x"}), "$ref cannot have"),
        (json!({"type": "string", "pattern": "(?=a)"}), "lookaround"),
    ] {
        assert!(fault_of(field).contains(fault), "{fault}");
    }
}

#[tokio::test]
async fn whole_conversation_is_accepted() {
    let (double, server) = Double::start(
        check,
        [
            vec![call(0, "c1", "a"), call(1, "c2", "b")],
            // Some servers repeat the id of an earlier call.
            vec![json!({"content": "One moment."}), call(0, "c1", "c")],
            vec![json!({"content": "Done."})],
            vec![
                json!({"content": "{\"mood\":"}),
                json!({"content": "\"good\"}"}),
            ],
        ],
    )
    .await;
    let agent = agent(model(&server, "gpt-5.4-mini"));
    let input = Message::human([
        Part::text("Look:"),
        picture(),
        Part::Image(Media::url("https://x/y.png")),
        Part::Document(Media::bytes("application/pdf", b"pdf").with_name("a.pdf")),
        Part::Document(Media::file("openai", "file-1")),
    ]);
    let (output, structured) = converse(&agent, input).await;
    assert!(double.refusals().is_empty(), "{:?}", double.refusals());
    assert_eq!(output.text, "Done.");
    assert_eq!(structured, json!({"mood": "good"}));

    let body = server.requests().pop().unwrap().json();
    assert_eq!(body["response_format"]["json_schema"]["strict"], true);
    let messages = body["messages"].as_array().unwrap();
    let roles: Vec<_> = messages
        .iter()
        .map(|message| message["role"].as_str().unwrap())
        .collect();
    let round = ["assistant", "tool", "user"];
    let expected = [
        &["system", "user", "assistant", "tool", "tool", "user"][..],
        &round,
        &["assistant", "user"],
    ];
    assert_eq!(roles, expected.concat());
    // Pictures of results follow in a message of the user.
    assert_eq!(messages[5]["content"][0]["type"], "image_url");
    assert_ne!(
        messages[2]["tool_calls"][0]["id"],
        messages[6]["tool_calls"][0]["id"]
    );
}

#[tokio::test]
async fn history_and_settings_of_other_servers_are_accepted() {
    let fields = to_raw_value(&json!({"reasoning_content": "canary"})).unwrap();
    let thought = |tag: &str| Part::Thinking(ProviderBlock::new(tag, fields.clone()));
    let long_id = "x".repeat(60);
    let history = Messages::from("Hi")
        .with(Message::ai([
            thought("openai"),
            thought("deepseek"),
            Part::ToolCall(ToolCall::new(&*long_id, "a.b", json!({}))),
        ]))
        .tool(&*long_id, "a.b", "")
        .with(Message::system("It is noon."))
        .human("And now?");
    for (name, thinking) in [
        ("gpt-5.4-mini", Some(ThinkingMode::Disabled)),
        ("gpt-5.4-mini", Some(ThinkingMode::Effort("low".into()))),
        ("gpt-6-luna", None),
        ("gpt-6-astra", Some(ThinkingMode::Disabled)),
        ("gpt-4.1", None),
    ] {
        let (double, server) = Double::start(check, []).await;
        let mut request = ModelRequest::new(history.clone()).with_max_output_tokens(9);
        request.temperature = Some(0.5);
        request.settings.top_k = Some(5);
        request.settings.seed = Some(7);
        request.settings.thinking = thinking;
        // The field `mood` is optional, which the strict mode does not allow.
        let schema = json!({"type": "object", "properties": {"mood": {"type": "string"}}});
        request.response_format = Some(ResponseFormat::JsonSchema {
            name: "mood".into(),
            schema: schema.into(),
        });
        model(&server, name).call(request).await.unwrap();
        assert!(
            double.refusals().is_empty(),
            "{name}: {:?}",
            double.refusals()
        );
        let body = server.requests().pop().unwrap().json().to_string();
        assert!(!body.contains("canary"), "{body}");
    }
}

#[tokio::test]
async fn schema_that_the_strict_mode_refuses_is_sent_without_it() {
    let (double, server) = Double::start(check, []).await;
    for field in [json!({}), json!({"type": "array"}), json!({"const": 1})] {
        let schema = json!({"type": "object", "properties": {"a": field}, "required": ["a"],
            "additionalProperties": false});
        let mut request = ModelRequest::new("Hi");
        request.response_format = Some(ResponseFormat::JsonSchema {
            name: "n".into(),
            schema: schema.into(),
        });
        let model = model(&server, "gpt-5.4-mini");
        model.call(request).await.unwrap();
        let body = server.requests().pop().unwrap().json();
        assert_eq!(body["response_format"]["json_schema"]["strict"], false);
    }
    assert!(double.refusals().is_empty(), "{:?}", double.refusals());
}

#[tokio::test]
async fn body_over_the_limit_is_not_sent() {
    let server = FaultServer::start().await.unwrap();
    server.fallback(Reply::json(401, "{}"));
    let pdf = Media::base64("application/pdf", "A".repeat(50 * 1024 * 1024));
    let history = Messages::new().with(Message::human([Part::Document(pdf)]));
    let error = model(&server, "gpt-5.4-mini")
        .call(ModelRequest::new(history))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::RequestTooLarge, "{error}");
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn refused_request_is_an_error_before_sending() {
    let (double, server) = Double::start(check, []).await;
    let request = |has_tools: bool| {
        let mut request = ModelRequest::new("Hi");
        let tool = ToolDefinition::new("echo", "", json!({"type": "object"}));
        request.tools = has_tools.then_some(tool).into_iter().collect();
        request
    };
    let mut stopping = request(false);
    stopping.stop = vec!["x".into()].into();
    for (name, request) in [
        ("gpt-6-luna", request(true)),
        ("gpt-6-luna", stopping),
        ("gpt-5.4-pro", request(false)),
    ] {
        let error = model(&server, name).call(request).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    }
    assert!(server.requests().is_empty());

    let mut silent = request(true);
    silent.settings.thinking = Some(ThinkingMode::Disabled);
    model(&server, "gpt-6-luna").call(silent).await.unwrap();
    assert!(double.refusals().is_empty(), "{:?}", double.refusals());
    let stranger = OpenAi::new("gpt-4.1", "wrong").base_url(server.url());
    let error = stranger.call(request(false)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Auth, "{error}");
}
