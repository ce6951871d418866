//! Token counts of models that wrap other models, and of servers that count.

use std::sync::Arc;

use agentcore::model::{ModelProfile, ModelStream, ToolDefinition};
use agentcore::providers::openai::Dialect;
use agentcore::providers::{FallbackModel, OpenAi, OpenAiAuto, OpenAiResponses};
use agentcore::testing::{Cassette, FaultServer, FunctionModel, Reply, StrictModel};
use agentcore::{Error, ErrorKind, Model, ModelRequest, Result, async_trait};
use serde_json::json;

/// A model that counts this number of tokens; 0 is a failure.
struct Fixed(u64);

#[async_trait]
impl Model for Fixed {
    fn id(&self) -> &str {
        "test:fixed"
    }

    fn profile(&self) -> &ModelProfile {
        static PROFILE: std::sync::LazyLock<ModelProfile> =
            std::sync::LazyLock::new(ModelProfile::default);
        &PROFILE
    }

    async fn stream(&self, _request: ModelRequest) -> Result<ModelStream> {
        Err("it only counts".into())
    }

    async fn count_tokens(&self, _request: ModelRequest) -> Result<Option<u64>> {
        match self.0 {
            0 => Err(Error::new(ErrorKind::Server, "no count")),
            tokens => Ok(Some(tokens)),
        }
    }
}

async fn count(model: impl Model) -> Result<Option<u64>> {
    model.count_tokens(ModelRequest::new("Go")).await
}

#[tokio::test]
async fn wrapped_models_count_with_the_inner_model() {
    let shared: Arc<dyn Model> = Arc::new(Fixed(1));
    assert_eq!(count(shared.clone()).await.unwrap(), Some(1));
    assert_eq!(count(Box::new(Fixed(2))).await.unwrap(), Some(2));
    assert_eq!(count(StrictModel::new(Fixed(3))).await.unwrap(), Some(3));
    let fallback = FallbackModel::new([shared, Arc::new(Fixed(5))]);
    assert_eq!(
        count(fallback).await.unwrap(),
        Some(1),
        "the count of the first model"
    );
    let failing = FallbackModel::new([Fixed(0), Fixed(5)]);
    let error = count(failing).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Server);
}

#[tokio::test]
async fn recorded_runs_have_no_counts_when_they_are_replayed_or_recorded() {
    let name = format!("cassette-counts-{}.jsonl", std::process::id());
    let path = std::env::temp_dir().join(name);
    let recording = Cassette::record(&path, Fixed(7)).unwrap();
    assert_eq!(count(recording).await.unwrap(), None);
    assert_eq!(count(Cassette::replay(&path).unwrap()).await.unwrap(), None);
    std::fs::remove_file(&path).unwrap();
    let function = FunctionModel::text(|_| "hello".into());
    assert_eq!(count(function).await.unwrap(), None);
}

#[tokio::test]
async fn openai_counts_what_goes_to_the_responses_api() {
    let server = FaultServer::start().await.unwrap();
    server.fallback(Reply::json(200, r#"{"input_tokens": 42}"#));
    let model = OpenAiAuto::new(
        OpenAi::compatible(server.url(), "gpt-6-luna"),
        OpenAiResponses::compatible(server.url(), "gpt-6-luna"),
    );
    let mut request = ModelRequest::new("Go");
    assert_eq!(model.count_tokens(request.clone()).await.unwrap(), None);
    assert_eq!(server.requests().len(), 0, "Chat Completions do not count");
    request.tools = [ToolDefinition::new("f", "", json!({"type": "object"}))].into();
    assert_eq!(model.count_tokens(request).await.unwrap(), Some(42));
    assert_eq!(server.requests()[0].path, "/responses/input_tokens");
}

#[tokio::test]
async fn llama_cpp_counts_a_request_of_chat_completions() {
    let server = FaultServer::start().await.unwrap();
    server.reply(Reply::json(200, r#"{"input_tokens": 42}"#));
    server.fallback(Reply::json(404, "{}"));
    let model = OpenAi::compatible(format!("{}/v1", server.url()), "qwen3");
    let model = model.dialect(Dialect::llama_cpp());
    let mut request = ModelRequest::new("Go").with_max_output_tokens(9);
    request.tools = [ToolDefinition::new("f", "", json!({"type": "object"}))].into();
    assert_eq!(model.count_tokens(request).await.unwrap(), Some(42));
    let counted = server.requests().remove(0);
    assert_eq!(counted.path, "/v1/chat/completions/input_tokens");
    let body = counted.json();
    let fields: Vec<_> = body.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["messages", "model", "tools"]);
    // An older server has no such endpoint.
    assert_eq!(count(model).await.unwrap(), None);
}
