//! Requests to each server.

use agentcore::message::ProviderBlock;
use agentcore::model::{ResponseFormat, ThinkingMode, ToolChoice, ToolDefinition};
use agentcore::providers::OpenAi;
use agentcore::providers::openai::Dialect;
use agentcore::testing::FaultServer;
use agentcore::testing::fault_server::Received;
use agentcore::{ErrorKind, Message, Messages, Model, ModelRequest, Part, ToolCall};
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// Every dialect, and the tag of its blocks.
fn dialects() -> [(Dialect, &'static str); 13] {
    [
        (Dialect::openai(), "openai"),
        (Dialect::compatible(), "openai"),
        (Dialect::azure(), "azure"),
        (Dialect::openrouter(), "openrouter"),
        (Dialect::deepseek(), "deepseek"),
        (Dialect::mistral(), "mistral"),
        (Dialect::groq(), "groq"),
        (Dialect::xai(), "xai"),
        (Dialect::gemini(), "gemini-openai"),
        (Dialect::bedrock(), "bedrock"),
        (Dialect::vllm(), "vllm"),
        (Dialect::llama_cpp(), "llamacpp"),
        (Dialect::lm_studio(), "lmstudio"),
    ]
}

async fn received(model: impl FnOnce(String) -> OpenAi, request: ModelRequest) -> Received {
    let server = FaultServer::start().await.unwrap();
    server.openai_text("ok");
    let model = model(server.url());
    assert_eq!(model.call(request).await.unwrap().text(), "ok");
    server.requests().remove(0)
}

async fn sent(dialect: Dialect, name: &str, request: ModelRequest) -> Value {
    let model = |url| OpenAi::compatible(url, name).dialect(dialect);
    received(model, request).await.json()
}

async fn refusal(dialect: Dialect, name: &str, request: ModelRequest) -> String {
    let server = FaultServer::start().await.unwrap();
    let model = OpenAi::compatible(server.url(), name).dialect(dialect);
    let error = model.call(request).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(server.requests().is_empty());
    error.to_string()
}

fn thinking(mode: ThinkingMode) -> ModelRequest {
    let mut request = ModelRequest::new("Hi");
    request.settings.thinking = Some(mode);
    request
}

fn tool() -> ToolDefinition {
    ToolDefinition::new("t", "A tool.", json!({"type": "object"}))
}

/// A history with one call, whose answer has a block of every server.
fn history() -> Messages {
    let block = |tag: &str| {
        let raw = format!("{{\"reasoning_content\":\"canary of {tag}\"}}");
        Part::Thinking(ProviderBlock::new(tag, RawValue::from_string(raw).unwrap()))
    };
    let tags = dialects().map(|(_, tag)| tag);
    let parts = tags[1..].iter().map(|tag| block(tag));
    let call = Part::ToolCall(ToolCall::new("call_1", "t", json!({})));
    let own = Part::Opaque(ProviderBlock::new(
        "openai",
        RawValue::from_string(r#"{"type":"canary"}"#.into()).unwrap(),
    ));
    Messages::from("Hi")
        .with(Message::ai(parts.chain([call]).collect::<Vec<_>>()))
        .tool("call_1", "t", "seen")
        .with(Message::human([Part::text("And?"), own]))
}

#[tokio::test]
async fn block_of_one_server_never_reaches_another() {
    for (dialect, tag) in dialects() {
        let mut request = ModelRequest::new(history());
        request.tools = vec![tool()].into();
        let body = sent(dialect, "m", request).await.to_string();
        let others = dialects().map(|(_, other)| other);
        for other in others.iter().filter(|other| **other != tag) {
            let canary = format!("canary of {other}\"");
            assert!(!body.contains(&canary), "{dialect:?}: {body}");
        }
        let is_own =
            |dialect| ![Dialect::openai(), Dialect::azure(), Dialect::mistral()].contains(&dialect);
        let canary = format!("canary of {tag}\"");
        assert_eq!(
            body.contains(&canary),
            is_own(dialect),
            "{dialect:?}: {body}"
        );
        assert_eq!(
            body.contains("\"canary\""),
            tag == "openai",
            "{dialect:?}: {body}"
        );
    }
}

#[tokio::test]
async fn answer_is_marked_with_the_server_it_came_from() {
    let server = FaultServer::start().await.unwrap();
    let answer = json!({"id": "1", "choices": [
        {"message": {"reasoning_content": "hm", "content": "ok"}, "finish_reason": "stop"},
    ]});
    for (dialect, tag) in dialects() {
        server.reply(agentcore::testing::Reply::json(200, answer.to_string()));
        let model = OpenAi::compatible(server.url(), "m").dialect(dialect);
        let response = model.call(ModelRequest::new("Hi")).await.unwrap();
        let message = response.message();
        let parts = message.content.parts();
        let Part::Thinking(block) = &parts[0] else {
            panic!("{parts:?}");
        };
        assert_eq!(block.provider.as_deref(), Some(tag));
    }
}

#[tokio::test]
async fn fields_have_the_names_that_the_server_takes() {
    for (dialect, tag) in dialects() {
        let mut request = ModelRequest::new("Hi").with_max_output_tokens(7);
        request.settings.seed = Some(3);
        request.settings.top_k = Some(5);
        let body = sent(dialect, "m", request).await;
        let is_new = matches!(tag, "azure" | "groq" | "xai") || dialect == Dialect::openai();
        let (limit, other) = if is_new {
            ("max_completion_tokens", "max_tokens")
        } else {
            ("max_tokens", "max_completion_tokens")
        };
        assert_eq!(body[limit], 7, "{dialect:?}: {body}");
        assert_eq!(body.get(other), None, "{dialect:?}: {body}");
        let has_top_k = !is_new && !matches!(tag, "mistral" | "gemini-openai" | "bedrock");
        assert_eq!(
            body.get("top_k").is_some(),
            has_top_k,
            "{dialect:?}: {body}"
        );
        let is_mistral = tag == "mistral";
        let seed = if is_mistral { "random_seed" } else { "seed" };
        let sent_seed = body.get(seed).and_then(Value::as_u64);
        let has_seed = !matches!(tag, "gemini-openai" | "bedrock");
        assert_eq!(sent_seed, has_seed.then_some(3), "{dialect:?}: {body}");
        let has_options = body.get("stream_options").is_some();
        assert_eq!(has_options, !is_mistral, "{dialect:?}: {body}");
        assert_eq!(
            body.get("seed").is_some(),
            has_seed && !is_mistral,
            "{dialect:?}: {body}"
        );
    }
}

#[tokio::test]
async fn ids_are_nine_characters_and_equal_in_call_and_result() {
    let long = "toolu_".repeat(20);
    let history = Messages::from("Hi")
        .ai_calling(
            "",
            [
                ToolCall::new(&*long, "t", json!({})),
                ToolCall::new("call_1", "t", json!({})),
                ToolCall::new("abcDEF123", "t", json!({})),
            ],
        )
        .tool(&*long, "t", "1")
        .tool("call_1", "t", "2")
        .tool("abcDEF123", "t", "3");
    let body = sent(Dialect::mistral(), "m", ModelRequest::new(history)).await;
    let messages = &body["messages"];
    let ids: Vec<&str> = (0..3)
        .map(|index| messages[1]["tool_calls"][index]["id"].as_str().unwrap())
        .collect();
    for (index, id) in ids.iter().enumerate() {
        let is_legal = id.len() == 9 && id.chars().all(|c| c.is_ascii_alphanumeric());
        assert!(is_legal, "{id}");
        assert_eq!(messages[index + 2]["tool_call_id"], **id);
    }
    assert_eq!(ids[2], "abcDEF123");
    assert_ne!(ids[0], ids[1]);
}

#[tokio::test]
async fn query_and_key_header_are_sent() {
    let request = || ModelRequest::new("Hi");
    let azure = |url: String| {
        OpenAi::compatible(url, "m")
            .key("first")
            .query("api-version", "2024-10-21")
            .dialect(Dialect::azure())
    };
    let first = received(azure, request()).await;
    assert_eq!(first.path, "/chat/completions?api-version=2024-10-21");
    assert_eq!(first.header("api-key"), Some("first"));
    assert_eq!(first.header("authorization"), None);

    let moved = |url: String| azure(url).key_header("x-key").key("second");
    let second = received(moved, request()).await;
    assert_eq!(second.header("x-key"), Some("second"));
    assert_eq!(second.header("api-key"), None);
    assert_eq!(second.header("authorization"), None);

    let text = format!("{:?}", azure("http://127.0.0.1:1".to_owned()));
    assert!(
        text.contains("api-key") && !text.contains("first"),
        "{text}"
    );
}

#[tokio::test]
async fn effort_has_the_form_of_the_server() {
    let effort = |word: &str| ThinkingMode::Effort(word.into());
    let disabled = || ThinkingMode::Disabled;
    for (dialect, name, mode, expected) in [
        (
            Dialect::compatible(),
            "m",
            effort("any"),
            json!({"reasoning_effort": "any"}),
        ),
        (Dialect::compatible(), "m", disabled(), json!({})),
        (
            Dialect::deepseek(),
            "m",
            effort("minimal"),
            json!({"reasoning_effort": "low"}),
        ),
        (
            Dialect::deepseek(),
            "m",
            effort("xhigh"),
            json!({"reasoning_effort": "high"}),
        ),
        (
            Dialect::deepseek(),
            "m",
            effort("max"),
            json!({"reasoning_effort": "max"}),
        ),
        (
            Dialect::deepseek(),
            "m",
            disabled(),
            json!({"thinking": {"type": "disabled"}}),
        ),
        (
            Dialect::openrouter(),
            "m",
            effort("low"),
            json!({"reasoning": {"effort": "low"}}),
        ),
        (
            Dialect::openrouter(),
            "m",
            effort("none"),
            json!({"reasoning": {"enabled": false}}),
        ),
        (
            Dialect::openrouter(),
            "m",
            disabled(),
            json!({"reasoning": {"enabled": false}}),
        ),
        (
            Dialect::openrouter(),
            "m",
            ThinkingMode::Adaptive,
            json!({"reasoning": {"enabled": true}}),
        ),
        (
            Dialect::openrouter(),
            "m",
            ThinkingMode::Budget(9),
            json!({"reasoning": {"max_tokens": 9}}),
        ),
        (
            Dialect::mistral(),
            "m",
            effort("high"),
            json!({"reasoning_effort": "high"}),
        ),
        (
            Dialect::mistral(),
            "m",
            disabled(),
            json!({"reasoning_effort": "none"}),
        ),
        (
            Dialect::groq(),
            "openai/gpt-oss-20b",
            disabled(),
            json!({"reasoning_effort": "low"}),
        ),
        (
            Dialect::groq(),
            "qwen/qwen3-32b",
            disabled(),
            json!({"reasoning_effort": "none"}),
        ),
        (Dialect::groq(), "m", disabled(), json!({})),
        (
            Dialect::xai(),
            "grok-4.7",
            effort("xhigh"),
            json!({"reasoning_effort": "xhigh"}),
        ),
        (
            Dialect::xai(),
            "grok-4.3",
            disabled(),
            json!({"reasoning_effort": "none"}),
        ),
    ] {
        let body = sent(dialect, name, thinking(mode.clone())).await;
        let names = ["reasoning_effort", "reasoning", "thinking"];
        let fields: serde_json::Map<_, _> = names
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), body.get(name)?.clone())))
            .collect();
        assert_eq!(
            Value::Object(fields),
            expected,
            "{dialect:?} {name} {mode:?}"
        );
    }
}

#[tokio::test]
async fn effort_that_the_model_does_not_have_is_an_error() {
    for (dialect, name, word, known) in [
        (Dialect::deepseek(), "m", "huge", "none, low, high, max"),
        (Dialect::mistral(), "m", "huge", "none, minimal"),
        (
            Dialect::groq(),
            "openai/gpt-oss-20b",
            "none",
            "low, medium, high",
        ),
        (Dialect::xai(), "grok-4.5", "xhigh", "low, medium, high"),
        (
            Dialect::bedrock(),
            "openai.gpt-oss-120b",
            "none",
            "low, medium, high",
        ),
    ] {
        let text = refusal(dialect, name, thinking(ThinkingMode::Effort(word.into()))).await;
        let expected = format!("{name} has no effort {word:?}; use one of: {known}");
        assert!(text.contains(&expected), "{text}");
    }
}

#[tokio::test]
async fn request_that_the_server_refuses_is_an_error() {
    let mut stopping = ModelRequest::new("Hi");
    stopping.stop = vec!["x".into()].into();
    let text = refusal(Dialect::xai(), "m", stopping).await;
    assert!(text.contains("m takes no stop sequences"), "{text}");

    let mut forced = ModelRequest::new("Hi");
    forced.tools = vec![tool()].into();
    forced.tool_choice = ToolChoice::Required;
    let text = refusal(Dialect::deepseek(), "m", forced.clone()).await;
    assert!(text.contains("ThinkingMode::Disabled"), "{text}");
    forced.settings.thinking = Some(ThinkingMode::Disabled);
    let body = sent(Dialect::deepseek(), "m", forced).await;
    assert_eq!(body["tool_choice"], "required");
}

#[tokio::test]
async fn schema_is_told_in_words_where_the_server_takes_none() {
    let mut request = ModelRequest::new("Hi");
    let schema = json!({"type": "object", "properties": {"mood": {"type": "string"}}});
    request.response_format = Some(ResponseFormat::JsonSchema {
        name: "mood".into(),
        schema: schema.into(),
    });
    let body = sent(Dialect::deepseek(), "m", request.clone()).await;
    assert_eq!(body["response_format"], json!({"type": "json_object"}));
    let prompt = body["messages"][0]["content"].as_str().unwrap();
    assert!(prompt.contains("\"mood\""), "{prompt}");
    for dialect in [Dialect::mistral(), Dialect::groq(), Dialect::azure()] {
        let body = sent(dialect, "m", request.clone()).await;
        assert_eq!(body["response_format"]["type"], "json_schema");
    }
}
