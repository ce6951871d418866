//! Questions: `hitl` while the run waits, and `resume` afterwards.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use agentcore::server::Server;
use agentcore::{AgentBuilder, FuncTool, SessionStore, ThreadStore};
use serde_json::{Value, json};

use crate::agents::{AskAlways, caller, input_in};
use crate::http::{Event, TestServer};

fn asking() -> AgentBuilder {
    let tool = FuncTool::new(
        "act",
        "Acts",
        json!({"type": "object"}),
        |_, args: Value| async move { format!("acted with {}", args["n"]) },
    );
    caller("act", json!({"n": 1}))
        .tool(tool)
        .permissions(AskAlways)
}

/// Starts a server whose questions are stored as pending at once.
async fn parking() -> TestServer {
    let server = Server::new()
        .agent("default", asking())
        .ask_wait(Duration::ZERO);
    TestServer::start(server).await
}

/// Starts a server whose runs wait for answers.
async fn waiting() -> TestServer {
    let server = Server::new().agent("default", asking());
    TestServer::start(server.ask_wait(Duration::from_secs(3_600))).await
}

fn question_of(event: &Event) -> Value {
    let json: Value = serde_json::from_str(&event.data).unwrap();
    json["data"].clone()
}

/// Starts a run in a thread, and returns its pending call.
async fn parked(server: &TestServer, thread: &str) -> Value {
    let reply = server
        .post("/agents/invoke", input_in(thread, "Go"))
        .send()
        .await
        .ok(200);
    assert_eq!(reply["interrupted"], true);
    assert_eq!(reply["interrupted_tool"], "act");
    assert_eq!(reply["interrupted_args"], json!({"n": 1}));
    assert_eq!(reply["end"], "awaiting_approval");
    reply["pending"][0].clone()
}

fn decide(call: &Value, thread: &str, decision: Value) -> Value {
    let mut decision = decision;
    decision["id"] = call["id"].clone();
    decision["args_hash"] = call["args_hash"].clone();
    json!({"thread_id": thread, "decisions": [decision]})
}

#[tokio::test]
async fn answer_while_the_run_waits_lets_it_continue() {
    for (answer, end) in [
        (json!({"answer": "allow"}), "Done: acted with 1"),
        (json!({"answer": "allow_for_session"}), "Done: acted with 1"),
        (
            json!({"answer": "edit", "args": {"n": 2}}),
            "Done: acted with 2",
        ),
        (
            json!({"answer": "deny", "message": "not today"}),
            "not today",
        ),
    ] {
        let server = waiting().await;
        let mut stream = server
            .post("/agents/stream", input_in("th", "Go"))
            .open()
            .await;
        let question = question_of(&stream.until("on_permission_request").await);
        let path = format!("/agents/hitl/{}", question["id"].as_str().unwrap());
        let reply = server.post(&path, answer.clone()).send().await.ok(200);
        assert_eq!(reply["status"], "answered");
        let events = stream.events().await;
        assert!(
            events.iter().any(|event| event.data.contains(end)),
            "{answer}: {events:?}"
        );

        let again = server.post(&path, answer).send().await;
        assert!(again.error(409).contains("answered before"));
    }
}

#[tokio::test]
async fn answer_to_an_unknown_question_is_a_404_and_an_invalid_one_a_400() {
    let server = waiting().await;
    let reply = server
        .post("/agents/hitl/none", json!({"answer": "allow"}))
        .send()
        .await;
    assert!(reply.error(404).contains("\"none\""));
    for body in [
        json!({}),
        json!({"answer": "maybe"}),
        json!({"answer": "edit"}),
        json!({"answer": "allow", "args": {"n": 2}}),
        json!({"answer": "deny", "text": "not today"}),
        json!({"answer": "allow_for_session", "picked": [0]}),
        json!({"text": "two", "args": {"n": 2}}),
    ] {
        server
            .post("/agents/hitl/none", body)
            .send()
            .await
            .error(400);
    }
}

#[tokio::test]
async fn question_of_a_pending_call_is_a_409_at_hitl_and_is_resumed() {
    let server = parking().await;
    let mut stream = server
        .post("/agents/stream", input_in("th", "Go"))
        .open()
        .await;
    let question = question_of(&stream.until("on_permission_request").await);
    stream.events().await;
    let path = format!("/agents/hitl/{}", question["id"].as_str().unwrap());
    server
        .post(&path, json!({"answer": "allow"}))
        .send()
        .await
        .error(409);

    let thread = server
        .get("/agents/default/threads/th")
        .send()
        .await
        .ok(200);
    let body = decide(&thread["pending"][0], "th", json!({"decision": "allow"}));
    let reply = server.post("/agents/resume", body).send().await.ok(200);
    assert_eq!(reply["response"], "Done: acted with 1");
}

#[tokio::test]
async fn pending_calls_are_shown_without_the_system_messages_of_the_input() {
    let server = parking().await;
    let system = json!({"role": "system", "content": "In German."});
    let mut body = input_in("th", "Go");
    body["messages"].as_array_mut().unwrap().insert(0, system);
    let reply = server.post("/agents/invoke", body).send().await.ok(200);
    let thread = server
        .get("/agents/default/threads/th")
        .send()
        .await
        .ok(200);
    for shown in [&reply["pending"], &thread["pending"]] {
        assert_eq!(shown.as_array().unwrap().len(), 1);
        assert!(!shown.to_string().contains("In German."), "{shown}");
    }
}

#[tokio::test]
async fn decision_with_arguments_that_it_does_not_use_is_a_400_and_the_call_waits_on() {
    let server = parking().await;
    let call = parked(&server, "th").await;
    let body = decide(&call, "th", json!({"decision": "allow", "args": {"n": 7}}));
    let reply = server.post("/agents/resume", body).send().await;
    let text = "the key \"args\" is only for the decision \"edit\"";
    assert_eq!(reply.error(400), text);
    // A client may send all fields.
    let decision = json!({"decision": "allow", "args": null, "text": "", "picked": []});
    let body = decide(&call, "th", decision);
    let reply = server.post("/agents/resume", body).send().await.ok(200);
    assert_eq!(reply["response"], "Done: acted with 1");
}

/// The server's limit of 24 hours applies to agents without an expiry and with a longer one.
#[tokio::test]
async fn shorter_expiry_of_an_agent_stays() {
    let hours = |count: u64| Duration::from_secs(count * 3_600);
    for (expiry, expected) in [
        (None, hours(24)),
        (Some(hours(1)), hours(1)),
        (Some(hours(48)), hours(24)),
    ] {
        let agent = match expiry {
            Some(expiry) => asking().approval_expiry(expiry),
            None => asking(),
        };
        let server = Server::new()
            .agent("default", agent)
            .ask_wait(Duration::ZERO);
        let server = TestServer::start(server).await;
        let now_ms = || {
            SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap()
                .as_millis()
        };
        let earliest = now_ms() + expected.as_millis();
        let call = parked(&server, "th").await;
        let latest = now_ms() + expected.as_millis();
        let expires_at = u128::from(call["expires_at_ms"].as_u64().unwrap());
        assert!(
            (earliest..=latest).contains(&expires_at),
            "{expiry:?}: {call}"
        );
    }
}

#[tokio::test]
async fn resume_replies_as_invoke_or_as_a_stream() {
    let server = parking().await;
    let call = parked(&server, "th_1").await;
    let body = decide(&call, "th_1", json!({"decision": "edit", "args": {"n": 7}}));
    let reply = server
        .post("/agents/default/resume", body)
        .send()
        .await
        .ok(200);
    assert_eq!(reply["response"], "Done: acted with 7");

    let call = parked(&server, "th_2").await;
    let body = decide(&call, "th_2", json!({"decision": "deny", "message": "no"}));
    let request = server
        .post("/agents/resume", body)
        .header("accept", "text/event-stream");
    let events = request.open().await.events().await;
    assert_eq!(events.last().unwrap().event, "done");
}

#[tokio::test]
async fn resume_of_a_call_that_does_not_wait_or_differs_is_a_409() {
    let server = parking().await;
    let call = parked(&server, "th").await;
    let mut other = call.clone();
    other["id"] = "other".into();
    let reply = server.post(
        "/agents/resume",
        decide(&other, "th", json!({"decision": "allow"})),
    );
    assert!(reply.send().await.error(409).contains("does not wait"));
    let mut other = call.clone();
    other["args_hash"] = "0".into();
    let reply = server.post(
        "/agents/resume",
        decide(&other, "th", json!({"decision": "allow"})),
    );
    assert!(reply.send().await.error(409).contains("other arguments"));

    let body = decide(&call, "th", json!({"decision": "allow"}));
    server
        .post("/agents/resume", body.clone())
        .send()
        .await
        .ok(200);
    server.post("/agents/resume", body).send().await.error(409);
}

#[tokio::test]
async fn both_routes_of_answers_read_both_keys() {
    let server = waiting().await;
    let stream = server.post("/agents/stream", input_in("th", "Go"));
    let mut stream = stream.open().await;
    let question = question_of(&stream.until("on_permission_request").await);
    let path = format!("/agents/hitl/{}", question["id"].as_str().unwrap());
    let answer = server.post(&path, json!({"decision": "allow"}));
    answer.send().await.ok(200);
    assert_eq!(stream.events().await.last().unwrap().event, "done");

    let server = parking().await;
    let call = parked(&server, "th").await;
    let body = decide(&call, "th", json!({"answer": "allow"}));
    let reply = server.post("/agents/resume", body).send().await.ok(200);
    assert_eq!(reply["response"], "Done: acted with 1");
}

#[tokio::test]
async fn resume_through_another_agent_is_a_409_and_the_call_waits_on() {
    let server = Server::new()
        .agent("default", asking().name("careful"))
        .agent("other", asking().name("hasty"))
        .ask_wait(Duration::ZERO);
    let server = TestServer::start(server).await;
    let call = parked(&server, "th").await;
    assert_eq!(call["agent"], "careful");
    let body = decide(&call, "th", json!({"decision": "allow"}));
    let reply = server.post("/agents/other/resume", body.clone());
    let error = reply.send().await.error(409);
    assert!(error.contains("/agents/default/"), "{error}");
    let ai_sdk = json!({"id": "th", "trigger": "submit-message", "messages": [{
        "id": "m", "role": "assistant", "parts": [{
            "type": "dynamic-tool", "toolName": "act", "toolCallId": call["call"]["id"],
            "state": "approval-responded", "input": {"n": 1},
            "approval": {"id": call["id"], "approved": true},
        }],
    }]});
    let reply = server.post("/agents/other/stream?format=ai-sdk", ai_sdk);
    reply.send().await.error(409);
    let reply = server.post("/agents/resume", body).send().await.ok(200);
    assert_eq!(reply["response"], "Done: acted with 1");
}

/// Starts a server with two agents without names, whose questions are stored as pending at once.
async fn parking_without_names(store: ThreadStore) -> TestServer {
    let server = Server::new()
        .agent("careful", asking())
        .agent("default", asking())
        .store(store)
        .ask_wait(Duration::ZERO);
    TestServer::start(server).await
}

#[tokio::test]
async fn resume_through_another_agent_without_a_name_is_a_409() {
    let server = parking_without_names(ThreadStore::new()).await;
    let reply = server.post("/agents/careful/invoke", input_in("th", "Go"));
    let call = reply.send().await.ok(200)["pending"][0].clone();
    let ids = (&call["agent"], &call["agent_id"]);
    assert_eq!(ids, (&json!("agent"), &json!("careful")));
    let body = decide(&call, "th", json!({"decision": "allow"}));
    let reply = server.post("/agents/resume", body.clone());
    let error = reply.send().await.error(409);
    assert!(error.contains("/agents/careful/"), "{error}");
    let reply = server.post("/agents/careful/resume", body);
    let reply = reply.send().await.ok(200);
    assert_eq!(reply["response"], "Done: acted with 1");
}

/// Sessions of earlier versions have such calls.
#[tokio::test]
async fn call_without_the_id_of_its_agent_is_resumed_by_any_agent_of_the_name() {
    let store = ThreadStore::new();
    let server = parking_without_names(store.clone()).await;
    let call = parked(&server, "th").await;
    let session = SessionStore::load(&store, "th").await.unwrap().unwrap();
    let mut state = serde_json::to_value(&session.state).unwrap();
    let stored_call = state["pending"][0].as_object_mut().unwrap();
    assert_eq!(stored_call.remove("agent_id"), Some(json!("default")));
    assert!(SessionStore::delete(&store, "th").await.unwrap());
    store
        .import("th", state.to_string().as_bytes())
        .await
        .unwrap();
    let body = decide(&call, "th", json!({"decision": "allow"}));
    let reply = server.post("/agents/careful/resume", body);
    let reply = reply.send().await.ok(200);
    assert_eq!(reply["response"], "Done: acted with 1");
}

#[tokio::test]
async fn list_marks_the_threads_that_wait_for_a_person() {
    let server = parking().await;
    let pending = async || {
        let list = server.get("/agents/default/threads").send().await.ok(200);
        let threads = list["threads"].as_array().unwrap().iter();
        let mut marks: Vec<_> = threads
            .map(|thread| (thread["id"].to_string(), thread["pending"].as_u64()))
            .collect();
        marks.sort();
        marks
    };
    let call = parked(&server, "th").await;
    let reply = server.post("/agents/default/threads/th/fork", json!({}));
    let copy = reply.send().await.ok(201)["thread_id"].to_string();
    // The calls of a fork wait in the original thread.
    let mut marks = vec![(copy, Some(0)), ("\"th\"".to_owned(), Some(1))];
    marks.sort();
    assert_eq!(pending().await, marks);
    let body = decide(&call, "th", json!({"decision": "allow"}));
    server.post("/agents/resume", body).send().await.ok(200);
    assert!(pending().await.iter().all(|(_, count)| *count == Some(0)));

    let server = waiting().await;
    let stream = server.post("/agents/stream", input_in("th", "Go"));
    let mut stream = stream.open().await;
    stream.until("on_permission_request").await;
    let list = server.get("/agents/default/threads").send().await.ok(200);
    let thread = &list["threads"][0];
    assert_eq!(
        (&thread["running"], &thread["pending"]),
        (&json!(true), &json!(1))
    );
}

#[tokio::test]
async fn copy_of_a_thread_that_waits_shows_no_question() {
    let server = parking().await;
    parked(&server, "th").await;
    let reply = server.post("/agents/default/threads/th/fork", json!({}));
    let reply = reply.send().await.ok(201);
    let copy = reply["thread_id"].as_str().unwrap();
    for (thread, count) in [("th", 1), (copy, 0)] {
        let path = format!("/agents/default/threads/{thread}");
        let state = server.get(&path).send().await.ok(200);
        let pending = state["pending"].as_array();
        assert_eq!(pending.map_or(0, Vec::len), count, "{thread}");
        assert_eq!(state["interrupted"], false, "{thread}");
    }
}

#[tokio::test]
async fn resume_without_a_thread_or_decisions_is_an_error() {
    let server = parking().await;
    let call = parked(&server, "th").await;
    let body = decide(&call, "th_9", json!({"decision": "allow"}));
    assert_eq!(
        server.post("/agents/resume", body).send().await.error(404),
        "thread \"th_9\" not found"
    );
    let body = json!({"thread_id": "th", "decisions": []});
    server.post("/agents/resume", body).send().await.error(400);
    let body = json!({"decisions": []});
    assert!(
        server
            .post("/agents/resume", body)
            .send()
            .await
            .error(400)
            .contains("thread_id")
    );
}

#[tokio::test]
async fn pending_call_is_answered_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let store = || agentcore::session::JsonlStore::open(folder.path()).unwrap();
    let server = Server::new()
        .agent("default", asking())
        .ask_wait(Duration::ZERO);
    let server = TestServer::start(server.store(store())).await;
    let call = parked(&server, "th").await;
    server.stop().await;

    let server = Server::new()
        .agent("default", asking())
        .ask_wait(Duration::ZERO);
    let server = TestServer::start(server.store(store())).await;
    let thread = server
        .get("/agents/default/threads/th")
        .send()
        .await
        .ok(200);
    assert_eq!(thread["pending"][0]["id"], call["id"]);
    let list = server.get("/agents/default/threads").send().await.ok(200);
    assert_eq!(list["threads"][0]["pending"], 1);
    let body = decide(&call, "th", json!({"decision": "allow"}));
    let reply = server.post("/agents/resume", body).send().await.ok(200);
    assert_eq!(reply["response"], "Done: acted with 1");
    let list = server.get("/agents/default/threads").send().await.ok(200);
    assert_eq!(list["threads"][0]["pending"], 0);
}
