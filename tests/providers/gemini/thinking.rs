//! Settings of thinking.

use agentcore::model::{ModelSettings, ThinkingMode};
use agentcore::providers::Gemini;
use agentcore::{ErrorKind, Model, ModelEvent, ModelRequest};
use futures::TryStreamExt;
use serde_json::{Value, json};

use crate::kit::doubles::gemini::Double;

fn request(mode: Option<ThinkingMode>) -> ModelRequest {
    let mut request = ModelRequest::new("Go");
    request.settings.thinking = mode;
    request
}

/// Returns the field `thinkingConfig` of a request and the warnings, or the error before it is
/// sent.
async fn config(model: &str, request: ModelRequest) -> Result<(Value, Vec<String>), String> {
    let (double, server) = Double::start([]).await;
    let model = Gemini::new(model, "key").base_url(server.url());
    let events = match model.stream(request).await {
        Ok(events) => events.try_collect::<Vec<_>>().await.unwrap(),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Config, "{error}");
            assert!(server.requests().is_empty());
            return Err(error.text().to_owned());
        }
    };
    assert!(double.refusals().is_empty(), "{:?}", double.refusals());
    let warnings = events.into_iter().filter_map(|event| match event {
        ModelEvent::Warning(text) => Some(text),
        _ => None,
    });
    let body = server.requests().remove(0).json();
    let config = body["generationConfig"]["thinkingConfig"].clone();
    Ok((config, warnings.collect()))
}

#[tokio::test]
async fn level_that_the_model_lacks_is_an_error() {
    let effort = |effort: &str| ThinkingMode::Effort(effort.into());
    for (model, mode, reason) in [
        (
            "gemini-3.8-flash",
            effort("minimal"),
            "one of: low, medium, high",
        ),
        (
            "gemini-3.8-flash",
            effort("none"),
            "one of: low, medium, high",
        ),
        (
            "gemini-3-pro-preview",
            effort("medium"),
            "one of: low, high",
        ),
        (
            "gemini-2.5-flash",
            effort("minimal"),
            "one of: low, medium, high",
        ),
        (
            "gemini-4-argon",
            ThinkingMode::Budget(1_000),
            "use ThinkingMode::Effort",
        ),
        ("gemini-2.0-flash", effort("low"), "does not think"),
        ("gemini-2.0-flash", ThinkingMode::Adaptive, "does not think"),
        ("gemma-4-31b", ThinkingMode::Budget(1_000), "does not think"),
    ] {
        let error = config(model, request(Some(mode))).await.unwrap_err();
        assert!(error.contains(model) && error.contains(reason), "{error}");
    }
}

#[tokio::test]
async fn mode_becomes_a_level_or_a_budget() {
    let effort = |effort: &str| Some(ThinkingMode::Effort(effort.into()));
    let level = |level: &str| json!({"thinkingLevel": level, "includeThoughts": true});
    let budget = |tokens: i64| json!({"thinkingBudget": tokens, "includeThoughts": true});
    let summaries = || json!({"includeThoughts": true});
    let off = Some(ThinkingMode::Disabled);
    for (model, mode, expected) in [
        ("gemini-3.8-flash", None, summaries()),
        ("gemini-3.8-flash", effort("low"), level("LOW")),
        ("gemini-3.8-flash", effort("xhigh"), level("HIGH")),
        ("gemini-3.8-flash", effort("max"), level("HIGH")),
        (
            "gemini-3.8-flash",
            Some(ThinkingMode::Adaptive),
            summaries(),
        ),
        ("gemini-3.6-flash", effort("minimal"), level("MINIMAL")),
        (
            "gemini-3.6-flash",
            off.clone(),
            json!({"thinkingLevel": "MINIMAL"}),
        ),
        ("gemini-4-argon", effort("medium"), level("MEDIUM")),
        ("gemini-2.5-flash", effort("low"), budget(1_024)),
        ("gemini-2.5-flash", effort("medium"), budget(8_192)),
        ("gemini-2.5-pro", effort("max"), budget(24_576)),
        (
            "gemini-2.5-pro",
            Some(ThinkingMode::Budget(128)),
            budget(128),
        ),
        ("gemini-2.5-flash", Some(ThinkingMode::Adaptive), budget(-1)),
        (
            "gemini-2.5-flash",
            off.clone(),
            json!({"thinkingBudget": 0}),
        ),
        (
            "gemini-2.5-flash",
            Some(ThinkingMode::Budget(0)),
            json!({"thinkingBudget": 0}),
        ),
        ("gemini-2.0-flash", off, Value::Null),
        ("gemini-2.0-flash", None, Value::Null),
    ] {
        let actual = config(model, request(mode.clone())).await.unwrap();
        assert_eq!(actual, (expected, Vec::new()), "{model} {mode:?}");
    }
}

#[tokio::test]
async fn model_that_always_thinks_is_set_to_its_lowest_level_with_a_warning() {
    let (sent, warnings) = config("gemini-3.8-flash", request(Some(ThinkingMode::Disabled)))
        .await
        .unwrap();
    assert_eq!(sent, json!({"thinkingLevel": "LOW"}));
    let expected = "the model gemini-3.8-flash always thinks; it was set to its lowest level, low";
    assert_eq!(warnings, [expected]);

    for mode in [ThinkingMode::Disabled, ThinkingMode::Budget(0)] {
        let actual = config("gemini-2.5-pro", request(Some(mode))).await;
        let (actual, warnings) = actual.unwrap();
        assert_eq!(actual, json!({"thinkingBudget": 128}));
        let expected =
            "the model gemini-2.5-pro always thinks; it was set to its lowest budget, 128";
        assert_eq!(warnings, [expected]);
    }
}

#[tokio::test]
async fn thoughts_are_hidden_on_request() {
    let settings = ModelSettings::new().with_show_thinking(false);
    for (mode, expected) in [
        (None, Value::Null),
        (
            Some(ThinkingMode::Effort("low".into())),
            json!({"thinkingLevel": "LOW"}),
        ),
    ] {
        let mut request = request(mode);
        request.settings.show_thinking = settings.show_thinking;
        let actual = config("gemini-3.8-flash", request).await.unwrap();
        assert_eq!(actual, (expected, Vec::new()));
    }
}
