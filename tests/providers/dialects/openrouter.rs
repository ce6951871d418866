//! Conversations with a strict OpenRouter.

use agentcore::message::ProviderBlock;
use agentcore::providers::OpenAi;
use agentcore::providers::openai::Dialect;
use agentcore::testing::FaultServer;
use agentcore::{AgentBuilder, Message, Messages, Model, ModelRequest, Part};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::kit::doubles::chat::{Double, call, document, text_of};
use crate::kit::doubles::openrouter::{check, check_body, encrypted, signature, thought};
use crate::kit::echo;

fn model(server: &FaultServer) -> OpenAi {
    OpenAi::compatible(server.url(), "m").dialect(Dialect::openrouter())
}

fn thinking_of(message: &Message) -> Vec<Value> {
    let parts = message.content().parts().iter();
    let blocks = parts.filter_map(|part| match part {
        Part::Thinking(block) => Some(serde_json::from_str(block.raw.get()).unwrap()),
        _ => None,
    });
    blocks.collect()
}

#[test]
fn double_refuses_what_the_server_refuses() {
    let answers = [vec![
        thought(0, "a"),
        thought(0, "b"),
        signature(0, "s"),
        encrypted(1, "e"),
        call(0, "c1", "x"),
    ]];
    let first = json!({"type": "reasoning.text", "text": "ab", "signature": "s", "index": 0,
        "format": "anthropic-claude-v1"});
    let second = &answers[0][3]["reasoning_details"][0];
    let refusal = |details: Value| {
        let calls = &answers[0][4]["tool_calls"];
        let answer =
            json!({"role": "assistant", "tool_calls": calls, "reasoning_details": details});
        text_of(check_body(&json!({"messages": [answer]}), &answers))
    };
    assert_eq!(refusal(json!([first, second])), "");
    assert!(refusal(json!([])).contains("must start with a thinking block"));
    assert!(refusal(json!([second, first])).contains("out of order"));
    let mut shorter = first;
    shorter["text"] = "a".into();
    assert!(refusal(json!([shorter, second])).contains("Invalid `signature`"));
}

#[tokio::test]
async fn streamed_details_go_back_as_whole_entries() {
    let (double, server) = Double::start(
        check,
        [
            vec![
                thought(0, "Let me "),
                thought(0, "see."),
                signature(0, "c2ln"),
                encrypted(1, "rs_1"),
                call(0, "c1", "a"),
            ],
            vec![
                thought(0, "More."),
                json!({"content": "Done."}),
                signature(0, "bGF0ZQ=="),
            ],
        ],
    )
    .await;
    let agent = AgentBuilder::new(model(&server))
        .tool(echo())
        .build()
        .unwrap();
    let (output, messages) = double.converse(&agent, &server).await;
    assert_eq!(output.text, "Done.");
    let first = json!({"type": "reasoning.text", "text": "Let me see.", "signature": "c2ln",
        "format": "anthropic-claude-v1", "index": 0});
    assert_eq!(messages[1]["reasoning_details"][0], first, "{messages:?}");
    assert_eq!(messages[1].get("reasoning"), None);
    // The signature arrived after the text of the answer.
    let details = messages[3]["reasoning_details"].as_array().unwrap();
    assert_eq!(details.len(), 1);
    assert_eq!(details[0]["signature"], "bGF0ZQ==");
}

#[tokio::test]
async fn entries_of_a_whole_answer_stay_as_they_are() {
    let entry = json!({"type": "reasoning.text", "text": "a", "index": 0, "unknown": {"n": 1.50}});
    let message = json!({"content": "ok", "reasoning": "aa", "reasoning_details": [entry, entry]});
    let server = FaultServer::start().await.unwrap();
    server.reply(document(&message));
    let response = model(&server).call(ModelRequest::new("Hi")).await.unwrap();
    let message = Message::from(response.message());
    assert_eq!(
        thinking_of(&message),
        [json!({"reasoning_details": [entry, entry]})]
    );
}

#[tokio::test]
async fn details_are_shown_as_thinking() {
    use agentcore::model::ModelEvent;
    use futures::StreamExt;

    let summary = json!({"reasoning_details": [
        {"type": "reasoning.summary", "summary": "Short.", "index": 0},
        {"type": "reasoning.encrypted", "data": "x", "index": 0},
        7,
    ]});
    let both = thought(1, "Once.");
    let (_, server) = Double::start(check, [vec![summary, both, json!({"content": "ok"})]]).await;
    let stream = model(&server)
        .stream(ModelRequest::new("Hi"))
        .await
        .unwrap();
    let events: Vec<_> = stream.map(Result::unwrap).collect().await;
    let thoughts = events.iter().filter_map(|event| match event {
        ModelEvent::Thinking(text) => Some(&**text),
        _ => None,
    });
    assert_eq!(thoughts.collect::<Vec<_>>(), ["Short.", "Once."]);
}

#[tokio::test]
async fn details_reach_no_other_server() {
    let raw = r#"{"reasoning_details":[{"type":"reasoning.text","text":"canary"}]}"#;
    let block = ProviderBlock::new("openrouter", RawValue::from_string(raw.into()).unwrap());
    let history = Messages::from("Hi")
        .with(Message::ai([Part::Thinking(block), Part::text("Hello.")]))
        .human("And?");
    for (dialect, is_own) in [
        (Dialect::openrouter(), true),
        (Dialect::compatible(), false),
        (Dialect::groq(), false),
    ] {
        let (_, server) = Double::start(|_, _| Ok(()), []).await;
        let model = OpenAi::compatible(server.url(), "m").dialect(dialect);
        model
            .call(ModelRequest::new(history.clone()))
            .await
            .unwrap();
        let body = server.requests().pop().unwrap().json().to_string();
        assert_eq!(body.contains("canary"), is_own, "{dialect:?}: {body}");
    }
}
