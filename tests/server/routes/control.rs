//! The control of runs in progress.

use agentcore::server::Server;
use serde_json::json;

use crate::agents::{Gate, caller, echo, input_in, login};
use crate::http::{Response, TestServer};

async fn running() -> (TestServer, Gate, Response) {
    let (mut gate, tool) = Gate::new();
    let agent = caller("wait", json!({})).tool(tool);
    let server = TestServer::start(Server::new().agent("default", agent)).await;
    let stream = server
        .post("/agents/stream", input_in("th", "Go"))
        .open()
        .await;
    gate.begun().await;
    (server, gate, stream)
}

fn path(verb: &str) -> String {
    format!("/agents/default/threads/th/{verb}")
}

#[tokio::test]
async fn interrupt_ends_the_run() {
    let (server, _gate, stream) = running().await;
    let reply = server.request("POST", &path("interrupt")).send().await;
    assert_eq!((reply.status, reply.body.len()), (202, 0));
    assert_eq!(stream.events().await.last().unwrap().event, "error");
}

#[tokio::test]
async fn steer_adds_a_message_once() {
    let (server, gate, stream) = running().await;
    for _ in 0..2 {
        let body = json!({"content": "And quickly", "input_id": "in_2"});
        assert_eq!(server.post(&path("steer"), body).send().await.status, 202);
    }
    gate.open();
    drop(stream);
    let events = server.get(&path("events")).open().await;
    // The agent calls the tool again after the new message.
    gate.open();
    events.events().await;
    let thread = server
        .get("/agents/default/threads/th")
        .send()
        .await
        .ok(200);
    let steered = thread["messages"].as_array().unwrap().iter();
    assert_eq!(
        steered
            .filter(|message| message["content"] == "And quickly")
            .count(),
        1
    );
    server
        .post(&path("steer"), json!({"content": "late"}))
        .send()
        .await
        .error(404);
}

#[tokio::test]
async fn message_to_a_run_with_too_many_is_a_429() {
    let (server, _gate, _stream) = running().await;
    for _ in 0..256 {
        let body = json!({"content": "More"});
        assert_eq!(server.post(&path("steer"), body).send().await.status, 202);
    }
    let reply = server.post(&path("steer"), json!({"content": "One more"}));
    reply.send().await.error(429);
}

#[tokio::test]
async fn compact_and_mode_are_a_202_and_unknown_values_a_400() {
    let (server, gate, stream) = running().await;
    assert_eq!(
        server.request("POST", &path("compact")).send().await.status,
        202
    );
    for mode in [
        "plan",
        "acceptEdits",
        "default",
        "dontAsk",
        "bypassPermissions",
    ] {
        let reply = server
            .post(&path("mode"), json!({"mode": mode}))
            .send()
            .await;
        assert_eq!(reply.status, 202, "{mode}: {}", reply.text());
    }
    let reply = server
        .post(&path("mode"), json!({"mode": "yolo"}))
        .send()
        .await;
    assert!(
        reply
            .error(400)
            .contains("unknown permission mode \"yolo\"")
    );
    let reply = server
        .post(&path("model"), json!({"model": "gpt-999"}))
        .send()
        .await;
    assert!(reply.error(400).contains("\"gpt-999\" is not offered"));
    let long = "x".repeat(100_000);
    for (route, body) in [
        ("mode", json!({"mode": long})),
        ("model", json!({"model": long})),
    ] {
        let reply = server.post(&path(route), body).send().await;
        let text = reply.error(400);
        assert!(text.contains("xxx...\"") && text.len() < 300, "{text}");
    }
    gate.open();
    stream.events().await;
}

#[tokio::test]
async fn model_of_the_server_is_set_for_the_run() {
    let (mut gate, tool) = Gate::new();
    let agent = caller("wait", json!({})).tool(tool);
    let server = Server::new()
        .agent("default", agent)
        .models(["ollama:llama3.1:8b"]);
    let server = TestServer::start(server).await;
    let _stream = server
        .post("/agents/stream", input_in("th", "Go"))
        .open()
        .await;
    gate.begun().await;
    let reply = server
        .post(&path("model"), json!({"model": "ollama:llama3.1:8b"}))
        .send()
        .await;
    assert_eq!(reply.status, 202, "{}", reply.text());
    let reply = server.request("POST", &path("interrupt")).send().await;
    assert_eq!(reply.status, 202);
}

#[tokio::test]
async fn control_without_a_run_is_a_404() {
    let server = TestServer::start(Server::new().agent("default", echo())).await;
    server
        .post("/agents/invoke", input_in("th", "Hi"))
        .send()
        .await
        .ok(200);
    for (verb, body) in [
        ("interrupt", json!({})),
        ("compact", json!({})),
        ("steer", json!({"content": "x"})),
        ("mode", json!({"mode": "plan"})),
        ("model", json!({"model": "x"})),
    ] {
        let reply = server.post(&path(verb), body).send().await;
        assert_eq!(
            reply.error(404),
            "thread \"th\" has no run in progress on this server; begin one with /stream",
            "{verb}"
        );
    }
    server
        .post(&path("steer"), json!({"content": ""}))
        .send()
        .await
        .error(400);
}

#[tokio::test]
async fn bypass_of_permissions_is_for_admins() {
    let server = Server::new().agent("default", echo()).users(login);
    let server = TestServer::start_with_own_login(server).await;
    let body = json!({"mode": "bypassPermissions"});
    let reply = server
        .post(&path("mode"), body.clone())
        .of_user("ann")
        .send()
        .await;
    assert_eq!(reply.error(403), "only an admin may do this");
    server
        .post(&path("mode"), body)
        .of_user("admin")
        .send()
        .await
        .error(404);
}
