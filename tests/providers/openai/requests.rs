//! Requests to Chat Completions.

use agentcore::message::{Media, ProviderBlock};
use agentcore::model::{
    ModelSettings, ResponseFormat, Stability, SystemPrompt, ThinkingMode, ToolChoice,
    ToolDefinition,
};
use agentcore::providers::{OpenAi, OpenAiResponses};
use agentcore::testing::{FaultServer, Reply, conformance};
use agentcore::{Message, Messages, Model, ModelRequest, Part, ToolCall};
use serde_json::json;
use serde_json::value::RawValue;

/// Returns the request that is sent for `request`.
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
async fn history_is_sent_as_messages() {
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
            Part::ToolCall(ToolCall::from_raw("c2", "made.up name", "{broken")),
        ]))
        .with(Message::tool("c1", "t", [Part::text("seen"), png()]))
        .tool("c2", "t", "")
        .with(Message::human([
            Part::text("and"),
            Part::Document(Media::bytes("application/pdf", b"pdf").with_name("a.pdf")),
            Part::Document(Media::bytes("text/plain", b"notes")),
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
                {"id": "c2", "type": "function", "function": {"name": "made_up_name", "arguments": "{}"}},
            ]},
            {"role": "tool", "tool_call_id": "c1", "content": "seen"},
            {"role": "tool", "tool_call_id": "c2", "content": "(empty)"},
            {"role": "user", "content": [
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,cG5n"}},
                {"type": "text", "text": "and"},
                {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,cGRm"}},
                {"type": "text", "text": "[document]\nnotes"},
                {"type": "image_url", "image_url": {"url": "http://x/y.png"}},
            ]},
        ])
    );
}

#[tokio::test]
async fn older_files_and_recordings_are_named_in_the_text() {
    let history = Messages::new().with(Message::human([
        Part::Image(Media::file("openai", "file-1")),
        Part::Document(Media::file("anthropic", "file_2")),
        Part::Audio(Media::bytes("audio/ogg", b"x").with_name("talk.ogg")),
    ]));
    let history = history.ai("ok").human("And?");
    let body = sent(local, ModelRequest::new(history)).await.json();
    let text = "[image: file-1]\n\n[document: file_2]\n\n[audio: talk.ogg]";
    assert_eq!(
        body["messages"][0],
        json!({"role": "user", "content": text})
    );
}

#[tokio::test]
async fn consecutive_user_messages_are_sent_as_one() {
    let history = Messages::from("one")
        .human("two")
        .ai_calling("", [ToolCall::new("c", "t", json!({}))])
        .tool("c", "t", "seen")
        .human("three")
        .human("four");
    let body = sent(local, ModelRequest::new(history)).await.json();
    let messages: Vec<_> = body["messages"].as_array().unwrap().iter().collect();
    assert_eq!(messages.len(), 4, "{body}");
    assert_eq!(
        *messages[0],
        json!({"role": "user", "content": "one\n\ntwo"})
    );
    assert_eq!(messages[2]["role"], "tool");
    assert_eq!(
        *messages[3],
        json!({"role": "user", "content": "three\n\nfour"})
    );
}

#[tokio::test]
async fn invalid_tool_name_is_sent_with_allowed_characters() {
    let call = ToolCall::new("c", "functions.look up", json!({}));
    let history =
        Messages::from("Hi")
            .ai_calling("", [call])
            .tool("c", "functions.look up", "unknown tool");
    let body = sent(local, ModelRequest::new(history)).await.json();
    let name = &body["messages"][1]["tool_calls"][0]["function"]["name"];
    assert_eq!(name, "functions_look_up");
}

#[tokio::test]
async fn settings_are_sent_as_fields_and_extra_overrides_them() {
    let tool = ToolDefinition::new("t", "does", json!({"type": "object"}));
    let mut request = ModelRequest::new("hi")
        .with_tools([tool])
        .with_max_output_tokens(9);
    request.temperature = Some(0.5);
    request.stop = ["END".to_owned()].into();
    request.tool_choice = ToolChoice::Tool("t".into());
    request.settings = ModelSettings::new()
        .with_thinking(ThinkingMode::Effort("low".into()))
        .with_top_p(0.9)
        .with_top_k(5)
        .with_seed(1)
        .with_parallel_tool_calls(false);
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
async fn unset_fields_are_not_sent() {
    let body = sent(local, ModelRequest::new("hi")).await.json();
    let expected = json!({
        "model": "m", "stream": true, "stream_options": {"include_usage": true},
        "messages": [{"role": "user", "content": "hi"}],
    });

    assert_eq!(body, expected);
    let limited = |url| {
        local(url)
            .max_output_tokens(7)
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
async fn strict_mode_is_set_only_for_supported_schemas() {
    let with = |field: serde_json::Value| {
        json!({"type": "object", "properties": {"oneOf": field}, "required": ["oneOf"],
            "additionalProperties": false})
    };

    let cases = [
        (with(json!({"type": "string", "format": "date"})), true),
        (
            with(json!({"type": "array", "items": {"type": "integer", "minimum": 0}})),
            true,
        ),
        (
            with(with(
                json!({"anyOf": [{"type": "null"}, {"type": "integer", "const": 1}]}),
            )),
            true,
        ),
        (with(json!({"type": "integer", "format": "uint8"})), false),
        (with(json!({"oneOf": [{"type": "null"}]})), false),
        (with(json!({"type": "string", "default": "x"})), false),
        (with(json!({"type": "object"})), false),
        (with(json!(true)), false),
        (json!({"type": "array", "items": {"type": "string"}}), false),
        (json!({"type": "string", "enum": ["a"]}), false),
    ];
    for (schema, is_strict) in cases {
        let mut request = ModelRequest::new("hi");
        request.response_format = Some(ResponseFormat::JsonSchema {
            name: "n".into(),
            schema: schema.clone().into(),
        });

        let body = sent(local, request).await.json();
        let format = &body["response_format"]["json_schema"];
        assert_eq!(format["strict"], is_strict, "{schema}");
        assert_eq!(format["schema"], schema);
    }
}

#[tokio::test]
async fn generated_call_id_differs_from_ids_in_the_history() {
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
async fn too_long_call_ids_are_cut_equally_in_call_and_result() {
    let long = format!("{}-unique", "x".repeat(60));
    let history = Messages::new()
        .human("hi")
        .ai_calling("", [ToolCall::new(&*long, "t", json!({}))])
        .tool(&*long, "t", "ok");
    let body = sent(local, history.into()).await.json();
    let id = body["messages"][2]["tool_call_id"].as_str().unwrap();
    assert_eq!((id.len(), id.starts_with("xxxx")), (40, true));
    assert_eq!(body["messages"][1]["tool_calls"][0]["id"], id);
}

#[tokio::test]
async fn growing_history_is_sent_with_the_bytes_of_a_new_request() {
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
        // A clone shares the cache of the encoded bytes; a new request has its own.
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
async fn openai_passes_the_model_suite() {
    let server = FaultServer::start().await.unwrap();
    server.fallback(Reply::openai_text("an answer in words"));
    conformance::model(|| local(server.url())).await.unwrap();
}

#[test]
fn debug_output_contains_no_key() {
    let model = OpenAi::new("gpt-4o", "sk-very-secret");
    assert!(!format!("{model:?}").contains("very-secret"));
    assert_eq!(model.id(), "openai:gpt-4o");
    assert_eq!(local("http://x".into()).provider("groq").id(), "groq:m");
}

#[tokio::test]
async fn output_limit_is_that_of_the_requested_model() {
    let server = FaultServer::start().await.unwrap();
    server.fallback(Reply::json(401, "{}"));
    let model = |name: &str| OpenAi::new(name, "sk-test-1234").base_url(server.url());
    for (model, requested, limit) in [
        (model("gpt-5.4-mini"), "gpt-5.4-mini", Some(128_000)),
        (model("gpt-5.4-mini"), "gpt-4.1", Some(32_768)),
        (model("gpt-4.1"), "gpt-5.4-mini", Some(128_000)),
        (model("gpt-4.1"), "gpt-9-new", None),
        (model("gpt-9-new"), "gpt-4.1", Some(32_768)),
        (
            model("gpt-4.1").max_output_tokens(77),
            "gpt-5.4-mini",
            Some(77),
        ),
    ] {
        let mut request = ModelRequest::new("Go");
        request.model = Some(requested.into());
        model.call(request).await.unwrap_err();
        let body = server.requests().pop().unwrap().json();
        assert_eq!(body["max_tokens"].as_u64(), limit, "{requested}: {body}");
    }
}

#[tokio::test]
async fn output_limit_that_is_not_known_is_left_to_the_server() {
    let server = FaultServer::start().await.unwrap();
    server.fallback(Reply::json(401, "{}"));
    for (name, limit) in [
        ("gpt-6-luna", Some(128_000)),
        ("gpt-4.1", Some(32_768)),
        ("gpt-4", None),
        ("gpt-chat-latest", None),
        ("gpt-6.2-sol", None),
        ("gpt-9-new", None),
    ] {
        let chat = OpenAi::new(name, "sk-test-1234").base_url(server.url());
        let responses = OpenAiResponses::new(name, "sk-test-1234").base_url(server.url());
        let limited = OpenAi::new(name, "sk-test-1234").max_output_tokens(77);
        let models: [(Box<dyn Model>, _, _); 3] = [
            (Box::new(chat), "max_tokens", limit),
            (Box::new(responses), "max_output_tokens", limit),
            (
                Box::new(limited.base_url(server.url())),
                "max_tokens",
                Some(77),
            ),
        ];
        for (model, field, limit) in models {
            model.call(ModelRequest::new("Go")).await.unwrap_err();
            let body = server.requests().pop().unwrap().json();
            assert_eq!(body[field].as_u64(), limit, "{name}: {body}");
        }
    }
}
