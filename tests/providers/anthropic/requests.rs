//! Requests to the Messages API.

use agentcore::message::{Media, ProviderBlock};
use agentcore::model::{
    ModelSettings, ResponseFormat, Stability, SystemPrompt, ThinkingMode, ToolChoice,
    ToolDefinition,
};
use agentcore::providers::Anthropic;
use agentcore::testing::FaultServer;
use agentcore::{
    Content, ErrorKind, Message, Messages, Model, ModelRequest, ModelResponse, Part, ToolCall,
    ToolResult,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Value, json};

use crate::kit::serving::{events, last, serve, text};

const ANSWER: &str = include_str!("../../data/anthropic/text.sse");

async fn send(server: &FaultServer, request: ModelRequest) -> ModelResponse {
    Anthropic::new("claude-sonnet-4-5", "sk-test-123456")
        .base_url(server.url())
        .call(request)
        .await
        .expect("an answer")
}

async fn sent(request: ModelRequest) -> Value {
    let server = serve([events(ANSWER)]).await;
    send(&server, request).await;
    last(&server).json()
}

fn marked() -> Value {
    json!({"type": "ephemeral"})
}

fn history() -> Messages {
    let thinking = serde_json::value::RawValue::from_string(
        "{ \"signature\":\"s\", \"thinking\":\"t\", \"type\":\"thinking\" }".to_owned(),
    )
    .expect("JSON");
    let foreign = serde_json::value::RawValue::from_string("{\"x\":1}".to_owned()).expect("JSON");
    let mut answer = Content::new();
    answer.push(Part::Thinking(ProviderBlock::new("anthropic", thinking)));
    answer.push(Part::Opaque(ProviderBlock::new("openai", foreign)));
    answer.push(Part::text("  \n"));
    answer.push(Part::text("I look."));
    answer.push(ToolCall::from_raw(
        "call:1",
        "weather.now",
        "{ \"city\": \"Oslo\" }",
    ));
    answer.push(ToolCall::from_raw("b", "now", "{broken"));
    let failed = ToolResult::failed(&ToolCall::new("b", "now", json!({})), "bad arguments");
    Messages::new()
        .system("Be brief.")
        .human("Hi\0there")
        .ai(answer)
        .tool("call:1", "weather.now", "")
        .with(Message::from(failed))
        .human(vec![
            Part::text("And this?"),
            Part::Image(Media::base64("image/png", "aGk=")),
            Part::Document(Media::bytes("text/plain", b"notes").with_name("n.txt")),
        ])
        .system("The clock struck.")
}

#[tokio::test]
async fn history_is_sent_as_alternating_messages() {
    let tool = ToolDefinition::new("now", "The time.", json!({"type": "object"}));
    let mut system = SystemPrompt::from("You help.");
    system.set("clock", "It is noon.", Stability::Volatile);
    let request = ModelRequest::new(history())
        .with_system(system)
        .with_tools([tool])
        .with_max_output_tokens(100);
    assert_eq!(
        sent(request).await,
        json!({
            "model": "claude-sonnet-4-5",
            "max_tokens": 100,
            "stream": true,
            "tools": [{"name": "now", "description": "The time.",
                "input_schema": {"type": "object"}, "cache_control": marked()}],
            "system": [
                {"type": "text", "text": "You help."},
                {"type": "text", "text": "Be brief.", "cache_control": marked()},
                {"type": "text", "text": "It is noon."},
            ],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "Hi\u{FFFD}there"}]},
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "t", "signature": "s"},
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "call_1_a20468", "name": "weather_now",
                        "input": {"city": "Oslo"}},
                    {"type": "tool_use", "id": "b", "name": "now", "input": {}},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "call_1_a20468",
                        "content": [{"type": "text", "text": "(no output)"}]},
                    {"type": "tool_result", "tool_use_id": "b", "is_error": true,
                        "content": [{"type": "text", "text": "Error: bad arguments"}]},
                    {"type": "text", "text": "And this?"},
                    {"type": "image", "source":
                        {"type": "base64", "media_type": "image/png", "data": "aGk="}},
                    {"type": "document", "title": "n.txt", "source":
                        {"type": "text", "media_type": "text/plain", "data": "notes"}},
                    {"type": "text", "text": "<system>\nThe clock struck.\n</system>",
                        "cache_control": marked()},
                ]},
            ],
        })
    );
}

#[tokio::test]
async fn uploaded_files_are_sent_to_their_provider_only() {
    let history = Messages::new().with(Message::human([
        Part::Image(Media::file("openai", "file-1")),
        Part::Document(Media::file("anthropic", "file_2").with_name("a.pdf")),
        Part::Audio(Media::bytes("audio/wav", b"x")),
    ]));
    let body = sent(ModelRequest::new(history.ai("ok").human("And?"))).await;
    assert_eq!(
        body["messages"][0]["content"],
        json!([
            {"type": "text", "text": "[image: file-1]"},
            {"type": "document", "title": "a.pdf",
                "source": {"type": "file", "file_id": "file_2"}},
            {"type": "text", "text": "[audio]"},
        ])
    );
}

#[tokio::test]
async fn provider_blocks_and_raw_arguments_are_sent_unchanged() {
    let server = serve([events(ANSWER)]).await;
    send(&server, ModelRequest::new(history())).await;
    let request = last(&server);
    for verbatim in [
        "{ \"signature\":\"s\", \"thinking\":\"t\", \"type\":\"thinking\" }",
        "{ \"city\": \"Oslo\" }",
    ] {
        assert!(text(&request).contains(verbatim), "{verbatim}");
    }

    assert_eq!((&*request.method, &*request.path), ("POST", "/v1/messages"));
    for (name, value) in [
        ("x-api-key", "sk-test-123456"),
        ("anthropic-version", "2023-06-01"),
        ("content-type", "application/json"),
    ] {
        assert_eq!(request.header(name), Some(value));
    }
}

#[tokio::test]
async fn settings_are_sent_as_fields() {
    let mut request = ModelRequest::new("x").with_max_output_tokens(500);
    request.temperature = Some(0.5);
    request.stop = vec!["END".to_owned()].into();
    request.settings = ModelSettings::new()
        .with_top_p(0.9)
        .with_top_k(5)
        .with_seed(1)
        .with_parallel_tool_calls(false)
        .with_prompt_cache(false);
    request.tools = [ToolDefinition::new("f", "", json!({"type": "object"}))].into();
    request
        .extra
        .insert("metadata".into(), json!({"user_id": "u"}));
    request.extra.insert("max_tokens".into(), json!(7));
    request.response_format = Some(ResponseFormat::JsonSchema {
        name: "n".into(),
        schema: json!({"const": 7}).into(),
    });

    assert_eq!(
        sent(request.clone()).await,
        json!({
            "model": "claude-sonnet-4-5", "max_tokens": 7, "stream": true,
            "messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}],
            "tools": [{"name": "f", "input_schema": {"type": "object"}}],
            "tool_choice": {"type": "auto", "disable_parallel_tool_use": true},
            "temperature": 0.5, "top_p": 0.9, "top_k": 5, "stop_sequences": ["END"],
            "output_config": {"format": {"type": "json_schema", "schema": {"const": 7}}},
            "metadata": {"user_id": "u"},
        })
    );

    request.extra.insert("temperature".into(), Value::Null);
    let body = sent(request.clone()).await;
    assert!(body.get("temperature").is_none(), "null removes a field");

    request.extra.clear();
    request.settings.thinking = Some(ThinkingMode::Budget(2000));
    request.max_output_tokens = Some(2001);
    let body = sent(request.clone()).await;
    assert_eq!(
        body["thinking"],
        json!({"type": "enabled", "budget_tokens": 2000})
    );
    assert_eq!(body["max_tokens"], 2001);
    for dropped in ["temperature", "top_k", "top_p"] {
        assert_eq!(body[dropped], Value::Null, "{dropped}");
    }

    request.tool_choice = ToolChoice::Tool("f".into());
    let body = sent(request.clone()).await;
    assert_eq!(body["thinking"], Value::Null);
    assert_eq!(
        body["tool_choice"],
        json!({"type": "tool", "name": "f", "disable_parallel_tool_use": true})
    );

    request.settings.thinking = Some(ThinkingMode::Effort("low".into()));
    request.model = Some("claude-opus-4-6".into());
    request.max_output_tokens = None;
    let body = sent(request).await;
    assert_eq!(body["max_tokens"], 128_000);
    assert_eq!(body["output_config"]["effort"], "low");
    assert_eq!(body["model"], "claude-opus-4-6");
}

#[tokio::test]
async fn choice_concerns_the_tools_of_the_server_too() {
    for (choice, expected) in [
        (ToolChoice::Auto, Value::Null),
        (ToolChoice::None, json!({"type": "none"})),
        (ToolChoice::Required, json!({"type": "any"})),
    ] {
        let mut request = ModelRequest::new("x");
        request.tool_choice = choice;
        // A choice needs a tool.
        let body = sent(request.clone()).await;
        assert_eq!(body["tool_choice"], Value::Null);
        request.hosted_tools = [agentcore::model::HostedTool::new("gemini", json!({}))].into();
        let body = sent(request.clone()).await;
        assert_eq!(body["tool_choice"], Value::Null);
        request.hosted_tools = [agentcore::providers::anthropic::web_search()].into();
        let body = sent(request).await;
        assert_eq!(body["tool_choice"], expected);
        assert_eq!(body["tools"].as_array().unwrap().len(), 1);
    }

    // Without a tool, this is no error for a model that cannot be forced to call one.
    let mut request = ModelRequest::new("x");
    request.model = Some("claude-opus-5-5".into());
    request.tool_choice = ToolChoice::Required;
    assert_eq!(sent(request).await["tool_choice"], Value::Null);
}

#[tokio::test]
async fn any_object_is_asked_for_in_words() {
    let mut request = ModelRequest::new("x").with_system("Be kind.");
    request.response_format = Some(ResponseFormat::JsonObject);
    let body = sent(request).await;
    let system = body["system"].as_array().unwrap();
    let text = system.last().unwrap()["text"].as_str().unwrap();
    assert_eq!(system.len(), 2);
    assert!(
        text.contains("only a JSON value") && text.contains(r#"{"type":"object"}"#),
        "{text}"
    );
    assert_eq!(body["output_config"], Value::Null);
}

/// A request for an answer that matches `schema`.
fn asking_for(schema: Value) -> ModelRequest {
    let mut request = ModelRequest::new("x").with_system("Be kind.");
    request.response_format = Some(ResponseFormat::JsonSchema {
        name: "n".into(),
        schema: schema.into(),
    });
    request
}

#[tokio::test]
async fn output_schema_is_reduced_to_supported_keywords() {
    let text = || json!({"type": "string"});
    let of = |fields: Value| json!({"type": "object", "properties": fields});
    let closed = |fields: Value| json!({"type": "object", "properties": fields, "additionalProperties": false});
    let cases = [
        (
            json!({"type": "integer", "format": "uint8", "minimum": 0, "maximum": 255, "title": "t"}),
            json!({"type": "integer", "title": "t"}),
        ),
        (
            json!({"type": "string", "format": "date", "maxLength": 9, "default": "x"}),
            json!({"type": "string", "format": "date"}),
        ),
        (
            json!({"type": "array", "items": of(json!({"a": text()})), "minItems": 2}),
            json!({"type": "array", "items": closed(json!({"a": text()}))}),
        ),
        (
            json!({"oneOf": [{"const": "a"}, {"type": ["object", "null"],
                "properties": {"format": text()}, "required": ["format"]}]}),
            json!({"anyOf": [{"const": "a"}, {"type": ["object", "null"],
                "properties": {"format": text()}, "required": ["format"],
                "additionalProperties": false}]}),
        ),
        // The schema that is derived for an enum of structs.
        (
            json!({"type": "object", "properties": {}, "oneOf": [of(json!({"a": text()}))]}),
            json!({"anyOf": [closed(json!({"a": text()}))]}),
        ),
        (
            json!({"type": "object", "properties": {}, "additionalProperties": false}),
            closed(json!({})),
        ),
    ];
    for (schema, understood) in cases {
        let body = sent(asking_for(schema)).await;
        assert_eq!(body["output_config"]["format"]["schema"], understood);
        assert_eq!(body["system"].as_array().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn unsupported_output_schema_is_sent_as_a_system_instruction() {
    let text = json!({"type": "string"});
    let cases = [
        json!(true),
        json!({"description": "anything"}),
        json!({"type": "object"}),
        json!({"type": "array"}),
        json!({"type": "object", "additionalProperties": text}),
        json!({"type": "object", "properties": {"a": {"$ref": "#"}}}),
        json!({"type": "array", "prefixItems": [text, text]}),
        json!({"enum": [{"a": 1}]}),
        json!({"type": "object", "properties": {"a": text}, "oneOf": [
            {"type": "object", "properties": {"b": text}}]}),
    ];
    for schema in cases {
        let body = sent(asking_for(schema.clone())).await;
        assert_eq!(body["output_config"], Value::Null, "{schema}");
        let system = body["system"].as_array().unwrap();
        assert_eq!(system[0]["text"], "Be kind.");
        let instruction = system[1]["text"].as_str().unwrap();
        assert!(instruction.contains(&schema.to_string()), "{instruction}");
        assert_eq!(system[1]["cache_control"], Value::Null);
    }

    let mut bare = asking_for(json!(true));
    bare.system = Default::default();
    let body = sent(bare).await;
    assert_eq!(body["system"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn thinking_budget_is_limited_by_max_output_tokens() {
    for (limit, asked, budget) in [
        (Some(9_000), 8_000, Some(8_000)),
        (Some(8_000), 8_000, Some(4_000)),
        (Some(2_048), 8_000, Some(1_024)),
        (Some(2_047), 8_000, None),
        (Some(1_100), 10, Some(1_024)),
        (None, 1_000_000, Some(32_000)),
    ] {
        let mut request = ModelRequest::new("x");
        request.settings.thinking = Some(ThinkingMode::Budget(asked));
        request.max_output_tokens = limit;
        request.temperature = Some(0.5);
        let body = sent(request).await;
        assert_eq!(body["max_tokens"], limit.unwrap_or(64_000));
        assert_eq!(body["thinking"]["budget_tokens"].as_u64(), budget);
        assert_eq!(body["temperature"].is_null(), budget.is_some());
    }
}

#[tokio::test]
async fn leading_and_consecutive_assistant_messages_are_made_valid() {
    let nothing = json!([{"type": "text", "text": "(nothing)"}]);
    let mut request = ModelRequest::new(
        Messages::new()
            .ai("I begin.")
            .ai("And go on.")
            .human(" ")
            .ai("Continue: "),
    );
    request.settings = ModelSettings::new().with_prompt_cache(false);
    let text = |text: &str| json!({"type": "text", "text": text});
    assert_eq!(
        sent(request).await["messages"],
        json!([
            {"role": "user", "content": nothing},
            {"role": "assistant", "content": [text("I begin."), text("And go on.")]},
            {"role": "user", "content": nothing},
            {"role": "assistant", "content": [text("Continue:")]},
        ])
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
    let mut request = ModelRequest::new(history);
    request.settings = ModelSettings::new().with_prompt_cache(false);
    let text = |text: &str| json!({"type": "text", "text": text});
    assert_eq!(
        sent(request).await["messages"],
        json!([
            {"role": "user", "content": [text("one"), text("two")]},
            {"role": "assistant", "content": [
                {"type": "tool_use", "id": "c", "name": "t", "input": {}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "c", "content": [text("seen")]},
                text("three"),
                text("four"),
            ]},
        ])
    );
}

#[tokio::test]
async fn request_without_messages_is_rejected_before_it_is_sent() {
    let server = serve([events(ANSWER)]).await;
    let error = Anthropic::new("m", "k")
        .base_url(server.url())
        .call(ModelRequest::new(Messages::new().system("only")))
        .await
        .expect_err("nothing to send");
    assert_eq!(error.kind(), ErrorKind::InvalidMessages);
    assert!(server.requests().is_empty());
}

/// Returns a body without the marks of the prompt cache. A new request keeps the mark of the
/// request before it, so the marks move.
fn unmarked(body: &str) -> String {
    body.replace(",\"cache_control\":{\"type\":\"ephemeral\"}", "")
}

/// A change of the history between two requests.
#[derive(Clone, Debug)]
enum Turn {
    Push(u8),
    Truncate(usize),
    /// Truncates the history and appends another message.
    Fork(usize, u8),
    Replace(usize),
    /// Changes a field that precedes the messages in the body.
    Limit(u32),
}

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let turn = prop_oneof![
        8 => (0_u8..5).prop_map(Turn::Push),
        1 => (0_usize..12).prop_map(Turn::Truncate),
        2 => (0_usize..12, 0_u8..5).prop_map(|(len, kind)| Turn::Fork(len, kind)),
        1 => (0_usize..12).prop_map(Turn::Replace),
        1 => (1_u32..2_000).prop_map(Turn::Limit),
    ];
    proptest::collection::vec(turn, 1..16)
}

fn apply(turn: &Turn, at: usize, messages: &mut Messages) {
    let text = format!("message {at}");
    match turn {
        Turn::Push(0) => messages.push(Message::human(text)),
        Turn::Push(1) => messages.push(Message::ai(text)),
        Turn::Push(2) => messages.push(Message::tool("c", "f", text)),
        Turn::Push(3) => messages.push(Message::system(text)),
        Turn::Push(_) => {
            messages.push(Message::ai_calling(
                text,
                [ToolCall::new("c", "f", json!({"a": at}))],
            ));
        }
        Turn::Truncate(len) => {
            *messages = messages.as_slice().iter().take(*len).cloned().collect();
        }
        Turn::Fork(len, kind) => {
            apply(&Turn::Truncate(*len), at, messages);
            apply(&Turn::Push(*kind), at, messages);
        }
        Turn::Replace(index) => {
            if let Some(message) = messages.get_mut(*index) {
                *message.content_mut() = text.into();
            }
        }
        Turn::Limit(_) => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(1),
        ..ProptestConfig::default()
    })]

    #[test]
    fn cached_request_bytes_equal_newly_encoded_ones(turns in turns()) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let server = serve([events(ANSWER)]).await;
            let mut running = ModelRequest::new(Messages::new().human("begin"));
            for (at, turn) in turns.iter().enumerate() {
                apply(turn, at, &mut running.messages);
                if let Turn::Limit(tokens) = turn {
                    running.max_output_tokens = Some(*tokens);
                }

                if running.messages.iter().all(|message| message.role().as_str() == "system") {
                    continue;
                }

                send(&server, running.clone()).await;
                let continued = text(&last(&server)).to_owned();
                assert!(continued.matches("cache_control").count() <= 4);
                let mut fresh = ModelRequest::new(running.messages.clone());
                fresh.max_output_tokens = running.max_output_tokens;
                send(&server, fresh).await;
                let fresh = text(&last(&server)).to_owned();
                assert_eq!(
                    unmarked(&continued),
                    unmarked(&fresh),
                    "after {:?}",
                    &turns[..=at]
                );
            }
        });
    }
}

#[tokio::test]
async fn new_turn_keeps_the_request_prefix_unchanged() {
    let server = serve([events(ANSWER)]).await;
    let mut request = ModelRequest::new("begin")
        .with_system("You help.")
        .with_tools([ToolDefinition::new("f", "d", json!({"type": "object"}))]);
    let mut before: Option<String> = None;
    for turn in 0..6 {
        send(&server, request.clone()).await;
        let body = unmarked(text(&last(&server)));
        if let Some(before) = before {
            // The last message may change, because others follow it now.
            let stable = before.rfind("{\"role\":").expect("a message");
            assert_eq!(body[..stable], before[..stable], "turn {turn}");
        }

        before = Some(body);
        let call = ToolCall::from_raw(format!("c{turn}"), "f", "{ }");
        request
            .messages
            .push(Message::ai_calling("working", [call]));
        request
            .messages
            .push(Message::tool(format!("c{turn}"), "f", "done"));
    }
}
