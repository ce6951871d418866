//! The end of the server.

use std::time::Duration;

use agentcore::server::{OnDisconnect, Server};
use agentcore::{AgentBuilder, FuncTool, SessionStore, ThreadStore};
use serde_json::json;

use crate::agents::{AskAlways, Gate, caller, echo, input_in};
use crate::http::TestServer;

fn asking() -> AgentBuilder {
    let tool = FuncTool::new("act", "Acts", json!({"type": "object"}), |_, _| async {
        "acted"
    });
    caller("act", json!({})).tool(tool).permissions(AskAlways)
}

#[tokio::test]
async fn shutdown_interrupts_runs_leaves_questions_pending_and_ends_streams() {
    let (mut gate, tool) = Gate::new();
    let store = ThreadStore::new();
    let server = Server::new()
        .agent("default", caller("wait", json!({})).tool(tool))
        .agent("asking", asking())
        .store(store.clone())
        .ask_wait(Duration::from_secs(3_600));
    let server = TestServer::start(server).await;
    let running = server
        .post("/agents/stream", input_in("th_1", "Go"))
        .open()
        .await;
    gate.begun().await;
    let mut waiting = server
        .post("/agents/asking/stream", input_in("th_2", "Go"))
        .open()
        .await;
    waiting.until("on_permission_request").await;
    let events = server.get("/agents/events").open().await;

    server.stop().await;
    assert_eq!(running.events().await.last().unwrap().event, "error");
    assert_eq!(waiting.events().await.last().unwrap().event, "done");
    events.events().await;
    let state = store.load("th_1").await.unwrap().unwrap().state;
    assert!(state.messages.validate_for_model().is_ok());
    let state = store.load("th_2").await.unwrap().unwrap().state;
    assert_eq!(state.pending.len(), 1);
}

#[tokio::test]
async fn request_during_the_shutdown_is_a_503() {
    let server = TestServer::start(Server::new().agent("default", echo())).await;
    server.handle.shutdown(Duration::from_secs(1)).await;
    for path in ["/agents/", "/healthz"] {
        let reply = server.get(path).send().await;
        assert!(reply.error(503).contains("shutting down"));
        assert_eq!(reply.header("retry-after"), Some("1"));
    }
}

#[tokio::test]
async fn shutdown_of_an_idle_server_ends_its_connections() {
    let server = TestServer::start(Server::new().agent("default", echo())).await;
    let idle = tokio::net::TcpStream::connect(server.address)
        .await
        .unwrap();
    server.get("/healthz").send().await.ok(200);
    server.stop().await;
    drop(idle);
}

#[tokio::test]
async fn run_whose_reader_stays_is_not_interrupted() {
    let (mut gate, tool) = Gate::new();
    let server = Server::new()
        .agent("default", caller("wait", json!({})).tool(tool))
        .on_disconnect(OnDisconnect::Interrupt);
    let server = TestServer::start(server).await;
    let stream = server
        .post("/agents/stream", input_in("th", "Go"))
        .open()
        .await;
    gate.begun().await;
    gate.open();
    assert_eq!(stream.events().await.last().unwrap().event, "done");
}

#[tokio::test]
async fn address_that_is_taken_is_an_error_that_names_it() {
    let server = TestServer::start(Server::new().agent("default", echo())).await;
    let second = Server::new()
        .agent("default", echo())
        .port(server.address.port());
    let error = second.listen().await.unwrap_err();
    assert!(
        error.to_string().contains(&server.address.to_string()),
        "{error}"
    );
}

#[tokio::test]
async fn router_without_a_token_or_with_an_invalid_id_is_an_error() {
    let error = Server::new().agent("default", echo()).router().unwrap_err();
    assert!(error.to_string().contains("Server::token"), "{error}");
    let server = Server::new()
        .token("a token")
        .agent("default", echo())
        .agent("stream", echo());
    assert!(
        server
            .router()
            .unwrap_err()
            .to_string()
            .contains("\"stream\"")
    );
    let server = Server::new()
        .token("a token")
        .agent("default", echo())
        .agent("default", echo());
    assert!(
        server
            .router()
            .unwrap_err()
            .to_string()
            .contains("\"default\"")
    );
}
