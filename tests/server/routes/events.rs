//! Event streams that do not begin a run.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use agentcore::server::Server;
use agentcore::session::{Lease, StoredSession};
use agentcore::testing::ScriptedModel;
use agentcore::{AgentBuilder, Message, Messages, SessionStore, ThreadStore};
use serde_json::{Value, json};

use crate::agents::{Gate, caller, echo, input_in};
use crate::http::{Event, TestServer};
use crate::kit::spied_store::{Spied, Spy};

const EVENTS: &str = "/agents/default/threads/th/events";

#[tokio::test]
async fn events_continue_after_the_last_id_without_a_gap() {
    let model = ScriptedModel::new().say("one two three four five");
    let server = TestServer::start(Server::new().agent("default", AgentBuilder::new(model))).await;
    let whole = server
        .post("/agents/stream", input_in("th", "Go"))
        .open()
        .await
        .events()
        .await;
    assert!(whole.len() > 5, "{whole:?}");
    for index in 0..whole.len() - 1 {
        let request = server
            .get(EVENTS)
            .header("last-event-id", whole[index].id.as_str());
        let rest = request.open().await.events().await;
        assert_eq!(rest, whole[index + 1..], "after {}", whole[index].id);
    }
    assert_eq!(server.get(EVENTS).open().await.events().await, whole);
}

#[tokio::test]
async fn events_after_an_unknown_id_begin_with_the_state() {
    let server = TestServer::start(Server::new().agent("default", echo())).await;
    server
        .post("/agents/invoke", input_in("th", "Hi"))
        .send()
        .await
        .ok(200);
    let request = server.get(EVENTS).header("last-event-id", "other:3");
    let events = request.open().await.events().await;
    assert_eq!(events[0].event, "state");
    assert_eq!(events.last().unwrap().event, "done");
}

#[tokio::test]
async fn events_after_a_value_that_is_no_id_begin_with_the_state() {
    let server = TestServer::start(Server::new().agent("default", echo())).await;
    let body = input_in("th", "Hi");
    let whole = server.post("/agents/stream", body).open().await;
    let whole = whole.events().await;
    for id in ["7", "garbage", "r:x", "\u{e9}"] {
        let events = server.get(EVENTS).header("last-event-id", id);
        let events = events.open().await.events().await;
        assert_eq!(events[0].event, "state", "{id}");
        let state: Value = serde_json::from_str(&events[0].data).unwrap();
        assert_eq!(state["data"]["thread_id"], "th");
        assert_eq!(state["data"]["messages"][0]["content"], "Hi");
        assert_eq!(events[1..], whole, "{id}");
    }
    let ag_ui = server.get(&format!("{EVENTS}?format=ag-ui"));
    let ag_ui = ag_ui.header("last-event-id", "garbage").open().await;
    let ag_ui = ag_ui.events().await;
    let has_snapshot = |event: &Event| event.data.contains("MESSAGES_SNAPSHOT");
    assert!(ag_ui.iter().any(has_snapshot), "{ag_ui:?}");
    // A reader without events sends no id, or an empty one.
    let events = server.get(EVENTS).header("last-event-id", "");
    assert_eq!(events.open().await.events().await, whole);
}

#[tokio::test]
async fn events_of_a_run_in_progress_are_those_of_all_its_readers() {
    let (mut gate, tool) = Gate::new();
    let agent = caller("wait", json!({})).tool(tool);
    let server = TestServer::start(Server::new().agent("default", agent)).await;
    let first = server
        .post("/agents/stream", input_in("th", "Go"))
        .open()
        .await;
    gate.begun().await;
    let second = server.get(EVENTS).open().await;
    let third = server.get(&format!("{EVENTS}?format=sdk")).open().await;
    gate.open();
    let events = first.events().await;
    assert_eq!(second.events().await, events);
    let last: Value = serde_json::from_str(&third.events().await.last().unwrap().data).unwrap();
    assert_eq!(last["type"], "result");
}

#[tokio::test]
async fn events_without_a_run_are_a_204_and_without_a_thread_a_404() {
    let store = ThreadStore::new();
    let agent = echo().store(store.clone()).build().unwrap();
    agent
        .session("th")
        .user_id("local")
        .run("Hi")
        .await
        .unwrap();
    let server = Server::new().agent("default", echo()).store(store);
    let server = TestServer::start(server).await;
    assert_eq!(server.get(EVENTS).open().await.status, 204);
    let path = "/agents/default/threads/none/events";
    assert_eq!(
        server.get(path).send().await.error(404),
        "thread \"none\" not found"
    );
}

/// A background task or the other calls of an answer may hold the thread.
#[tokio::test]
async fn events_of_a_thread_that_is_held_elsewhere_last_until_it_is_released() {
    let answered = json!({
        "thread_id": "th",
        "user_id": "local",
        "messages": [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "Hello."},
        ],
    });
    let call = json!({"id": "call_1", "name": "act", "args": {}});
    let waiting = json!({
        "thread_id": "th",
        "user_id": "local",
        "messages": [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "", "tool_calls": [call]},
        ],
        "pending": [{
            "id": "p", "session_id": "th", "call": call, "question": "Sure?", "args_hash": "1",
        }],
    });
    for (state, reason) in [(answered, "completed"), (waiting, "tool_deferred")] {
        let store = ThreadStore::new();
        store
            .import("th", state.to_string().as_bytes())
            .await
            .unwrap();
        let server = Server::new().agent("default", echo()).store(store.clone());
        let server = TestServer::start(server).await;
        assert_eq!(server.get(EVENTS).open().await.status, 204);
        let lease = store.lease("th").await.unwrap();
        let mut events = server.get(&format!("{EVENTS}?format=sdk")).open().await;
        assert!(events.event().await.unwrap().data.contains("\"state\""));
        drop(lease);
        let events = events.events().await;
        let end = &events.last().unwrap().data;
        assert!(end.contains(reason), "{end}");
        assert_eq!(server.get(EVENTS).open().await.status, 204);
    }
}

/// A spy that counts the leases of a store.
struct Leases(Arc<AtomicUsize>);

impl Spy for Leases {
    fn leased(&self, lease: Lease) -> Lease {
        self.0.fetch_add(1, Ordering::Relaxed);
        lease
    }
}

#[tokio::test]
async fn events_of_an_interrupted_thread_take_no_lease() {
    let store = ThreadStore::new();
    let state = json!({
        "thread_id": "th",
        "user_id": "local",
        "messages": [{"role": "user", "content": "Hi"}],
    });
    store
        .import("th", state.to_string().as_bytes())
        .await
        .unwrap();
    let leases = Arc::new(AtomicUsize::new(0));
    let spied = Spied(store.clone(), Leases(leases.clone()));
    let server = Server::new().agent("default", echo()).store(spied);
    let server = TestServer::start(server).await;
    let path = "/agents/default/threads/th";
    let interrupted = async || server.get(path).send().await.ok(200)["interrupted"].clone();
    assert_eq!(server.get(EVENTS).open().await.status, 204);
    assert_eq!(interrupted().await, true);

    // While another process holds the thread, only the state is sent and nothing is reported as
    // interrupted.
    let lease = store.lease("th").await.unwrap();
    let mut events = server.get(EVENTS).open().await;
    assert_eq!(events.event().await.unwrap().event, "state");
    assert_eq!(interrupted().await, false);
    drop(lease);
    assert_eq!(events.events().await.last().unwrap().event, "error");
    assert_eq!(leases.load(Ordering::Relaxed), 0);
}

/// Copies the messages of each load, as a store on a disk does, and keeps weak references to the
/// copies.
#[derive(Clone, Default)]
struct Copies(Arc<Mutex<Vec<Weak<Message>>>>);

impl Spy for Copies {
    fn loaded(&self, stored: Option<StoredSession>) -> Option<StoredSession> {
        let mut stored = stored?;
        let messages = stored.state.messages.as_slice().iter();
        let copies: Vec<Arc<Message>> = messages
            .map(|message| Arc::new(Message::clone(message)))
            .collect();
        let mut weak_copies = self.0.lock().unwrap();
        weak_copies.extend(copies.iter().map(Arc::downgrade));
        stored.state.messages = copies.into_iter().collect::<Messages>();
        Some(stored)
    }
}

#[tokio::test]
async fn readers_of_a_thread_that_runs_elsewhere_keep_no_copy_of_it() {
    let store = ThreadStore::new();
    let state = json!({
        "thread_id": "th",
        "user_id": "local",
        "messages": [{"role": "user", "content": "Hi"}],
    });
    store
        .import("th", state.to_string().as_bytes())
        .await
        .unwrap();
    let copies = Copies::default();
    let spied = Spied(store.clone(), copies.clone());
    let server = Server::new().agent("default", echo()).store(spied);
    let server = TestServer::start(server).await;
    let lease = store.lease("th").await.unwrap();
    for format in ["events", "sdk", "ag-ui", "ai-sdk"] {
        let mut events = server
            .get(&format!("{EVENTS}?format={format}"))
            .open()
            .await;
        events.event().await.unwrap();
        let copies = std::mem::take(&mut *copies.0.lock().unwrap());
        assert!(copies.len() >= 2, "{format}");
        let count = copies.iter().filter(|copy| copy.strong_count() > 0).count();
        assert_eq!(count, 0, "{format}");
    }
    drop(lease);
}

#[tokio::test]
async fn thread_that_runs_elsewhere_is_busy_and_its_events_are_the_stored_state() {
    let store = ThreadStore::new();
    let (mut gate, tool) = Gate::new();
    let other = caller("wait", json!({}))
        .tool(tool)
        .store(store.clone())
        .build()
        .unwrap();
    let run = tokio::spawn(async move { other.session("th").user_id("local").run("Go").await });
    gate.begun().await;

    let server = Server::new().agent("default", echo()).store(store);
    let server = TestServer::start(server).await;
    for path in ["/agents/invoke", "/agents/stream"] {
        let reply = server.post(path, input_in("th", "Hi")).send().await;
        let error = reply.error(409);
        assert!(error.contains("the thread has a run already"), "{error}");
        assert_eq!(reply.header("retry-after"), Some("1"));
    }

    let mut events = server.get(EVENTS).open().await;
    assert_eq!(events.status, 200);
    assert_eq!(events.event().await.unwrap().event, "state");
    let ag_ui = server.get(&format!("{EVENTS}?format=ag-ui")).open().await;
    let ai_sdk = server.get(&format!("{EVENTS}?format=ai-sdk")).open().await;
    gate.open();
    run.await.unwrap().unwrap();
    let rest = events.events().await;
    let [.., state, done] = &*rest else {
        panic!("{rest:?}");
    };
    assert!(state.data.contains("Done: waited"), "{rest:?}");
    assert_eq!(done.event, "done");

    let ag_ui = ag_ui.events().await;
    let is_start = |event: &&Event| event.data.contains("RUN_STARTED");
    assert_eq!(ag_ui.iter().filter(is_start).count(), 1, "{ag_ui:?}");
    assert!(ag_ui.last().unwrap().data.contains("RUN_FINISHED"));
    let ai_sdk = ai_sdk.events().await;
    assert!(ai_sdk[0].data.contains("\"start\""), "{ai_sdk:?}");
    assert_eq!(ai_sdk.last().unwrap().data, "[DONE]");
    assert_eq!(server.get(EVENTS).open().await.status, 204);
}

#[tokio::test]
async fn events_after_a_later_run_elsewhere_are_not_those_of_the_run_before() {
    let store = ThreadStore::new();
    let server = Server::new().agent("default", echo()).store(store.clone());
    let server = TestServer::start(server).await;
    let stream = server.post("/agents/stream", input_in("th", "Hi"));
    let whole = stream.open().await.events().await;
    let title = json!({"title": "Greetings"});
    let title = server.post("/agents/default/threads/th/title", title);
    assert_eq!(title.send().await.status, 204);
    assert_eq!(server.get(EVENTS).open().await.events().await, whole);

    let (mut gate, tool) = Gate::new();
    let model = ScriptedModel::new().call("wait", json!({})).say("Waited.");
    let other = AgentBuilder::new(model).tool(tool).store(store.clone());
    let other = other.build().unwrap();
    let run = tokio::spawn(async move { other.session("th").user_id("local").run("Go").await });
    gate.begun().await;
    let mut events = server.get(EVENTS).open().await;
    assert_eq!(events.event().await.unwrap().event, "state");
    let ai_sdk = server.get(&format!("{EVENTS}?format=ai-sdk")).open().await;
    assert_eq!(ai_sdk.status, 200);
    gate.open();
    run.await.unwrap().unwrap();
    let events = events.events().await;
    let [.., state, done] = &*events else {
        panic!("{events:?}");
    };
    assert!(state.data.contains("Waited."), "{events:?}");
    assert_eq!(done.event, "done");
    ai_sdk.events().await;

    let reconnect = || server.get(EVENTS).header("last-event-id", &*whole[0].id);
    assert_eq!(reconnect().send().await.status, 204);
    assert!(SessionStore::delete(&store, "th").await.unwrap());
    reconnect().send().await.error(404);
}

#[tokio::test]
async fn ai_sdk_client_gets_a_run_in_progress_and_not_one_that_has_ended() {
    let (mut gate, tool) = Gate::new();
    let agent = caller("wait", json!({})).tool(tool);
    let server = TestServer::start(Server::new().agent("default", agent)).await;
    let first = server
        .post("/agents/stream", input_in("th", "Go"))
        .open()
        .await;
    gate.begun().await;
    let path = format!("{EVENTS}?format=ai-sdk");
    let second = server.get(&path).open().await;
    gate.open();
    assert_eq!(second.events().await.last().unwrap().data, "[DONE]");
    first.events().await;
    assert_eq!(server.get(&path).open().await.status, 204);
    let request = server.get(&path).header("last-event-id", "other:1");
    assert_eq!(request.open().await.status, 200);
}

#[tokio::test]
async fn server_events_report_changes_of_tools() {
    let server = TestServer::start(Server::new().agent("default", echo())).await;
    let mut events = server.get("/agents/events").open().await;
    assert_eq!(events.header("content-type"), Some("text/event-stream"));
    server.handle.registry().events().publish("tools_changed");
    assert_eq!(events.event().await.unwrap().data, "tools_changed");
}
