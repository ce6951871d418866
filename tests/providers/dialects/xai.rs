//! Conversations with a strict xAI.

use agentcore::model::ModelEvent;
use agentcore::providers::OpenAi;
use agentcore::providers::openai::Dialect;
use agentcore::{AgentBuilder, Model, ModelRequest};
use futures::StreamExt;
use serde_json::json;

use crate::kit::doubles::chat::{Double, call, text_of};
use crate::kit::doubles::xai::{check, check_body};
use crate::kit::echo;

#[test]
fn double_refuses_what_the_server_refuses() {
    let refusal = |body| text_of(check_body(&body));
    assert_eq!(
        refusal(json!({"model": "grok-4.3", "reasoning_effort": "none"})),
        ""
    );
    let stop = refusal(json!({"model": "grok-4.5", "stop": ["x"]}));
    assert!(
        stop.contains("Argument not supported on this model: stop"),
        "{stop}"
    );
    let effort = refusal(json!({"model": "grok-4.5", "reasoning_effort": "xhigh"}));
    assert!(effort.contains("reasoning_effort"), "{effort}");
    let audio = json!([{"role": "user", "content": [{"type": "input_audio"}]}]);
    assert!(refusal(json!({"model": "grok-4.5", "messages": audio})).contains("content type"));
}

#[tokio::test]
async fn repeated_pieces_of_reasoning_count_once() {
    let thought = |text: &str| json!({"reasoning_content": text});
    let answers = [vec![
        thought("Let me "),
        thought("Let me "),
        thought("see."),
        thought("see."),
        call(0, "c1", "a"),
    ]];
    let (double, server) = Double::start(check, answers.clone()).await;
    let model = OpenAi::compatible(server.url(), "grok-4.5").dialect(Dialect::xai());
    let agent = AgentBuilder::new(model).tool(echo()).build().unwrap();
    agent.run("Go").await.unwrap();
    assert!(double.refusals().is_empty(), "{:?}", double.refusals());
    let body = server.requests().pop().unwrap().json();
    assert_eq!(body["messages"][1]["reasoning_content"], "Let me see.");

    // Pieces that other servers repeat are kept, because they may be intended.
    for (dialect, count) in [(Dialect::xai(), 2), (Dialect::compatible(), 4)] {
        let (_, server) = Double::start(check, answers.clone()).await;
        let model = OpenAi::compatible(server.url(), "grok-4.5").dialect(dialect);
        let stream = model.stream(ModelRequest::new("Go")).await.unwrap();
        let is_thought = |event: &ModelEvent| matches!(event, ModelEvent::Thinking(_));
        let events: Vec<_> = stream.map(Result::unwrap).collect().await;
        assert_eq!(
            events.iter().filter(|event| is_thought(event)).count(),
            count
        );
    }
}
