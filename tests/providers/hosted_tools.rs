//! Tools that run on the provider's servers, with APIs that have none.

use agentcore::model::HostedTool;
use agentcore::providers::{Anthropic, Ollama, OpenAi};
use agentcore::testing::{FaultServer, Reply};
use agentcore::{Model, ModelEvent, ModelRequest};
use futures::TryStreamExt;
use serde_json::json;

#[tokio::test]
async fn tool_of_another_provider_is_left_out_with_a_warning() {
    let server = FaultServer::start().await.unwrap();
    let models: [(Reply, Box<dyn Model>); 3] = [
        (
            Reply::openai_text("ok"),
            Box::new(OpenAi::compatible(server.url(), "m")),
        ),
        (
            Reply::ollama_text("ok"),
            Box::new(Ollama::new("m").base_url(server.url())),
        ),
        (
            Reply::anthropic_text("ok"),
            Box::new(Anthropic::new("m", "k").base_url(server.url())),
        ),
    ];
    for (reply, model) in models {
        server.reply(reply);
        let mut request = ModelRequest::new("Hi");
        request.hosted_tools = [HostedTool::new("gemini", json!({"googleSearch": {}}))].into();
        let stream = model.stream(request).await.unwrap();
        let events: Vec<_> = stream.try_collect().await.unwrap();
        assert!(matches!(&events[0], ModelEvent::Start(_)), "{events:?}");
        assert!(
            matches!(&events[1], ModelEvent::Warning(text) if text.contains("gemini")),
            "{events:?}"
        );
    }

    for request in server.requests() {
        assert!(!String::from_utf8_lossy(&request.body).contains("googleSearch"));
    }
}
