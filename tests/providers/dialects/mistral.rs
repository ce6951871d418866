//! Conversations with a strict Mistral.

use agentcore::message::{Media, ProviderBlock};
use agentcore::providers::OpenAi;
use agentcore::providers::openai::Dialect;
use agentcore::testing::FaultServer;
use agentcore::{
    AgentBuilder, FuncTool, Message, Messages, Model, ModelRequest, Part, ToolCall, ToolOutput,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::kit::doubles::chat::{Double, call, document, text_of};
use crate::kit::doubles::mistral::{check, check_body, thinking};
use crate::kit::{any_object, echo};

fn model(server: &FaultServer) -> OpenAi {
    OpenAi::compatible(server.url(), "m").dialect(Dialect::mistral())
}

fn chunks(list: &Value) -> Value {
    json!({"content": list})
}

#[test]
fn double_refuses_what_the_server_refuses() {
    let user = json!({"role": "user", "content": "Hi"});
    let calls = json!([{"id": "abcDEF123", "type": "function", "function": {}}]);
    let answer = json!({"role": "assistant", "content": null, "tool_calls": calls});
    let result = json!({"role": "tool", "content": "ok", "tool_call_id": "abcDEF123"});
    let system = json!({"role": "system", "content": "now"});
    let refusal = |messages: Value| text_of(check_body(&json!({"messages": messages})));
    assert_eq!(refusal(json!([system, user, answer, result])), "");

    let with = |object: &Value, name: &str, value: Value| {
        let mut object = object.clone();
        object[name] = value;
        object
    };
    let thought = with(&answer, "reasoning_content", "hm".into());
    let long_id = with(&result, "tool_call_id", "call_1".into());
    let file = with(&user, "content", json!([{"type": "file", "file": {}}]));
    for (messages, text) in [
        (json!([user, thought, result]), "extra_forbidden"),
        (json!([file]), "extra_forbidden"),
        (json!([user, answer, long_id]), "with a length of 9"),
        (
            json!([user, answer, result, user]),
            "Unexpected role 'user' after role 'tool'",
        ),
        (
            json!([user, user]),
            "Unexpected role 'user' after role 'user'",
        ),
        (
            json!([user, system]),
            "Unexpected role 'system' after role 'user'",
        ),
        (json!([user, answer]), "Expected last role"),
        (json!([user, answer, result, result]), "Not the same number"),
    ] {
        assert!(
            refusal(messages.clone()).contains(text),
            "{text}: {messages}"
        );
    }
    let unknown = text_of(check_body(
        &json!({"messages": [user], "stream_options": {}}),
    ));
    assert!(unknown.contains("stream_options"), "{unknown}");
}

#[tokio::test]
async fn streamed_thinking_goes_back_in_the_content() {
    let signed = json!({"type": "thinking", "thinking": [], "signature": "c2ln", "closed": true});
    let (double, server) = Double::start(
        check,
        [
            vec![
                chunks(&json!([thinking("Let me ")])),
                chunks(&json!([thinking("see.")])),
                chunks(&json!([signed, {"type": "text", "text": "One "}])),
                json!({"content": "moment."}),
                call(0, "abcDEF123", "a"),
            ],
            vec![chunks(&json!([thinking("Hm.")])), call(0, "abcDEF123", "b")],
            vec![json!({"content": "Done."})],
        ],
    )
    .await;
    let agent = AgentBuilder::new(model(&server))
        .tool(echo())
        .build()
        .unwrap();
    let (output, messages) = double.converse(&agent, &server).await;
    assert_eq!(output.text, "Done.");
    let mut whole = thinking("Let me see.");
    whole["signature"] = "c2ln".into();
    whole["closed"] = true.into();
    assert_eq!(
        messages[1]["content"],
        json!([whole, {"type": "text", "text": "One moment."}])
    );
    assert_eq!(messages[3]["content"], json!([thinking("Hm.")]));
    assert_ne!(
        messages[1]["tool_calls"][0]["id"],
        messages[3]["tool_calls"][0]["id"]
    );
    assert_eq!(messages[5]["content"], "Done.");
}

#[tokio::test]
async fn whole_answer_keeps_its_chunks() {
    let content = json!([
        thinking("First."),
        thinking("Second."),
        {"type": "text", "text": "Both."},
        {"type": "reference", "reference_ids": [1]},
    ]);
    let server = FaultServer::start().await.unwrap();
    server.reply(document(&json!({"content": content})));
    server.openai_text("ok");
    let answer = model(&server).call(ModelRequest::new("Hi")).await.unwrap();
    assert_eq!(answer.text(), "Both.");
    let history = Messages::from("Hi")
        .with(Message::from(answer.message()))
        .human("And?");
    model(&server)
        .call(ModelRequest::new(history))
        .await
        .unwrap();
    let body = server.requests().pop().unwrap().json();
    let expected = json!([content[0], content[1], content[2]]);
    assert_eq!(body["messages"][1]["content"], expected);
}

#[tokio::test]
async fn user_behind_results_follows_an_answer() {
    let (double, server) = Double::start(check, [vec![call(0, "abcDEF123", "a")]]).await;
    let picture = FuncTool::new("echo", "Shows it", any_object(), |_cx, _args| async {
        ToolOutput::new([
            Part::text("Seen."),
            Part::Image(Media::bytes("image/png", b"png")),
        ])
    });
    let agent = AgentBuilder::new(model(&server))
        .tool(picture)
        .build()
        .unwrap();
    agent.run("Go").await.unwrap();
    assert!(double.refusals().is_empty(), "{:?}", double.refusals());
    let body = server.requests().pop().unwrap().json();
    let messages = body["messages"].as_array().unwrap();
    let roles: Vec<_> = messages
        .iter()
        .map(|message| message["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["user", "assistant", "tool", "assistant", "user"]);
    assert_eq!(messages[3], json!({"role": "assistant", "content": "OK."}));
}

#[tokio::test]
async fn history_of_other_servers_is_accepted() {
    let block = |tag: &str, raw: &str| {
        Part::Thinking(ProviderBlock::new(
            tag,
            RawValue::from_string(raw.into()).unwrap(),
        ))
    };
    let history = Messages::from("Hi")
        .with(Message::ai([
            block("deepseek", r#"{"reasoning_content":"canary"}"#),
            block("mistral", r#"{"reasoning_content":"canary"}"#),
            block(
                "openai",
                r#"{"content":[{"type":"thinking","thinking":"canary"}]}"#,
            ),
            Part::ToolCall(ToolCall::new("toolu_012345", "t", json!({}))),
        ]))
        .tool("toolu_012345", "t", "seen")
        .with(Message::system("The user is back."))
        .human("And?")
        .with(Message::ai("Yes."))
        .with(Message::system("It is noon."))
        .human("And now?");
    let (double, server) = Double::start(check, []).await;
    let mut request = ModelRequest::new(history);
    request.settings.top_k = Some(5);
    request.settings.seed = Some(7);
    model(&server).call(request).await.unwrap();
    assert!(double.refusals().is_empty(), "{:?}", double.refusals());
    let body = server.requests().pop().unwrap().json();
    assert!(!body.to_string().contains("canary"), "{body}");
    let user = |text: &str| json!({"role": "user", "content": text});
    assert_eq!(
        body["messages"][4],
        user("<system>\nThe user is back.\n</system>\n\nAnd?")
    );
    assert_eq!(
        body["messages"][6],
        user("<system>\nIt is noon.\n</system>\n\nAnd now?")
    );
}
