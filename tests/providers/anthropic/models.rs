//! Requests that each family of Claude models accepts.

use agentcore::model::{
    HostedTool, ModelSettings, ResponseFormat, ThinkingMode, ToolChoice, ToolDefinition,
};
use agentcore::providers::Anthropic;
use agentcore::testing::{FaultServer, Reply};
use agentcore::{ErrorKind, Model, ModelEvent, ModelRequest, Result};
use futures::TryStreamExt;
use serde_json::{Value, json};

/// Returns the body that is sent for `request`, and the warnings of the answer.
async fn send(model: &str, request: ModelRequest) -> Result<(Value, Vec<String>)> {
    let server = FaultServer::start().await.unwrap();
    server.fallback(Reply::anthropic_text("ok"));
    let model = Anthropic::new(model, "sk-test-123456").base_url(server.url());
    let events: Vec<_> = model.stream(request).await?.try_collect().await?;
    let warnings = events.into_iter().filter_map(|event| match event {
        ModelEvent::Warning(text) => Some(text),
        _ => None,
    });
    Ok((server.requests().remove(0).json(), warnings.collect()))
}

fn with_mode(mode: Option<ThinkingMode>) -> ModelRequest {
    let mut request = ModelRequest::new("Hi").with_max_output_tokens(8_000);
    request.settings.thinking = mode;
    request
}

/// The expected field `thinking` and effort, or a part of the error's text.
type Expected = std::result::Result<(Value, Value), &'static str>;

fn fields(thinking: Value) -> Expected {
    Ok((thinking, Value::Null))
}

/// The expected fields for each model: without a mode, then for disabled, a budget, adaptive, and
/// the efforts high, xhigh and max.
fn expected_fields() -> Vec<(&'static str, [Expected; 7])> {
    let null = Value::Null;
    let off = || json!({"type": "disabled"});
    let budget = || fields(json!({"type": "enabled", "budget_tokens": 2000}));
    let adaptive = || json!({"type": "adaptive"});
    let summarized = || json!({"type": "adaptive", "display": "summarized"});
    let effort = |thinking: Value, effort: &str| Ok((thinking, json!(effort)));
    let efforts = |thinking: fn() -> Value| {
        ["high", "xhigh", "max"].map(move |name| effort(thinking(), name))
    };

    let no_effort = || Err("ThinkingMode::Budget");
    let no_budget = || Err("ThinkingMode::Effort");
    let always = || Err("always thinks");
    let row = |none, disabled, budget, adapts, [high, xhigh, max]: [Expected; 3]| {
        [none, disabled, budget, adapts, high, xhigh, max]
    };

    let first = || {
        let efforts = [no_effort(), no_effort(), no_effort()];
        row(
            fields(null.clone()),
            fields(off()),
            budget(),
            no_effort(),
            efforts,
        )
    };
    let newest = |none: Value, disabled| {
        let efforts = efforts(|| json!({"type": "adaptive", "display": "summarized"}));
        row(
            fields(none),
            disabled,
            no_budget(),
            fields(summarized()),
            efforts,
        )
    };
    let between_tools = || fields(json!({"type": "between_tools"}));
    let opus_4_5 = [
        effort(null.clone(), "high"),
        Err("low, medium, high"),
        Err("low, medium, high"),
    ];
    let v4_6 = || {
        [
            effort(adaptive(), "high"),
            Err("low, medium, high, max"),
            effort(adaptive(), "max"),
        ]
    };
    vec![
        ("claude-haiku-4-5", first()),
        (
            "claude-opus-4-5",
            row(
                fields(null.clone()),
                fields(off()),
                budget(),
                no_effort(),
                opus_4_5,
            ),
        ),
        (
            "claude-sonnet-4-6",
            row(
                fields(null.clone()),
                fields(off()),
                budget(),
                fields(adaptive()),
                v4_6(),
            ),
        ),
        ("claude-opus-4-8", newest(null.clone(), fields(off()))),
        ("claude-sonnet-5", newest(summarized(), fields(off()))),
        ("claude-opus-5", newest(summarized(), fields(off()))),
        ("claude-haiku-5-5", newest(summarized(), fields(off()))),
        ("claude-sonnet-5-5", newest(summarized(), between_tools())),
        ("claude-fable-5", newest(summarized(), always())),
        ("claude-mythos-5-1", newest(summarized(), always())),
        ("claude-opus-5-5", newest(summarized(), always())),
        ("claude-unheard-of-9", newest(summarized(), always())),
    ]
}

#[tokio::test]
async fn thinking_has_the_form_that_the_model_takes() {
    let effort = |name: &str| Some(ThinkingMode::Effort(name.into()));
    let modes = [
        None,
        Some(ThinkingMode::Disabled),
        Some(ThinkingMode::Budget(2_000)),
        Some(ThinkingMode::Adaptive),
        effort("high"),
        effort("xhigh"),
        effort("max"),
    ];
    for (model, row) in expected_fields() {
        for (mode, expected) in modes.iter().zip(row) {
            let outcome = send(model, with_mode(mode.clone())).await;
            match (outcome, expected) {
                (Ok((body, warnings)), Ok((thinking, effort))) => {
                    assert_eq!(body["thinking"], thinking, "{model} {mode:?}");
                    assert_eq!(body["output_config"]["effort"], effort, "{model} {mode:?}");
                    assert!(warnings.is_empty(), "{warnings:?}");
                }
                (Err(error), Err(word)) => {
                    assert_eq!(error.kind(), ErrorKind::Config, "{model} {mode:?}");
                    let text = error.to_string();
                    assert!(text.contains(model) && text.contains(word), "{text}");
                }
                (outcome, expected) => panic!("{model} {mode:?}: {outcome:?}, not {expected:?}"),
            }
        }
    }
}

#[tokio::test]
async fn thoughts_are_sent_without_text_on_request() {
    let hidden = |mode| {
        let mut request = with_mode(mode);
        request.settings.show_thinking = Some(false);
        request
    };
    let adaptive = || hidden(Some(ThinkingMode::Adaptive));
    for (model, request, expected) in [
        ("claude-sonnet-5", hidden(None), Value::Null),
        ("claude-sonnet-5", adaptive(), json!({"type": "adaptive"})),
        (
            "claude-sonnet-4-6",
            adaptive(),
            json!({"type": "adaptive", "display": "omitted"}),
        ),
        ("qwen3", adaptive(), json!({"type": "adaptive"})),
    ] {
        let (body, _) = send(model, request).await.unwrap();
        assert_eq!(body["thinking"], expected, "{model}");
    }
}

#[tokio::test]
async fn forced_tool_is_refused_or_replaces_the_budget() {
    let forced = |mode| {
        let mut request = with_mode(mode);
        request.tools = [ToolDefinition::new("f", "", json!({"type": "object"}))].into();
        request.tool_choice = ToolChoice::Required;
        request
    };
    for model in ["claude-opus-5-5", "claude-sonnet-5-5", "claude-mythos-5-1"] {
        let error = send(model, forced(None)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.text().contains("ToolChoice::Auto"), "{error}");
    }

    let budget = || forced(Some(ThinkingMode::Budget(2_000)));
    let adaptive = || forced(Some(ThinkingMode::Adaptive));
    for (model, request, thinks) in [
        ("claude-haiku-4-5", budget(), false),
        ("claude-opus-4-6", budget(), false),
        ("claude-opus-4-6", adaptive(), true),
        ("claude-fable-5", adaptive(), true),
        ("qwen3", adaptive(), false),
    ] {
        let (body, _) = send(model, request).await.unwrap();
        assert_eq!(body["tool_choice"], json!({"type": "any"}), "{model}");
        assert_eq!(!body["thinking"].is_null(), thinks, "{model}");
    }
}

#[tokio::test]
async fn sampling_is_left_out_with_a_warning() {
    let mut request = ModelRequest::new("Hi");
    request.temperature = Some(0.0);
    request.settings = ModelSettings::new().with_top_p(0.9).with_top_k(5);
    for (model, is_sent) in [
        ("claude-sonnet-4-6", true),
        ("qwen3", true),
        ("claude-opus-4-7", false),
        ("claude-unheard-of-9", false),
    ] {
        let (body, warnings) = send(model, request.clone()).await.unwrap();
        for field in ["temperature", "top_p", "top_k"] {
            assert_eq!(!body[field].is_null(), is_sent, "{model} {field}");
        }
        assert_eq!(warnings.is_empty(), is_sent, "{model}: {warnings:?}");
        assert!(warnings.iter().all(|text| text.contains("temperature")));
    }
}

#[tokio::test]
async fn answer_of_a_model_without_schemas_is_described_in_words() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}},
        "required": ["a"], "additionalProperties": false});
    let mut request = ModelRequest::new("Hi");
    request.response_format = Some(ResponseFormat::JsonSchema {
        name: "n".into(),
        schema: schema.into(),
    });
    for (model, has_schemas) in [
        ("claude-sonnet-4-20250514", false),
        ("claude-opus-4-1", true),
        ("claude-sonnet-5", true),
        ("qwen3", true),
    ] {
        let (body, _) = send(model, request.clone()).await.unwrap();
        assert_eq!(!body["output_config"].is_null(), has_schemas, "{model}");
        assert_eq!(body["system"].is_null(), has_schemas, "{model}");
    }
}

#[tokio::test]
async fn hosted_and_local_tools_stand_in_one_list() {
    let search = json!({"type": "web_search_20260318", "name": "web_search"});
    let mut request = ModelRequest::new("Hi");
    request.tools = [ToolDefinition::new("f", "", json!({"type": "object"}))].into();
    request.hosted_tools = [
        HostedTool::new("anthropic", search.clone()),
        HostedTool::new("gemini", json!({"googleSearch": {}})),
    ]
    .into();
    let (body, warnings) = send("claude-sonnet-5", request).await.unwrap();
    assert_eq!(body["tools"].as_array().unwrap().len(), 2);
    assert_eq!(body["tools"][1], search);
    assert!(warnings[0].contains("gemini"), "{warnings:?}");
}
