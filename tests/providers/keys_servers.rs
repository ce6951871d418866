//! Servers that repeat a key in any spelling, and addresses and headers that contain one.

use std::fmt::Write as _;

use agentcore::agent::RetryPolicy;
use agentcore::hooks::TracingHook;
use agentcore::providers::{Anthropic, Ollama, OpenAi, OpenAiResponses};
use agentcore::testing::{FaultServer, Reply};
use agentcore::trace::MemoryRecorder;
use agentcore::{AgentBuilder, HttpTool, Model, ModelRequest, Tool, ToolContext};
use serde_json::{Value, json};

use crate::kit::keys::{Logged, assert_no_leak, listen, printed, spellings};
use crate::kit::{any_object, watch};

/// Returns everything that a run on `model` emits, logs, returns and stores.
async fn everything(model: impl Model) -> String {
    let logged = Logged::default();
    let _listening = listen(logged.clone());
    let recorder = MemoryRecorder::new();
    let agent = AgentBuilder::new(model)
        .include_partial_messages(true)
        .retry(RetryPolicy::default().with_max_retries(1))
        .hook(TracingHook::new().with_content(true))
        .trace_recorder(recorder.clone())
        .build()
        .unwrap();
    let (messages, output) = watch(agent.session("s").run("Hi")).await;
    let mut all = serde_json::to_string(&messages).unwrap();
    match output {
        Ok(output) => write!(all, "{output:?}").unwrap(),
        Err(error) => {
            let id = error.request_id().unwrap_or_default();
            write!(all, "{id}{}", printed(&error)).unwrap();
        }
    }

    let state = agent.session("s").state().await.unwrap();
    all.push_str(&serde_json::to_string(&state).unwrap());
    write!(all, "{:?}{}", recorder.spans(), logged.text()).unwrap();
    all
}

fn refusals(echo: &str) -> Vec<Reply> {
    let in_header = echo.replace(['\n', '\r'], "");
    let body = json!({"error": {"type": echo, "code": echo, "message": format!("no: {echo}")}, "request_id": echo});
    let details =
        json!([{"reason": echo}, {"fieldViolations": [{"field": echo, "description": echo}]}]);
    let google =
        json!([{"error": {"code": 400, "status": echo, "message": "no", "details": details}}]);
    vec![
        Reply::json(400, google.to_string()),
        Reply::json(401, body.to_string()).header("request-id", in_header.clone()),
        Reply::json(400, format!("plain {echo}")).header("x-request-id", in_header),
        Reply::json(529, body.to_string()),
        Reply::sse([format!("event: error\ndata: {body}\n\n")]),
        Reply::ndjson([format!("{body}\n")]),
    ]
}

#[tokio::test]
async fn key_echoed_by_a_server_in_any_spelling_is_redacted() {
    let key = "k-server/0123456789+abc";
    for (name, echo) in spellings(key).into_iter().step_by(5) {
        for reply in refusals(&echo) {
            let server = FaultServer::start().await.unwrap();
            server.fallback(reply);
            let texts = [
                everything(Anthropic::new("claude-sonnet-4-5", key).base_url(server.url())).await,
                everything(OpenAi::new("gpt-4o", key).base_url(server.url())).await,
                everything(Ollama::new("llama3").key(key).base_url(server.url())).await,
            ];
            for text in &texts {
                assert_no_leak(text, key, &name);
            }
        }
    }
}

#[tokio::test]
async fn request_id_of_an_answer_is_redacted_and_cut() {
    let key = "k-reqid-0123456789";
    let server = FaultServer::start().await.unwrap();
    let answer = json!({"id": key, "model": key, "choices": [{"index": 0, "message": {"content": "ok"}, "finish_reason": "stop"}]});
    let id = format!("{key}{}", "x".repeat(5_000));
    server.fallback(Reply::json(200, answer.to_string()).header("x-request-id", id));
    let agent = AgentBuilder::new(OpenAi::new("gpt-4o", key).base_url(server.url()))
        .build()
        .unwrap();
    let (messages, output) = watch(agent.run("Hi")).await;
    assert_eq!(output.unwrap().text, "ok");
    let all = serde_json::to_string(&messages).unwrap();
    assert_no_leak(&all, key, "request id");
    assert!(all.contains("[redacted]xxx"), "{all}");
    assert!(!all.contains(&"x".repeat(200)), "{all}");
}

#[tokio::test]
async fn long_error_that_cuts_a_key_shows_no_part_of_it() {
    let key = "k-cut-0123456789-abcdefghijklmnop";
    for len in 960..1_010 {
        let server = FaultServer::start().await.unwrap();
        server.fallback(Reply::json(400, format!("{}{key}", "x".repeat(len))));
        let texts = everything(OpenAi::new("gpt-4o", key).base_url(server.url())).await;
        assert_no_leak(&texts, key, &format!("after {len}"));
    }
}

#[tokio::test]
async fn secrets_in_addresses_and_headers_are_redacted() {
    let (user, cookie, own, basic) = (
        "p%40ss-0123456789",
        "cookie-0123456789",
        "own-0123456789",
        "basic-0123456789",
    );
    let server = FaultServer::start().await.unwrap();
    let echo =
        format!("{user} p@ss-0123456789 {cookie} {own} {basic} Basic dXNlcjpiYXNpYy0wMTIzNDU2Nzg5");
    server.fallback(Reply::json(400, echo));
    let url = server
        .url()
        .replace("http://", &format!("http://user:{user}@"));
    let model = OpenAi::compatible(&url, "m")
        .header("cookie", format!("sid={cookie}; theme=dark"))
        .header("x-own", own)
        .header("proxy-authorization", "Basic dXNlcjpiYXNpYy0wMTIzNDU2Nzg5");
    let texts = everything(model).await;
    for key in [user, "p@ss-0123456789", cookie, own, basic] {
        assert_no_leak(&texts, key, "echo");
    }
}

#[tokio::test]
async fn placeholder_key_of_a_local_server_leaves_its_errors_readable() {
    let server = FaultServer::start().await.unwrap();
    server.fallback(Reply::json(
        404,
        r#"{"error":"ollama: model \"m\" not found"}"#,
    ));
    let texts = everything(OpenAi::new("m", "ollama").base_url(server.url())).await;
    assert!(texts.contains("ollama: model"), "{texts}");
}

#[tokio::test]
async fn http_tool_shows_no_part_of_its_secrets() {
    let key = "k-callback-0123456789-abcdef";
    for (name, echo) in spellings(key) {
        let server = FaultServer::start().await.unwrap();
        let replies = [
            Reply::json(500, format!("{}{echo}", "x".repeat(1_990 - echo.len() / 2))),
            Reply::json(200, format!("{}{echo}", "x".repeat(495))),
            Reply::json(
                200,
                json!({"result": {"is": echo}, "error": null}).to_string(),
            ),
            Reply::json(200, json!({"error": echo}).to_string()),
        ];
        for reply in replies {
            server.fallback(reply);
            let tool = HttpTool::new("tool", "Says it", any_object(), &server.url()).unwrap();
            let tool = tool.header("x-callback", format!("id={key}")).unwrap();
            let text = match tool.execute(ToolContext::detached(), json!({})).await {
                Ok(output) => output.content.text().into_owned(),
                Err(error) => printed(&*error),
            };

            assert_no_leak(&text, key, &name);
        }
    }
}

#[tokio::test]
async fn credentials_of_an_address_are_redacted_as_they_are_sent() {
    const AUTHORIZATION: &str = "Basic dTpwdw==";
    let server = FaultServer::start().await.unwrap();
    server.fallback(Reply::json(403, format!("not with {AUTHORIZATION}")));
    let url = server.url().replace("://", "://u:pw@");
    let model = OpenAi::compatible(&url, "m");
    let error = model.call(ModelRequest::new("Hi")).await.unwrap_err();
    let tool = HttpTool::new("tool", "Says it", any_object(), &url).unwrap();
    let refusal = tool.execute(ToolContext::detached(), json!({})).await;
    for text in [printed(&error), printed(&*refusal.unwrap_err())] {
        assert!(text.contains("not with Basic [redacted]"), "{text}");
        assert!(!text.contains("dTpw"), "{text}");
    }
    assert_eq!(server.requests().len(), 2);
    for request in server.requests() {
        assert_eq!(request.header("authorization"), Some(AUTHORIZATION));
    }
}

/// A stream of the Responses API with these events.
fn responses_stream(events: &[Value]) -> Reply {
    Reply::sse(events.iter().map(|event| {
        let name = event["type"].as_str().unwrap();
        format!("event: {name}\ndata: {event}\n\n")
    }))
}

fn completed(item: &Value) -> Value {
    json!({"type": "response.completed", "response": {"id": "r", "model": "m",
        "status": "completed", "output": [item],
        "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}}})
}

/// The item is announced as reasoning and completed as a call, so that it becomes a block of the
/// provider.
#[tokio::test]
async fn key_escaped_in_json_within_a_block_is_not_kept() {
    let key = "k-pieces-Hw27RbKdu5Xq9eTz40LmGs";
    let _known = agentcore::Secret::new(key);
    let args = format!(r#"{{"text":"{}"}}"#, key.replace('-', "\\u002d"));
    let item = json!({"type": "function_call", "id": "f", "call_id": "f", "name": "echo",
        "arguments": args});
    let events = [
        json!({"type": "response.created", "response": {"id": "r", "model": "m",
            "status": "in_progress", "output": []}}),
        json!({"type": "response.output_item.added", "output_index": 0,
            "item": {"type": "reasoning", "id": "rs", "summary": []}}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
        completed(&item),
    ];
    let server = FaultServer::start().await.unwrap();
    server.reply(responses_stream(&events));
    let text = json!({"type": "message", "id": "t", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": "end", "annotations": []}]});
    server.fallback(responses_stream(&[completed(&text)]));
    let model = OpenAiResponses::compatible(server.url(), "m").context_window(8_000);
    let texts = everything(model).await;
    assert!(texts.contains("SecretInAnswer"), "{texts}");
    assert!(!texts.contains("Hw27RbKdu5Xq9eTz40Lm"), "{texts}");
}
