//! The choice between OpenAI's two APIs.

use agentcore::model::{ModelSettings, ThinkingMode, ToolDefinition};
use agentcore::providers::{OpenAi, OpenAiAuto, OpenAiResponses, responses};
use agentcore::testing::{FaultServer, Reply};
use agentcore::{ErrorKind, Model, ModelRequest};
use serde_json::json;

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
        ("gpt-6-astra", true, Some("none"), "/responses"),
        ("gpt-5.5-pro", false, None, "/responses"),
        ("gpt-5.4-mini", true, None, "/chat/completions"),
        ("gpt-5.4-mini", true, Some("low"), "/responses"),
        ("gpt-5-mini", true, Some("low"), "/chat/completions"),
        ("gpt-9-new", true, None, "/responses"),
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
async fn missing_responses_api_names_the_chat_prefix() {
    let server = FaultServer::start().await.unwrap();
    server.fallback(Reply::json(404, "{}"));
    let error = auto(&server, "gpt-5.5-pro")
        .call(ModelRequest::new("Go"))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(
        error.to_string().contains("openai-chat:gpt-5.5-pro"),
        "{error}"
    );
}
