//! Threads that are loaded while a run begins or ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use agentcore::server::Server;
use agentcore::{ThreadStore, async_trait};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::agents::{Gate, caller, input_in};
use crate::http::TestServer;
use crate::kit::spied_store::{Spied, Spy};

/// A point at which one load is paused.
#[derive(Clone)]
struct Hold {
    is_due: Arc<AtomicBool>,
    begun: Arc<Semaphore>,
    ended: Arc<Semaphore>,
}

impl Hold {
    fn new() -> Self {
        Self {
            is_due: Arc::default(),
            begun: Arc::new(Semaphore::new(0)),
            ended: Arc::new(Semaphore::new(0)),
        }
    }

    async fn pass(&self) {
        if self.is_due.swap(false, Ordering::Relaxed) {
            self.begun.add_permits(1);
            self.ended.acquire().await.unwrap().forget();
        }
    }

    /// Pauses the next load.
    fn set(&self) {
        self.is_due.store(true, Ordering::Relaxed);
    }

    /// Waits until a load is paused.
    async fn begun(&self) {
        self.begun.acquire().await.unwrap().forget();
    }

    fn end(&self) {
        self.ended.add_permits(1);
    }
}

/// A spy that pauses loads before or after they have read.
#[derive(Clone)]
struct HeldLoads {
    before: Hold,
    after: Hold,
}

#[async_trait]
impl Spy for HeldLoads {
    async fn load(&self) {
        self.before.pass().await;
    }

    async fn read(&self) {
        self.after.pass().await;
    }
}

/// Starts a server whose runs call the tool of the gate.
async fn server() -> (TestServer, HeldLoads, Gate) {
    let loads = HeldLoads {
        before: Hold::new(),
        after: Hold::new(),
    };
    let (gate, tool) = Gate::new();
    let agent = caller("wait", json!({})).tool(tool);
    let store = Spied(ThreadStore::new(), loads.clone());
    let server = Server::new().agent("default", agent).store(store);
    (TestServer::start(server).await, loads, gate)
}

/// Sends a request that loads the thread `th` while its run is in progress. The run ends after the
/// load has read.
async fn send_while_the_run_ends<T>(
    request: impl AsyncFnOnce(&TestServer) -> T,
) -> (TestServer, T) {
    let (server, loads, mut gate) = server().await;
    let run = server.post("/agents/stream", input_in("th", "Go"));
    let stream = run.open().await;
    gate.begun().await;
    loads.after.set();
    let run_end = async {
        loads.after.begun().await;
        gate.open();
        stream.events().await;
        loads.after.end();
        // Allows a later run.
        gate.open();
    };
    let (reply, ()) = tokio::join!(request(&server), run_end);
    (server, reply)
}

/// Sends a request that loads the thread `th`, which has no run. A run begins before the load has
/// read, and ends after it.
async fn send_before_a_run_begins<T>(
    request: impl AsyncFnOnce(&TestServer) -> T,
) -> (TestServer, T) {
    let (server, loads, mut gate) = server().await;
    loads.before.set();
    let run = async {
        loads.before.begun().await;
        let run = server.post("/agents/stream", input_in("th", "Go"));
        let stream = run.open().await;
        gate.begun().await;
        loads.after.set();
        loads.before.end();
        loads.after.begun().await;
        gate.open();
        stream.events().await;
        loads.after.end();
        // Allows a later run.
        gate.open();
    };
    let (reply, ()) = tokio::join!(request(&server), run);
    (server, reply)
}

async fn get(server: &TestServer) -> Value {
    let reply = server.get("/agents/default/threads/th").send().await;
    reply.ok(200)
}

/// Runs the thread `th` with the input `Again`.
async fn run_again(server: &TestServer) {
    let run = server.post("/agents/stream", input_in("th", "Again"));
    run.open().await.events().await;
}

/// Asserts that the state of the last run begins with the messages of the run before it.
async fn assert_state_has_the_run_before(server: &TestServer) {
    let events = server.get("/agents/default/threads/th/events");
    let mut events = events.header("last-event-id", "other:1").open().await;
    let state = events.event().await.unwrap();
    assert_eq!(state.event, "state");
    let state: Value = serde_json::from_str(&state.data).unwrap();
    let messages = state["data"]["messages"].as_array().unwrap();
    let contents: Vec<_> = messages
        .iter()
        .map(|message| message["content"].as_str().unwrap_or_default())
        .collect();
    assert_eq!(contents, ["Go", "", "waited", "Done: waited", "Again"]);
}

#[tokio::test]
async fn thread_whose_run_ends_during_the_load_is_not_interrupted() {
    let (_server, thread) = send_while_the_run_ends(get).await;
    assert_eq!(thread["messages"].as_array().unwrap().len(), 2);
    assert_eq!(
        (&thread["running"], &thread["interrupted"]),
        (&json!(true), &json!(false))
    );
}

#[tokio::test]
async fn thread_whose_run_begins_and_ends_during_the_load_is_not_interrupted() {
    let (_server, thread) = send_before_a_run_begins(get).await;
    assert_eq!(thread["messages"].as_array().unwrap().len(), 2);
    assert_eq!(thread["interrupted"], false);
}

#[tokio::test]
async fn run_that_ends_during_the_load_for_the_next_one_is_in_its_history() {
    let (server, ()) = send_while_the_run_ends(run_again).await;
    assert_state_has_the_run_before(&server).await;
}

#[tokio::test]
async fn run_that_begins_and_ends_during_the_load_for_the_next_one_is_in_its_history() {
    let (server, ()) = send_before_a_run_begins(run_again).await;
    assert_state_has_the_run_before(&server).await;
}
