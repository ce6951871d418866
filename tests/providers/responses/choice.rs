//! The choice between Chat Completions and the Responses API.

use std::sync::Arc;

use agentcore::message::{Media, Message, ProviderBlock};
use agentcore::model::{ModelSettings, ThinkingMode, ToolDefinition};
use agentcore::providers::{OpenAi, OpenAiAuto, OpenAiResponses, responses};
use agentcore::testing::{FaultServer, Reply};
use agentcore::{ErrorKind, Messages, Model, ModelEvent, ModelRequest, Part};
use futures::TryStreamExt;
use serde_json::value::to_raw_value;
use serde_json::{Value, json};

fn auto(server: &FaultServer, name: &str) -> OpenAiAuto {
    OpenAiAuto::new(
        OpenAi::compatible(server.url(), name),
        OpenAiResponses::compatible(server.url(), name),
    )
}

#[tokio::test]
async fn api_is_chosen_for_each_request() {
    let server = FaultServer::start().await.unwrap();
    server.fallback(Reply::json(401, "{}"));
    for (name, has_tools, effort, path) in [
        ("gpt-6-luna", true, None, "/responses"),
        ("gpt-6-luna", true, Some("none"), "/chat/completions"),
        ("gpt-6-luna", false, None, "/chat/completions"),
        ("gpt-6-luna", false, Some("max"), "/responses"),
        ("gpt-6-astra", true, None, "/responses"),
        ("gpt-5.1", true, Some("low"), "/chat/completions"),
        ("gpt-5.3", true, Some("high"), "/chat/completions"),
        ("gpt-5.5-pro", false, None, "/responses"),
        ("gpt-5.4-mini", true, None, "/chat/completions"),
        ("gpt-5.4-mini", true, Some("low"), "/responses"),
        ("gpt-5-mini", true, Some("low"), "/chat/completions"),
        ("gpt-9-new", true, None, "/responses"),
        ("gpt-chat-latest", true, None, "/responses"),
        ("gpt-luna", true, None, "/responses"),
        ("gpt-luna", false, None, "/chat/completions"),
        ("gpt-4o", true, None, "/chat/completions"),
        ("o5", true, None, "/responses"),
        ("o3", true, None, "/chat/completions"),
        ("gpt-oss-120b", true, Some("high"), "/chat/completions"),
        ("qwen3", true, Some("high"), "/chat/completions"),
    ] {
        let mut request = ModelRequest::new("Go");
        if has_tools {
            request.tools = [ToolDefinition::new("f", "", json!({"type": "object"}))].into();
        }
        if let Some(effort) = effort {
            request.settings =
                ModelSettings::new().with_thinking(ThinkingMode::Effort(effort.into()));
        }
        auto(&server, name).call(request).await.unwrap_err();
        let last = server.requests().pop().unwrap();
        assert_eq!(last.path, path, "{name} {has_tools} {effort:?}");
    }

    let mut request = ModelRequest::new("Go");
    request.hosted_tools = [responses::web_search()].into();
    auto(&server, "gpt-5.4-mini")
        .call(request)
        .await
        .unwrap_err();
    assert_eq!(server.requests().pop().unwrap().path, "/responses");
}

#[tokio::test]
async fn answer_of_the_responses_api_is_continued_there() {
    let server = FaultServer::start().await.unwrap();
    server.fallback(Reply::json(401, "{}"));
    for (name, tag, path) in [
        ("o3", "compatible-responses", "/responses"),
        ("o3", "openai", "/chat/completions"),
        // This model never reasons, and refuses reasoning in the history.
        ("gpt-4.1", "compatible-responses", "/chat/completions"),
        // The reasoning is that of OpenAI's own server.
        ("o3", "openai-responses", "/chat/completions"),
    ] {
        let block = to_raw_value(&json!({"type": "reasoning", "id": "rs_1"})).unwrap();
        let answer = [
            Part::Thinking(ProviderBlock::new(tag, block)),
            Part::text("Yes."),
        ];
        let history = Messages::new().human("Go").ai(answer).human("And?");
        let model = auto(&server, name);
        model.call(ModelRequest::new(history)).await.unwrap_err();
        let last = server.requests().pop().unwrap();
        assert_eq!(last.path, path, "{name} {tag}");
    }
}

#[tokio::test]
async fn media_that_only_one_api_takes_choose_it() {
    let server = FaultServer::start().await.unwrap();
    server.fallback(Reply::json(401, "{}"));
    let document = Part::Document;
    for (part, path) in [
        (
            Part::Image(Media::url("https://x/y.png")),
            "/chat/completions",
        ),
        (Part::Image(Media::file("openai", "file-1")), "/responses"),
        (document(Media::url("https://x/y.pdf")), "/responses"),
        (
            document(Media::bytes("application/msword", b"doc")),
            "/responses",
        ),
        (
            document(Media::bytes("application/pdf", b"pdf")),
            "/chat/completions",
        ),
        (
            document(Media::bytes("text/plain", b"notes")),
            "/chat/completions",
        ),
    ] {
        let history = Messages::new().with(Message::human([Part::text("Look:"), part.clone()]));
        let later = history.clone().with(Message::ai("Yes.")).human("And?");
        for history in [history, later] {
            let model = auto(&server, "gpt-5.4-mini");
            model.call(ModelRequest::new(history)).await.unwrap_err();
            let last = server.requests().pop().unwrap();
            assert_eq!(last.path, path, "{part:?}");
        }
    }
}

#[tokio::test]
async fn effort_that_a_model_lacks_is_an_error_that_names_the_others() {
    let server = FaultServer::start().await.unwrap();
    server.fallback(Reply::json(401, "{}"));
    for (name, effort, text) in [
        (
            "gpt-6-luna",
            "minimal",
            "use one of: none, low, medium, high, xhigh, max",
        ),
        (
            "gpt-6-astra",
            "none",
            "use one of: low, medium, high, xhigh, max",
        ),
        (
            "gpt-5.4",
            "max",
            "use one of: none, low, medium, high, xhigh",
        ),
        ("gpt-5-pro", "low", "use one of: high"),
        ("gpt-4.1", "low", "takes no effort"),
    ] {
        let models: [Box<dyn Model>; 3] = [
            Box::new(auto(&server, name)),
            Box::new(OpenAi::compatible(server.url(), name)),
            Box::new(OpenAiResponses::compatible(server.url(), name)),
        ];
        for model in models {
            let mut request = ModelRequest::new("Go");
            request.settings.thinking = Some(ThinkingMode::Effort(effort.into()));
            let error = model.call(request).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config, "{name}: {error}");
            assert!(error.text().contains(text), "{error}");
            assert!(error.text().contains(name), "{error}");
        }
    }
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn thinking_is_disabled_by_the_lowest_effort_of_a_model() {
    let server = FaultServer::start().await.unwrap();
    server.fallback(Reply::json(401, "{}"));
    for (name, path, effort) in [
        ("gpt-6-luna", "/chat/completions", json!("none")),
        ("gpt-5.5-pro", "/responses", json!("medium")),
        ("gpt-5-mini", "/chat/completions", json!("minimal")),
        ("gpt-4.1", "/chat/completions", Value::Null),
        ("qwen3", "/chat/completions", Value::Null),
    ] {
        let mut request = ModelRequest::new("Go");
        request.tools = [ToolDefinition::new("f", "", json!({"type": "object"}))].into();
        request.settings.thinking = Some(ThinkingMode::Disabled);
        auto(&server, name).call(request).await.unwrap_err();
        let request = server.requests().pop().unwrap();
        assert_eq!(request.path, path, "{name}");
        let body = request.json();
        let value = match path {
            "/responses" => &body["reasoning"]["effort"],
            _ => &body["reasoning_effort"],
        };
        assert_eq!(*value, effort, "{name}");
    }
}

#[tokio::test]
async fn request_that_openai_refuses_is_an_error_that_names_the_alternative() {
    let tools: Arc<[_]> = [ToolDefinition::new("f", "", json!({"type": "object"}))].into();
    for (name, effort, has_tools, stop, word) in [
        ("gpt-5.5-pro", None, false, None, "OpenAiResponses"),
        ("gpt-6-luna", None, true, None, "OpenAiResponses"),
        (
            "gpt-6-luna",
            Some("none"),
            true,
            Some("END"),
            "stop sequences",
        ),
        ("gpt-6-luna", Some("max"), false, None, "OpenAiResponses"),
    ] {
        let mut request = ModelRequest::new("Go");
        if has_tools {
            request.tools = tools.clone();
        }
        if let Some(effort) = effort {
            request.settings.thinking = Some(ThinkingMode::Effort(effort.into()));
        }
        request.stop = stop.into_iter().map(str::to_owned).collect();
        let error = OpenAi::new(name, "sk-test-1234").call(request).await;
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(error.text().contains(word) && error.text().contains(name));
    }
}

#[tokio::test]
async fn sampling_is_left_out_while_a_model_reasons() {
    let server = FaultServer::start().await.unwrap();
    server.fallback(Reply::json(401, "{}"));
    let effort = |name: &str| Some(ThinkingMode::Effort(name.into()));
    for (name, thinking, is_sent) in [
        ("gpt-6-luna", None, false),
        ("gpt-6-luna", effort("none"), true),
        ("gpt-6-luna", Some(ThinkingMode::Disabled), true),
        // The lowest effort of the first three is not `none`.
        ("gpt-5-mini", Some(ThinkingMode::Disabled), false),
        ("gpt-5.5-pro", Some(ThinkingMode::Disabled), false),
        ("gpt-5.5-pro", None, false),
        ("gpt-4.1", Some(ThinkingMode::Disabled), true),
        ("qwen3", effort("high"), true),
    ] {
        let models: [Box<dyn Model>; 2] = [
            Box::new(auto(&server, name)),
            Box::new(OpenAiResponses::compatible(server.url(), name)),
        ];
        for model in models {
            let mut request = ModelRequest::new("Go");
            request.temperature = Some(0.5);
            request.settings.top_p = Some(0.9);
            request.settings.thinking = thinking.clone();
            model.call(request).await.unwrap_err();
            let request = server.requests().pop().unwrap();
            let (body, path) = (request.json(), request.path);
            for field in ["temperature", "top_p"] {
                let has_field = !body[field].is_null();
                assert_eq!(has_field, is_sent, "{name} {thinking:?} {path} {field}");
            }
        }
    }

    server.fallback(Reply::openai_text("ok"));
    for (name, thinking) in [
        ("gpt-6-luna", None),
        ("gpt-5-mini", Some(ThinkingMode::Disabled)),
    ] {
        let mut request = ModelRequest::new("Go");
        request.temperature = Some(0.5);
        request.settings.thinking = thinking;
        let events = auto(&server, name).stream(request).await.unwrap();
        let events: Vec<_> = events.try_collect().await.unwrap();
        let is_warning = |event: &ModelEvent| {
            matches!(event, ModelEvent::Warning(text)
                if text.contains(name) && text.contains("temperature"))
        };
        assert!(events.iter().any(is_warning), "{name}");
    }
}

#[tokio::test]
async fn missing_responses_api_names_the_chat_prefix() {
    let server = FaultServer::start().await.unwrap();
    server.fallback(Reply::json(404, "{}"));
    let error = auto(&server, "gpt-5.5-pro")
        .call(ModelRequest::new("Go"))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(error.status(), Some(404));
    assert!(
        error.to_string().contains("openai-chat:gpt-5.5-pro"),
        "{error}"
    );
}
