//! Conversations with a strict Mistral.

use agentcore::message::{Media, ProviderBlock};
use agentcore::providers::OpenAi;
use agentcore::providers::openai::Dialect;
use agentcore::testing::FaultServer;
use agentcore::{
    AgentBuilder, ErrorKind, FuncTool, Message, Messages, Model, ModelRequest, Part, ToolCall,
    ToolOutput,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::kit::doubles::chat::{Double, call, document, text_of};
use crate::kit::doubles::mistral::{check, check_body, thinking};
use crate::kit::{any_object, echo};

fn model(server: &FaultServer) -> OpenAi {
    OpenAi::compatible(server.url(), "m").dialect(Dialect::mistral())
}

/// Returns the second chunk of the content that is sent, or the text of the error before sending.
async fn sent(name: &str, part: Part) -> Result<Value, String> {
    let (double, server) = Double::start(check, []).await;
    let model = OpenAi::compatible(server.url(), name).dialect(Dialect::mistral());
    let input = Message::human([Part::text("Look:"), part]);
    let request = ModelRequest::new(Messages::new().with(input));
    match model.call(request).await {
        Ok(_) => {
            let body = server.requests().remove(0).json();
            Ok(body["messages"][0]["content"][1].clone())
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{error}");
            assert!(double.refusals().is_empty(), "{:?}", double.refusals());
            Err(error.text().to_owned())
        }
    }
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
    let document = |url: &str| {
        let chunk = json!({"type": "document_url", "document_url": url});
        with(&user, "content", json!([chunk]))
    };
    let recording = |audio: Value| {
        let chunk = json!({"type": "input_audio", "input_audio": audio});
        with(&user, "content", json!([chunk]))
    };
    for (messages, text) in [
        (json!([user, thought, result]), "extra_forbidden"),
        (json!([file]), "extra_forbidden"),
        (json!([document("http://x/a.pdf")]), "could not be fetched"),
        (
            json!([document("data:text/csv;base64,YQ==")]),
            "could not be fetched",
        ),
        (
            json!([recording(json!("d2F2"))]),
            "not enabled for this model",
        ),
        (
            json!([recording(json!({"data": "d2F2"}))]),
            "extra_forbidden",
        ),
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
    let mut chunk = thinking("Let me see.");
    chunk["signature"] = "c2ln".into();
    chunk["closed"] = true.into();
    assert_eq!(
        messages[1]["content"],
        json!([chunk, {"type": "text", "text": "One moment."}])
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

#[tokio::test]
async fn documents_are_sent_by_their_address() {
    let named = || Media::url("https://x/a.pdf").with_name("a.pdf");
    let address = json!({"type": "document_url", "document_url": "https://x/a.pdf",
        "document_name": "a.pdf"});
    assert_eq!(sent("m", Part::Document(named())).await, Ok(address));
    let data = json!({"type": "document_url",
        "document_url": "data:application/pdf;base64,cGRm"});
    for kind in ["application/pdf", ""] {
        let document = Part::Document(Media::bytes(kind, b"pdf"));
        assert_eq!(sent("m", document).await, Ok(data.clone()));
    }

    let table = Part::Document(Media::bytes("application/vnd.ms-excel", b"x"));
    let text = sent("m", table).await.unwrap_err();
    assert!(
        text.contains("document in this form (application/vnd.ms-excel)"),
        "{text}"
    );
    let file = Part::Document(Media::file("openai", "file-1"));
    let text = sent("m", file).await.unwrap_err();
    assert!(
        text.contains("document in this form (a file of openai)"),
        "{text}"
    );
}

#[tokio::test]
async fn recordings_are_sent_to_models_that_hear() {
    let recording = || Part::Audio(Media::bytes("audio/ogg", b"ogg"));
    let chunk = |audio: &str| json!({"type": "input_audio", "input_audio": audio});
    let name = "voxtral-small-latest";
    assert_eq!(sent(name, recording()).await, Ok(chunk("b2dn")));
    let address = Part::Audio(Media::url("https://x/a.mp3"));
    assert_eq!(sent(name, address).await, Ok(chunk("https://x/a.mp3")));

    let text = sent("mistral-large-latest", recording()).await.unwrap_err();
    assert!(
        text.contains("mistral-large-latest takes no audio"),
        "{text}"
    );
}

#[tokio::test]
async fn request_for_another_model_has_the_media_that_it_takes() {
    let (double, server) = Double::start(check, []).await;
    let history = Messages::new()
        .with(Message::human([
            Part::text("Listen:"),
            Part::Audio(Media::bytes("audio/wav", b"wav")),
        ]))
        .with(Message::ai("Yes."))
        .human("And?");
    for (name, is_heard) in [
        ("voxtral-mini-latest", true),
        ("mistral-small-latest", false),
    ] {
        let mut request = ModelRequest::new(history.clone());
        request.model = Some(name.into());
        model(&server).call(request).await.unwrap();
        let body = server.requests().pop().unwrap().json().to_string();
        assert_eq!(body.contains("input_audio"), is_heard, "{body}");
        assert_eq!(body.contains("[audio]"), !is_heard, "{body}");
    }
    assert!(double.refusals().is_empty(), "{:?}", double.refusals());
}
