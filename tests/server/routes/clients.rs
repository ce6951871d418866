//! The bodies and streams of AG-UI and of the AI SDK.

use agentcore::server::Server;
use agentcore::testing::ScriptedModel;
use agentcore::{AgentBuilder, Error, ErrorKind, FuncTool};
use serde_json::{Value, json};

use crate::agents::{AskAlways, caller, echo};
use crate::http::{Event, TestServer};

fn asking() -> AgentBuilder {
    let tool = FuncTool::new("act", "Acts", json!({"type": "object"}), |_, _| async {
        "acted"
    });
    caller("act", json!({"n": 1}))
        .tool(tool)
        .permissions(AskAlways)
}

fn ag_ui(messages: &Value) -> Value {
    json!({"threadId": "th", "runId": "run_of_client", "messages": messages, "tools": [],
        "context": [], "state": {}, "forwardedProps": {}})
}

async fn run(server: &TestServer, path: &str, body: Value) -> Vec<Value> {
    let events = server.post(path, body).open().await.events().await;
    events.iter().filter_map(json_of).collect()
}

fn json_of(event: &Event) -> Option<Value> {
    serde_json::from_str(&event.data).ok()
}

const AG_UI: &str = "/agents/default/stream?format=ag-ui";
const AI_SDK: &str = "/agents/default/stream?format=ai-sdk";

#[tokio::test]
async fn ag_ui_run_has_the_ids_of_the_client() {
    let server = TestServer::start(Server::new().agent("default", echo())).await;
    let messages = json!([{"id": "m1", "role": "user", "content": "Hi"}]);
    let events = run(&server, AG_UI, ag_ui(&messages)).await;
    assert_eq!(events[0]["type"], "RUN_STARTED");
    assert_eq!(
        (&events[0]["threadId"], &events[0]["runId"]),
        (&json!("th"), &json!("run_of_client"))
    );
    assert_eq!(events.last().unwrap()["type"], "RUN_FINISHED");
    assert!(
        events.iter().any(|event| event["delta"] == "You said: Hi"),
        "{events:?}"
    );
}

#[tokio::test]
async fn ag_ui_interrupt_is_resumed_and_a_foreign_entry_is_an_error_of_the_run() {
    let server = TestServer::start(Server::new().agent("default", asking())).await;
    let messages = json!([{"id": "m1", "role": "user", "content": "Go"}]);
    let events = run(&server, AG_UI, ag_ui(&messages)).await;
    let outcome = &events.last().unwrap()["outcome"];
    assert_eq!(outcome["type"], "interrupt", "{events:?}");
    let id = &outcome["interrupts"][0]["id"];

    let mut foreign = ag_ui(&messages);
    foreign["resume"] =
        json!([{"interruptId": "x", "status": "resolved", "payload": {"approved": true}}]);
    let events = run(&server, AG_UI, foreign).await;
    assert_eq!(events.last().unwrap()["type"], "RUN_ERROR");

    let mut body = ag_ui(&messages);
    body["resume"] =
        json!([{"interruptId": id, "status": "resolved", "payload": {"approved": true}}]);
    let events = run(&server, AG_UI, body).await;
    let kinds: Vec<_> = events
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    assert!(
        kinds.contains(&"TOOL_CALL_RESULT") && !kinds.contains(&"TOOL_CALL_START"),
        "{kinds:?}"
    );
    assert_eq!(events.last().unwrap()["outcome"]["type"], "success");
}

#[tokio::test]
async fn ag_ui_message_that_is_sent_again_is_in_the_snapshot_once() {
    let server = TestServer::start(Server::new().agent("default", asking())).await;
    let messages = json!([{"id": "m1", "role": "user", "content": "Go"}]);
    for _ in 0..2 {
        let events = run(&server, AG_UI, ag_ui(&messages)).await;
        let mut snapshots = events.iter();
        let snapshot = snapshots.rfind(|event| event["type"] == "MESSAGES_SNAPSHOT");
        let messages = snapshot.unwrap()["messages"].as_array().unwrap().iter();
        let count = messages.filter(|message| message["id"] == "m1").count();
        assert_eq!(count, 1, "{events:?}");
    }
}

#[tokio::test]
async fn ag_ui_message_with_an_empty_list_of_answers_is_answered() {
    let server = TestServer::start(Server::new().agent("default", echo())).await;
    let message = |id: &str| json!({"id": id, "role": "user", "content": id});
    for id in ["one", "two"] {
        let mut body = ag_ui(&json!([message(id)]));
        body["resume"] = json!([]);
        let events = run(&server, AG_UI, body).await;
        let answer = format!("You said: {id}");
        assert!(
            events.iter().any(|event| event["delta"] == answer),
            "{events:?}"
        );
    }
    let thread = server.get("/agents/default/threads/th").send().await;
    assert_eq!(thread.ok(200)["messages"].as_array().unwrap().len(), 4);
}

#[tokio::test]
async fn ai_sdk_run_ends_with_done_and_is_approved() {
    let server = TestServer::start(Server::new().agent("default", asking())).await;
    let user = json!({"id": "m1", "role": "user", "parts": [{"type": "text", "text": "Go"}]});
    let body = json!({"id": "th", "messages": [user], "trigger": "submit-message"});
    let response = server.post(AI_SDK, body).open().await;
    assert_eq!(response.header("x-vercel-ai-ui-message-stream"), Some("v1"));
    let events = response.events().await;
    assert_eq!(events.last().unwrap().data, "[DONE]");
    let chunks: Vec<_> = events.iter().filter_map(json_of).collect();
    let request = chunks
        .iter()
        .find(|chunk| chunk["type"] == "tool-approval-request")
        .unwrap();

    let part = json!({"type": "dynamic-tool", "toolName": "act", "toolCallId": request["toolCallId"],
        "state": "approval-responded", "input": {},
        "approval": {"id": request["approvalId"], "approved": true}});
    let assistant = json!({"id": "m2", "role": "assistant", "parts": [part]});
    let body = json!({"id": "th", "messages": [user, assistant], "trigger": "submit-message"});
    let chunks = run(&server, AI_SDK, body).await;
    assert!(
        chunks.iter().any(|chunk| chunk["delta"] == "Done: acted"),
        "{chunks:?}"
    );
}

#[tokio::test]
async fn ai_sdk_message_with_an_empty_text_that_is_sent_again_is_no_edit() {
    let model = ScriptedModel::new().say("Once.");
    let server = TestServer::start(Server::new().agent("default", AgentBuilder::new(model))).await;
    let parts = json!([{"type": "text", "text": "Go"}, {"type": "text", "text": ""}]);
    let user = json!({"id": "m1", "role": "user", "parts": parts});
    let body = json!({"id": "th", "messages": [user], "trigger": "submit-message"});
    for _ in 0..2 {
        let chunks = run(&server, AI_SDK, body.clone()).await;
        let has_answer = chunks.iter().any(|chunk| chunk["delta"] == "Once.");
        assert!(has_answer, "{chunks:?}");
    }
}

#[tokio::test]
async fn message_that_is_sent_again_has_its_answer_in_the_stream() {
    let model = ScriptedModel::new().say("Once.");
    let server = TestServer::start(Server::new().agent("default", AgentBuilder::new(model))).await;
    let user = json!({"id": "m1", "role": "user", "parts": [{"type": "text", "text": "Go"}]});
    let ai_sdk = json!({"id": "th", "messages": [user], "trigger": "submit-message"});
    let ag_ui = ag_ui(&json!([{"id": "m1", "role": "user", "content": "Go"}]));
    let message = json!({"role": "user", "content": "Go"});
    let own = json!({"thread_id": "th", "input_id": "m1", "messages": [message]});
    let bodies = [
        (AI_SDK, &ai_sdk),
        (AI_SDK, &ai_sdk),
        (AG_UI, &ag_ui),
        ("/agents/default/stream?format=events", &own),
        ("/agents/default/stream?format=sdk", &own),
    ];
    for (path, body) in bodies {
        let events = run(&server, path, body.clone()).await;
        let is_answer = |event: &&Value| {
            let texts = [&event["delta"], &event["data"]["delta"]];
            texts.into_iter().any(|text| *text == "Once.") || event["type"] == "assistant"
        };
        let count = events.iter().filter(is_answer).count();
        assert_eq!(count, 1, "{path}: {events:?}");
    }
}

#[tokio::test]
async fn ai_sdk_message_is_answered_again() {
    let model = ScriptedModel::new().say("First.").say("Second.");
    let server = TestServer::start(Server::new().agent("default", AgentBuilder::new(model))).await;
    let user = json!({"id": "m1", "role": "user", "parts": [{"type": "text", "text": "Go"}]});
    let body = |trigger: &str| json!({"id": "th", "messages": [user], "trigger": trigger});
    run(&server, AI_SDK, body("submit-message")).await;
    let chunks = run(&server, AI_SDK, body("regenerate-message")).await;
    assert!(
        chunks.iter().any(|chunk| chunk["delta"] == "Second."),
        "{chunks:?}"
    );
    let thread = server
        .get("/agents/default/threads/th")
        .send()
        .await
        .ok(200);
    assert_eq!(thread["messages"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn ai_sdk_client_with_the_last_messages_alone_removes_no_earlier_ones() {
    let server = TestServer::start(Server::new().agent("default", echo())).await;
    let body = |id: &str, text: &str, trigger: &str| {
        let user = json!({"id": id, "role": "user", "parts": [{"type": "text", "text": text}]});
        json!({"id": "th", "messages": [user], "trigger": trigger})
    };
    let messages = async || {
        let path = "/agents/default/threads/th";
        server.get(path).send().await.ok(200)["messages"].clone()
    };
    for text in ["One", "Two"] {
        run(&server, AI_SDK, body(text, text, "submit-message")).await;
    }
    let stored = messages().await;
    assert_eq!(stored.as_array().unwrap().len(), 4);
    let reply = server.post(AI_SDK, body("x", "One", "regenerate-message"));
    let text = reply.send().await.error(409);
    assert!(text.contains("load the thread again"), "{text}");
    assert_eq!(messages().await, stored);

    // The message is identified by its id, which the new input has as well.
    for _ in 0..2 {
        let chunks = run(&server, AI_SDK, body("Two", "Two", "regenerate-message")).await;
        assert!(
            chunks.iter().any(|chunk| chunk["delta"] == "You said: Two"),
            "{chunks:?}"
        );
        let list = messages().await;
        assert_eq!(list.as_array().unwrap().len(), 4);
        assert_eq!(list[0], stored[0]);
    }
}

#[tokio::test]
async fn ai_sdk_message_that_is_edited_replaces_the_thread_from_there() {
    let server = TestServer::start(Server::new().agent("default", echo())).await;
    let send = async |id: &str, text: &str, trigger: &str| {
        let user = json!({"id": id, "role": "user", "parts": [{"type": "text", "text": text}]});
        let body = json!({"id": "th", "messages": [user], "trigger": trigger, "messageId": id});
        let chunks = run(&server, AI_SDK, body).await;
        let answer = format!("You said: {text}");
        assert!(
            chunks.iter().any(|chunk| chunk["delta"] == answer),
            "{chunks:?}"
        );
        let thread = server.get("/agents/default/threads/th").send().await;
        let messages = thread.ok(200)["messages"].clone();
        let users = messages.as_array().unwrap().iter();
        let users = users.filter(|message| message["role"] == "user");
        let texts: Vec<_> = users.map(|message| message["content"].clone()).collect();
        texts
    };
    send("m1", "One", "submit-message").await;
    assert_eq!(send("m2", "Two", "submit-message").await, ["One", "Two"]);
    for _ in 0..2 {
        // The second time, the message is a repeated input.
        assert_eq!(send("m1", "New", "submit-message").await, ["New"]);
    }
    // A regenerated message keeps its id.
    for id in ["m3", "m4"] {
        let texts = send(id, "Three", "submit-message").await;
        assert_eq!(texts, ["New", "Three"]);
        assert_eq!(send("m1", "New", "regenerate-message").await, ["New"]);
    }
    send("m5", "Five", "submit-message").await;
    assert_eq!(send("m1", "Newer", "submit-message").await, ["Newer"]);
}

#[tokio::test]
async fn ag_ui_message_of_a_failed_run_is_stored_once() {
    let model = ScriptedModel::new()
        .fail(Error::new(ErrorKind::Auth, "no"))
        .say("Yes.");
    let server = TestServer::start(Server::new().agent("default", AgentBuilder::new(model))).await;
    let message = |id: &str| json!({"id": id, "role": "user", "content": id});
    let events = run(&server, AG_UI, ag_ui(&json!([message("u1")]))).await;
    assert_eq!(events.last().unwrap()["type"], "RUN_ERROR", "{events:?}");
    let both = json!([message("u1"), message("u2")]);
    let events = run(&server, AG_UI, ag_ui(&both)).await;
    assert_eq!(events.last().unwrap()["type"], "RUN_FINISHED", "{events:?}");
    let path = "/agents/default/threads/th";
    let thread = server.get(path).send().await.ok(200);
    let text = thread["messages"].to_string();
    assert_eq!(text.matches("u1").count(), 1, "{text}");
}

#[tokio::test]
async fn body_of_another_format_is_a_400() {
    let server = TestServer::start(Server::new().agent("default", echo())).await;
    for path in [AG_UI, AI_SDK] {
        server
            .post(path, json!({"messages": []}))
            .send()
            .await
            .error(400);
    }
    server
        .post(AG_UI, ag_ui(&json!([])))
        .send()
        .await
        .error(400);
}
