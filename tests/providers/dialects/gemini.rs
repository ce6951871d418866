//! Conversations with a strict Gemini server for Chat Completions.

use agentcore::providers::OpenAi;
use agentcore::providers::openai::Dialect;
use agentcore::testing::FaultServer;
use agentcore::{AgentBuilder, Messages, Model, ModelRequest, ToolCall};
use serde_json::{Value, json};

use crate::kit::doubles::chat::{Double, document, text_of};
use crate::kit::doubles::gemini::PLACEHOLDER;
use crate::kit::doubles::gemini_chat::{call, check, check_body, signed};
use crate::kit::echo;

fn model(server: &FaultServer) -> OpenAi {
    OpenAi::compatible(server.url(), "gemini-3.8-flash").dialect(Dialect::gemini())
}

#[test]
fn double_refuses_what_the_server_refuses() {
    let answers = [vec![call("c1", "a", "c2ln")]];
    let calls = answers[0][0]["tool_calls"].clone();
    let refusal = |messages: Value| text_of(check_body(&json!({"messages": messages}), &answers));
    let answer = |calls: Value| json!({"role": "assistant", "tool_calls": calls});
    assert_eq!(refusal(json!([answer(calls.clone())])), "");

    let mut unsigned = calls.clone();
    unsigned[0].as_object_mut().unwrap().remove("extra_content");
    assert!(refusal(json!([answer(unsigned)])).contains("is missing a thought_signature"));
    let mut foreign = calls.clone();
    foreign[0]["extra_content"] = signed("eA==");
    assert!(refusal(json!([answer(foreign.clone())])).contains("Corrupted"));
    foreign[0]["extra_content"] = signed(PLACEHOLDER);
    assert_eq!(refusal(json!([answer(foreign)])), "");
    let nameless = json!({"role": "tool", "tool_call_id": "c1", "content": "ok"});
    assert!(refusal(json!([nameless])).contains("invalid argument"));
    let seeded = json!({"messages": [], "seed": 7});
    assert!(text_of(check_body(&seeded, &[])).contains("Unknown name \\\"seed\\\""));
}

#[tokio::test]
async fn signatures_of_calls_and_texts_go_back() {
    let text = |text: &str| json!({"content": text});
    let mut end = text("");
    end["extra_content"] = signed("dGV4dA==");
    let (double, server) = Double::start(
        check,
        [
            vec![call("c1", "a", "c2ln"), call("c2", "b", "")],
            vec![call("c1", "c", "bW9yZQ==")],
            vec![text("Do"), text("ne."), end],
        ],
    )
    .await;
    let agent = AgentBuilder::new(model(&server))
        .tool(echo())
        .build()
        .unwrap();
    let (output, messages) = double.converse(&agent, &server).await;
    assert_eq!(output.text, "Done.");
    let calls = messages[1]["tool_calls"].as_array().unwrap();
    assert_eq!(calls[0]["extra_content"], signed("c2ln"));
    assert_eq!(calls[1].get("extra_content"), None);
    assert_eq!(
        messages[4]["tool_calls"][0]["extra_content"],
        signed("bW9yZQ==")
    );
    assert_eq!(messages[6]["extra_content"], signed("dGV4dA=="));
}

#[tokio::test]
async fn signatures_of_a_whole_answer_go_back() {
    let mut message = call("c1", "a", "c2ln");
    message["content"] = "Look.".into();
    message["extra_content"] = signed("dGV4dA==");
    let server = FaultServer::start().await.unwrap();
    server.reply(document(&message));
    server.openai_text("ok");
    let agent = AgentBuilder::new(model(&server))
        .tool(echo())
        .build()
        .unwrap();
    agent.run("Go").await.unwrap();
    let body = server.requests().pop().unwrap().json();
    let answer = &body["messages"][1];
    assert_eq!(answer["extra_content"], signed("dGV4dA=="));
    assert_eq!(answer["tool_calls"][0]["extra_content"], signed("c2ln"));
}

#[tokio::test]
async fn calls_of_other_models_have_the_placeholder() {
    let history = Messages::from("Hi")
        .ai_calling(
            "",
            [
                ToolCall::new("c1", "t", json!({})),
                ToolCall::new("c2", "t", json!({})),
            ],
        )
        .tool("c1", "t", "1")
        .tool("c2", "t", "2");
    for (name, first) in [
        ("gemini-3.8-flash", signed(PLACEHOLDER)),
        ("gemini-2.5-flash", json!(null)),
    ] {
        let server = FaultServer::start().await.unwrap();
        server.openai_text("ok");
        let model = OpenAi::compatible(server.url(), name).dialect(Dialect::gemini());
        model
            .call(ModelRequest::new(history.clone()))
            .await
            .unwrap();
        let body = server.requests().remove(0).json();
        let calls = &body["messages"][1]["tool_calls"];
        assert_eq!(calls[0]["extra_content"], first, "{name}");
        assert_eq!(calls[1].get("extra_content"), None, "{name}");
    }
}

#[tokio::test]
async fn fields_of_calls_reach_no_other_server() {
    let mut message = call("c1", "a", "c2FuYXJ5");
    message["extra_content"] = signed("c2FuYXJ5");
    let server = FaultServer::start().await.unwrap();
    server.reply(document(&message));
    let answer = model(&server).call(ModelRequest::new("Go")).await.unwrap();
    let history = Messages::from("Go")
        .with(agentcore::Message::from(answer.message()))
        .tool("c1", "echo", "a");
    for (dialect, is_own) in [
        (Dialect::gemini(), true),
        (Dialect::openai(), false),
        (Dialect::mistral(), false),
        (Dialect::vllm(), false),
    ] {
        let server = FaultServer::start().await.unwrap();
        server.openai_text("ok");
        let model = OpenAi::compatible(server.url(), "m").dialect(dialect);
        model
            .call(ModelRequest::new(history.clone()))
            .await
            .unwrap();
        let body = server.requests().remove(0).json().to_string();
        assert_eq!(body.contains("c2FuYXJ5"), is_own, "{dialect:?}: {body}");
    }
}

#[tokio::test]
async fn thoughts_are_emitted_as_thinking() {
    use agentcore::model::ModelEvent;
    use futures::StreamExt;

    let thought = json!({"content": "Hm.", "extra_content": {"google": {"thought": true}}});
    let (_, server) = Double::start(check, [vec![thought, json!({"content": "Yes."})]]).await;
    let stream = model(&server)
        .stream(ModelRequest::new("Go"))
        .await
        .unwrap();
    let events: Vec<_> = stream.map(Result::unwrap).collect().await;
    assert!(events.contains(&ModelEvent::Thinking("Hm.".to_owned())));
    let is_text = |event: &&ModelEvent| matches!(event, ModelEvent::Text(_));
    let texts: Vec<_> = events.iter().filter(is_text).collect();
    assert_eq!(texts, [&ModelEvent::Text("Yes.".to_owned())]);
}
