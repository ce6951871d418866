//! Conversations with a strict Groq.

use agentcore::providers::OpenAi;
use agentcore::providers::openai::Dialect;
use agentcore::testing::{FaultServer, Reply};
use agentcore::{AgentBuilder, ErrorKind, Model, ModelRequest};
use serde_json::json;

use crate::kit::doubles::chat::{Double, call, stream, text_of};
use crate::kit::doubles::groq::{check, check_body, tool_use_failed, tool_use_failed_in_stream};
use crate::kit::echo;

fn model(server: &FaultServer) -> OpenAi {
    OpenAi::compatible(server.url(), "openai/gpt-oss-20b").dialect(Dialect::groq())
}

#[test]
fn double_refuses_what_the_server_refuses() {
    let refusal = |body| text_of(check_body(&body));
    let answer = json!({"role": "assistant", "content": "ok", "reasoning": "hm"});
    assert_eq!(refusal(json!({"model": "m", "messages": [answer]})), "");
    let foreign = json!({"role": "assistant", "reasoning_content": "hm"});
    let text = refusal(json!({"model": "m", "messages": [foreign]}));
    assert!(
        text.contains("property 'reasoning_content' is unsupported"),
        "{text}"
    );
    let audio = json!({"role": "user", "content": [{"type": "input_audio"}]});
    assert!(refusal(json!({"model": "m", "messages": [audio]})).contains("unknown type"));
    for (model, effort) in [("openai/gpt-oss-20b", "none"), ("qwen/qwen3-32b", "low")] {
        let body = json!({"model": model, "messages": [], "reasoning_effort": effort});
        assert!(refusal(body).contains("must be one of"));
    }
    assert!(refusal(json!({"model": "m", "messages": [], "top_k": 1})).contains("top_k"));
}

#[tokio::test]
async fn own_reasoning_goes_back_and_is_accepted() {
    let (double, server) = Double::start(
        check,
        [vec![
            json!({"reasoning": "Let me see."}),
            call(0, "c1", "a"),
        ]],
    )
    .await;
    let agent = AgentBuilder::new(model(&server))
        .tool(echo())
        .build()
        .unwrap();
    agent.run("Go").await.unwrap();
    assert!(double.refusals().is_empty(), "{:?}", double.refusals());
    let body = server.requests().pop().unwrap().json();
    assert_eq!(body["messages"][1]["reasoning"], "Let me see.");
}

#[tokio::test]
async fn broken_call_is_an_error_that_shows_it_and_may_be_retried() {
    let replies = [
        Reply::json(400, tool_use_failed().to_string()),
        tool_use_failed_in_stream(),
    ];
    for reply in replies {
        let server = FaultServer::start().await.unwrap();
        server.reply(reply);
        let error = model(&server)
            .call(ModelRequest::new("Go"))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Server, "{error}");
        assert!(error.is_retryable());
        for part in [
            "Failed to call a function",
            "the model wrote: <function=echo>",
        ] {
            assert!(error.text().contains(part), "{error}");
        }
    }
}

#[tokio::test]
async fn run_repeats_the_request_after_a_malformed_call() {
    let server = FaultServer::start().await.unwrap();
    server.reply(Reply::json(400, tool_use_failed().to_string()));
    server.reply(stream(&[call(0, "c1", "a")]));
    server.reply(tool_use_failed_in_stream());
    server.openai_text("Done.");
    tokio::time::pause();
    let agent = AgentBuilder::new(model(&server))
        .tool(echo())
        .build()
        .unwrap();
    assert_eq!(agent.run("Go").await.unwrap().text, "Done.");
    assert_eq!(server.requests().len(), 4);
}
