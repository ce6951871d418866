//! Several tokio runtimes in one process: a pooled connection of one does not block another.

use std::time::Duration;

use agentcore::providers::OpenAi;
use agentcore::testing::fault_server::Framing;
use agentcore::testing::{FaultServer, Reply};
use agentcore::{HttpTool, Model, ModelRequest, Tool, ToolContext};
use serde_json::json;
use tokio::runtime::{Builder, Runtime};

fn single() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// A server with a runtime of its own, which runs independently of the others.
fn server() -> (Runtime, FaultServer) {
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let server = runtime.block_on(FaultServer::start()).unwrap();
    (runtime, server)
}

/// An answer whose end arrives with its last event. The thread of the server may pause between two
/// writes for longer than a client waits before it reuses the connection.
fn answer() -> Reply {
    let answer = Reply::openai_text("ok").framing(Framing::ContentLength);
    answer.split_at([])
}

/// Calls the model, and lets the connection return to the pool.
async fn ask(model: &OpenAi) -> String {
    let answer = model.call(ModelRequest::new("Hi")).await.unwrap();
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    answer.text().into_owned()
}

#[test]
fn model_works_after_its_first_runtime_has_ended() {
    let (_runtime, server) = server();
    let model = OpenAi::compatible(server.url(), "m").idle_timeout(Duration::from_secs(60));
    for times in 1..=3 {
        server.openai_text("ok");
        assert_eq!(single().block_on(ask(&model)), "ok");
        assert_eq!(
            server.connections(),
            times,
            "each runtime has a connection of its own"
        );
    }
}

#[test]
fn idle_runtime_does_not_block_another() {
    let (_runtime, server) = server();
    let (first, second) = (single(), single());
    // Models with the same connect timeout share a client; no other test has this one.
    for connect_timeout in [None, Some(Duration::from_secs(7))] {
        let before = server.connections();
        let mut model = OpenAi::compatible(server.url(), "m").idle_timeout(Duration::from_secs(60));
        if let Some(timeout) = connect_timeout {
            model = model.connect_timeout(timeout);
        }

        for runtime in [&first, &second, &first, &second] {
            server.reply(answer());
            assert_eq!(runtime.block_on(ask(&model)), "ok");
        }

        assert_eq!(
            server.connections() - before,
            2,
            "each runtime has one connection"
        );
    }
}

#[test]
fn http_tool_works_in_several_runtimes() {
    let (_runtime, server) = server();
    let tool = HttpTool::new(
        "far",
        "Is elsewhere",
        json!({"type": "object"}),
        &server.url(),
    )
    .unwrap()
    .timeout(Duration::from_secs(60));
    let (first, second) = (single(), single());
    for runtime in [&first, &second, &first, &second] {
        server.reply(Reply::json(200, r#"{"result":"ok"}"#));
        let output = runtime.block_on(async {
            let output = tool.execute(ToolContext::detached(), json!({})).await;
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }

            output
        });

        assert_eq!(output.unwrap().content.text(), "ok");
    }

    assert_eq!(server.connections(), 2);
}

#[cfg(feature = "web")]
#[test]
fn search_service_works_in_several_runtimes() {
    use agentcore::tools::web::{SearchProvider, Tavily};

    let (_runtime, server) = server();
    let tavily = Tavily::new("tvly-canary-0123456789")
        .base_url(&server.url())
        .unwrap()
        .timeout(Duration::from_secs(60));
    let (first, second) = (single(), single());
    for runtime in [&first, &second, &first, &second] {
        server.reply(Reply::json(200, r#"{"answer":"ok","results":[]}"#));
        let results = runtime.block_on(async {
            let results = tavily.search("x", 1).await;
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }

            results
        });

        assert_eq!(results.unwrap().answer.as_deref(), Some("ok"));
    }

    assert_eq!(server.connections(), 2);
}
