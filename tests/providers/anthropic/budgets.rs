//! Thinking budgets after calls of answers that have no thinking.

use agentcore::message::ProviderBlock;
use agentcore::model::{ModelEvent, ThinkingMode};
use agentcore::providers::Anthropic;
use agentcore::testing::FaultServer;
use agentcore::{Message, Messages, Model, ModelRequest, Part, ToolCall};
use futures::TryStreamExt;
use serde_json::value::to_raw_value;
use serde_json::{Value, json};

use crate::kit::doubles::anthropic::{Double, call, thinking};

const LEFT_OUT: &str = "the server refused thinking of earlier answers; it was left out";

fn model(server: &FaultServer) -> Anthropic {
    Anthropic::new("claude-haiku-4-5", "sk-test-123456").base_url(server.url())
}

/// Returns the body that was sent, and the warnings.
async fn send(server: &FaultServer, history: Messages) -> (Value, Vec<String>) {
    let mut request = ModelRequest::new(history).with_max_output_tokens(8_000);
    request.settings.thinking = Some(ThinkingMode::Budget(2_000));
    let events = model(server).stream(request).await.unwrap();
    let events: Vec<_> = events.try_collect().await.unwrap();
    let warnings = events.into_iter().filter_map(|event| match event {
        ModelEvent::Warning(text) => Some(text),
        _ => None,
    });
    (server.requests().pop().unwrap().json(), warnings.collect())
}

fn thought(provider: &str, signature: &str) -> Part {
    let block = json!({"type": "thinking", "thinking": "Hm.", "signature": signature});
    Part::Thinking(ProviderBlock::new(provider, to_raw_value(&block).unwrap()))
}

fn calling(id: &str) -> Part {
    Part::ToolCall(ToolCall::new(id, "echo", json!({})))
}

#[tokio::test]
async fn double_refuses_a_budget_behind_calls_without_thinking() {
    let (double, _server) = Double::start([]).await;
    let user = |block: Value| json!({"role": "user", "content": [block]});
    let text = || json!({"type": "text", "text": "Go"});
    let result = || json!({"type": "tool_result", "tool_use_id": "c1", "content": []});
    let answer = json!({"role": "assistant", "content": [call("c1", "echo", &json!({}))]});
    let body = |thinking: Value, last: Value| {
        let messages = json!([user(text()), answer, last]);
        json!({"model": "m", "thinking": thinking, "messages": messages})
    };
    let budget = || json!({"type": "enabled", "budget_tokens": 2_000});
    let refusal = double.answer(&body(budget(), user(result()))).unwrap_err();
    assert!(refusal.contains("found `tool_use`"), "{refusal}");
    let adaptive = json!({"type": "adaptive"});
    assert!(double.answer(&body(adaptive, user(result()))).is_ok());
}

#[tokio::test]
async fn budget_is_left_out_behind_calls_without_thinking() {
    let asked = || Messages::new().human("Go");
    for (history, is_sent) in [
        (asked(), true),
        (
            asked()
                .with(Message::ai([calling("c1")]))
                .tool("c1", "echo", "ok"),
            false,
        ),
        (
            asked()
                .with(Message::ai([thought("gemini", "x"), calling("c1")]))
                .tool("c1", "echo", "ok"),
            false,
        ),
        (
            asked()
                .with(Message::ai([Part::text("Look."), calling("c1")]))
                .tool("c1", "echo", "ok")
                .with(Message::ai([calling("c2")]))
                .tool("c2", "echo", "ok"),
            false,
        ),
        // The round of calls is complete.
        (
            asked()
                .with(Message::ai([calling("c1")]))
                .tool("c1", "echo", "ok")
                .with(Message::ai("Done."))
                .human("And?"),
            true,
        ),
    ] {
        let (double, server) = Double::start([]).await;
        let (body, warnings) = send(&server, history).await;
        assert_eq!(double.refusals(), [""; 0]);
        assert_eq!(warnings, [""; 0]);
        assert_eq!(body["thinking"].is_object(), is_sent, "{body}");
    }
}

#[tokio::test]
async fn budget_stays_in_a_round_that_begins_with_thinking() {
    let round = vec![thinking("Hm."), call("c1", "echo", &json!({}))];
    let (double, server) = Double::start([round, vec![call("c2", "echo", &json!({}))]]).await;
    let mut history = Messages::new().human("Go");
    for id in ["c1", "c2"] {
        let mut request = ModelRequest::new(history.clone()).with_max_output_tokens(8_000);
        request.settings.thinking = Some(ThinkingMode::Budget(2_000));
        let answer = model(&server).call(request).await.unwrap();
        history = history.ai(answer.content).tool(id, "echo", "ok");
    }
    let (body, _) = send(&server, history).await;
    assert_eq!(double.refusals(), [""; 0]);
    assert_eq!(body["thinking"]["type"], "enabled");
}

#[tokio::test]
async fn refused_thinking_of_a_round_is_left_out_with_the_budget() {
    let (double, server) = Double::start([]).await;
    let history = Messages::new()
        .human("Go")
        .with(Message::ai([
            thought("anthropic", "foreign"),
            calling("c1"),
        ]))
        .tool("c1", "echo", "ok");
    let (body, warnings) = send(&server, history).await;
    assert_eq!(double.refusals().len(), 1, "{:?}", double.refusals());
    assert_eq!(warnings, [LEFT_OUT]);
    assert!(body.get("thinking").is_none(), "{body}");
}
