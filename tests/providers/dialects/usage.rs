//! The usage that each server reports.

use agentcore::providers::OpenAi;
use agentcore::providers::openai::Dialect;
use agentcore::testing::{FaultServer, Reply};
use agentcore::{Model, ModelRequest, Usage};
use serde_json::{Value, json};

async fn usage(dialect: Dialect, report: Value) -> Usage {
    let mut chunk = json!({"id": "1", "choices": [
        {"message": {"content": "ok"}, "finish_reason": "stop"},
    ]});
    chunk
        .as_object_mut()
        .unwrap()
        .extend(report.as_object().unwrap().clone());
    let server = FaultServer::start().await.unwrap();
    server.reply(Reply::json(200, chunk.to_string()));
    let model = OpenAi::compatible(server.url(), "m").dialect(dialect);
    model.call(ModelRequest::new("Hi")).await.unwrap().usage
}

#[tokio::test]
async fn usage_of_groq_is_in_its_own_part() {
    let report = json!({"x_groq": {"id": "r", "usage": {
        "prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10,
    }}});
    assert_eq!(usage(Dialect::groq(), report).await, Usage::new(7, 3));
    let broken = json!({"x_groq": [1], "usage": {"prompt_tokens": 1, "completion_tokens": 2}});
    assert_eq!(usage(Dialect::groq(), broken).await, Usage::new(1, 2));
}

#[tokio::test]
async fn output_of_xai_includes_the_reasoning() {
    let report = || {
        json!({"usage": {
            "prompt_tokens": 7, "completion_tokens": 3,
            "completion_tokens_details": {"reasoning_tokens": 20},
        }})
    };
    let xai = usage(Dialect::xai(), report()).await;
    assert_eq!((xai.output_tokens, xai.reasoning_tokens), (23, 20));
    let other = usage(Dialect::groq(), report()).await;
    assert_eq!((other.output_tokens, other.reasoning_tokens), (3, 20));
}

#[tokio::test]
async fn output_of_gemini_is_what_the_input_leaves_of_the_total() {
    let report =
        || json!({"usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 30}});
    assert_eq!(usage(Dialect::gemini(), report()).await, Usage::new(7, 23));
    assert_eq!(usage(Dialect::groq(), report()).await, Usage::new(7, 3));
    let document = json!({"usage": {"prompt_tokens": 7, "completion_tokens": 3}});
    assert_eq!(usage(Dialect::gemini(), document).await, Usage::new(7, 3));
}
