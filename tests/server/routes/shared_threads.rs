//! Threads that the agents of a server share.

use agentcore::server::Server;
use agentcore::{FuncTool, SessionStore, ThreadStore};
use serde_json::json;

use crate::agents::{AskAlways, Gate, caller, echo, input_in};
use crate::http::TestServer;

/// Starts a server whose agents `a` and `b` share a store, and whose agent `c` has one of its own.
/// The tool of `a` waits for the gate.
async fn gated() -> (TestServer, Gate) {
    let (gate, tool) = Gate::new();
    let server = Server::new()
        .agent("a", caller("wait", json!({})).tool(tool))
        .agent("b", echo())
        .agent("c", echo().store(ThreadStore::new()));
    (TestServer::start(server).await, gate)
}

#[tokio::test]
async fn run_of_one_agent_is_shown_and_streamed_through_the_others() {
    let (server, mut gate) = gated().await;
    let stream = server.post("/agents/a/stream", input_in("th", "Go"));
    let stream = stream.open().await;
    gate.begun().await;
    let list = server.get("/agents/b/threads").send().await.ok(200);
    assert_eq!(list["threads"][0]["running"], true);
    let thread = server.get("/agents/b/threads/th").send().await.ok(200);
    assert_eq!(thread["running"], true);
    let reply = server.post("/agents/b/invoke", input_in("th", "Hi"));
    let error = reply.send().await.error(409);
    assert!(error.contains("the thread has a run already"), "{error}");

    let events = server.get("/agents/b/threads/th/events").open().await;
    gate.open();
    assert_eq!(events.events().await, stream.events().await);
}

#[tokio::test]
async fn run_of_one_agent_is_controlled_through_the_others_of_its_store_alone() {
    let (server, mut gate) = gated().await;
    let stream = server.post("/agents/a/stream", input_in("th", "Go"));
    let stream = stream.open().await;
    gate.begun().await;
    for agent in ["c", "none"] {
        let path = format!("/agents/{agent}/threads/th/interrupt");
        server.post(&path, json!({})).send().await.error(404);
    }
    let reply = server.post("/agents/b/threads/th/interrupt", json!({}));
    assert_eq!(reply.send().await.status, 202);
    assert_eq!(stream.events().await.last().unwrap().event, "error");
}

#[tokio::test]
async fn run_of_an_agent_that_was_removed_is_still_stopped() {
    let (server, mut gate) = gated().await;
    let stream = server.post("/agents/a/stream", input_in("th", "Go"));
    let stream = stream.open().await;
    gate.begun().await;
    assert!(server.handle.registry().remove("a"));
    let reply = server.post("/agents/a/threads/th/interrupt", json!({}));
    assert_eq!(reply.send().await.status, 202);
    assert_eq!(stream.events().await.last().unwrap().event, "error");
}

#[tokio::test]
async fn question_of_one_agent_is_shown_through_the_others() {
    let schema = json!({"type": "object"});
    let tool = FuncTool::new("act", "Acts", schema, |_, _| async { "acted" });
    let asking = caller("act", json!({})).tool(tool).permissions(AskAlways);
    let server = Server::new().agent("a", asking).agent("b", echo());
    let server = TestServer::start(server).await;
    let stream = server.post("/agents/a/stream", input_in("th", "Go"));
    let mut stream = stream.open().await;
    stream.until("on_permission_request").await;
    let list = server.get("/agents/b/threads").send().await.ok(200);
    assert_eq!(list["threads"][0]["pending"], 1);
    let mut events = server.get("/agents/b/threads/th/events").open().await;
    events.until("on_permission_request").await;
}

#[tokio::test]
async fn deleted_thread_has_no_log_and_no_trace_of_any_agent() {
    let (server, _gate) = gated().await;
    let mut runs = Vec::new();
    for agent in ["b", "c"] {
        let reply = server.post(&format!("/agents/{agent}/invoke"), input_in("th", "Hi"));
        let reply = reply.send().await.ok(200);
        let trace = format!("/agents/traces/{}", reply["trace_id"].as_str().unwrap());
        runs.push((trace, format!("/agents/{agent}/threads/th/events")));
    }
    let request = server.request("DELETE", "/agents/a/threads/th");
    assert_eq!(request.send().await.status, 204);
    let [(trace, events), (other_trace, other_events)] = &*runs else {
        panic!("{runs:?}");
    };
    for path in [trace, events] {
        server.get(path).send().await.error(404);
    }
    for path in [other_trace, other_events] {
        assert_eq!(server.get(path).open().await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn deleted_thread_takes_the_logs_of_its_subagents_threads_with_it() {
    let store = ThreadStore::new();
    let child = json!({
        "thread_id": "child",
        "user_id": "local",
        "parent": "th",
        "messages": [
            {"role": "user", "content": "Look around"},
            {"role": "assistant", "content": "All quiet."},
        ],
    });
    let child = child.to_string();
    store.import("child", child.as_bytes()).await.unwrap();
    let server = Server::new().agent("default", echo()).store(store);
    let server = TestServer::start(server).await;
    for thread in ["th", "child"] {
        let reply = server.post("/agents/invoke", input_in(thread, "Hi"));
        reply.send().await.ok(200);
    }
    let request = server.request("DELETE", "/agents/default/threads/th");
    assert_eq!(request.send().await.status, 204);
    let traces = server.get("/agents/traces").send().await.ok(200);
    assert_eq!(traces["traces"], json!([]));
    let events = server.get("/agents/default/threads/child/events");
    events.send().await.error(404);
}
