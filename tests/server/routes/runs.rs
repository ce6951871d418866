//! Runs: `invoke` and `stream`.

use std::time::Duration;

use agentcore::server::{RunLimits, Server, ServerLimits};
use agentcore::testing::ScriptedModel;
use agentcore::{AgentBuilder, Error, ErrorKind, FuncTool, ToolContext};
use serde_json::{Value, json};

use crate::agents::{Gate, caller, echo, input, input_in};
use crate::http::TestServer;

async fn server_of(agent: AgentBuilder) -> TestServer {
    TestServer::start(Server::new().agent("default", agent)).await
}

#[tokio::test]
async fn invoke_of_a_new_thread_returns_the_output_and_its_id() {
    let server = server_of(echo()).await;
    let reply = server
        .post("/agents/invoke", input("Hi"))
        .send()
        .await
        .ok(200);
    assert_eq!(reply["response"], "You said: Hi");
    assert_eq!(
        (&reply["end"], &reply["interrupted"]),
        (&json!("end_turn"), &json!(false))
    );
    let thread = reply["thread_id"].as_str().unwrap();
    assert!(thread.len() >= 32, "{thread}");
    for key in ["tool_calls", "todos"] {
        assert_eq!(reply[key], json!([]), "{key}");
    }
    assert_eq!(reply["files"], json!({}));
    for key in [
        "structured_response",
        "interrupted_tool",
        "interrupted_args",
    ] {
        assert!(reply[key].is_null(), "{key}");
    }
    assert!(reply["usage"].is_object() && reply["trace_id"].is_string());
    server.stop().await;
}

#[tokio::test]
async fn invoke_with_a_thread_continues_it() {
    let server = server_of(echo()).await;
    for text in ["one", "two"] {
        let body = input_in("th:1", text);
        let reply = server
            .post("/agents/default/invoke", body)
            .send()
            .await
            .ok(200);
        assert_eq!(reply["thread_id"], "th:1");
    }
    let thread = server
        .get("/agents/default/threads/th:1")
        .send()
        .await
        .ok(200);
    assert_eq!(thread["messages"].as_array().unwrap().len(), 4);
}

#[tokio::test]
async fn invoke_reports_the_calls_of_the_run_alone() {
    let agent = caller("add", json!({"a": 2, "b": 3})).tool(add());
    let server = server_of(agent).await;
    for _ in 0..2 {
        let reply = server
            .post("/agents/invoke", input_in("th", "2+3?"))
            .send()
            .await
            .ok(200);
        assert_eq!(reply["response"], "Done: 5");
        let calls = reply["tool_calls"].as_array().unwrap();
        assert_eq!(calls.len(), 1, "{reply}");
        assert_eq!(
            (&calls[0]["name"], &calls[0]["args"]["a"]),
            (&json!("add"), &json!(2))
        );
    }
}

fn add() -> FuncTool {
    FuncTool::new(
        "add",
        "Adds",
        json!({"type": "object"}),
        |_: ToolContext, args: Value| async move {
            format!(
                "{}",
                args["a"].as_f64().unwrap() + args["b"].as_f64().unwrap()
            )
        },
    )
}

#[tokio::test]
async fn invoke_with_the_same_input_id_runs_once() {
    let server = server_of(AgentBuilder::new(ScriptedModel::new().say("Once."))).await;
    for _ in 0..2 {
        let mut body = input_in("th", "Hi");
        body["input_id"] = "in_1".into();
        let reply = server.post("/agents/invoke", body).send().await.ok(200);
        assert_eq!(reply["response"], "Once.");
    }
}

#[tokio::test]
async fn long_reply_of_a_run_waits_for_the_space_of_others_of_the_user() {
    let long = "x".repeat(8 * 1024 * 1024);
    let model = ScriptedModel::new().say(&long).say(&long).say("short");
    let runs = RunLimits::default().with_reader_bytes_per_user(1024 * 1024);
    let limits = ServerLimits::default().with_runs(runs);
    let server = Server::new().agent("default", AgentBuilder::new(model));
    let server = TestServer::start(server.limits(limits)).await;
    let invoke = |text| server.post("/agents/invoke", input(text));
    // The socket buffer cannot hold the reply, so the reply occupies the whole space.
    let unread = invoke("one").open().await;
    let second = server.post("/agents/invoke", input_in("second", "two"));
    let mut second = Box::pin(second.send());
    let run_end = async {
        loop {
            let list = server.get("/agents/default/threads").send().await.ok(200);
            let threads = list["threads"].as_array().unwrap();
            let has_ended = |thread: &Value| thread["id"] == "second" && thread["running"] == false;
            if threads.iter().any(has_ended) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        // Much longer than the reply takes.
        tokio::time::sleep(Duration::from_secs(4)).await;
    };
    tokio::select! {
        () = run_end => {}
        reply = &mut second => panic!("a reply of {} bytes", reply.body.len()),
    }
    assert_eq!(invoke("three").send().await.ok(200)["response"], "short");

    let first = unread.whole().await.ok(200);
    assert_eq!(first["response"].as_str().unwrap().len(), long.len());
    let second = second.await.ok(200);
    assert_eq!(second["response"].as_str().unwrap().len(), long.len());
}

#[tokio::test]
async fn body_with_an_unknown_key_is_a_400_that_names_the_near_one() {
    let server = server_of(echo()).await;
    let mut body = input("Hi");
    body["threadId"] = "th".into();
    for path in ["/agents/invoke", "/agents/stream", "/agents/default/stream"] {
        let reply = server.post(path, body.clone()).send().await;
        assert_eq!(
            reply.error(400),
            r#"the body has the unknown key "threadId"; did you mean "thread_id"?"#
        );
    }
    let cases = [
        ("/agents/invoke", json!({"message": "Hi"}), "\"messages\""),
        (
            "/agents/resume",
            json!({"thread_id": "th", "decisions": [{"id": "a", "arg_hash": "b"}]}),
            "\"args_hash\"",
        ),
        ("/agents/hitl/a", json!({"anwser": "allow"}), "\"answer\""),
        (
            "/agents/default/threads/th/steer",
            json!({"contents": "x"}),
            "\"content\"",
        ),
        (
            "/agents/default/threads/th/interrupt",
            json!({"reason": "x"}),
            "unknown key",
        ),
        (
            "/agents/default/threads/th/fork",
            json!({"position": 1}),
            "use one of: at",
        ),
        (
            "/agents/tools/register",
            json!({"name": "x", "callbackUrl": "https://a.example"}),
            "\"callback_url\"",
        ),
    ];
    for (path, body, text) in cases {
        let error = server.post(path, body).send().await.error(400);
        assert!(error.contains(text), "{path}: {error}");
    }
    let list = server.get("/agents/default/threads").send().await.ok(200);
    assert_eq!(list["threads"], json!([]));
}

#[tokio::test]
async fn stream_names_its_thread_in_a_header_and_in_its_first_event() {
    let server = server_of(echo()).await;
    let stream = server.post("/agents/stream", input("Hi")).open().await;
    let thread = stream.header("x-thread-id").unwrap().to_owned();
    let events = stream.events().await;
    let json = |event: &crate::http::Event| serde_json::from_str::<Value>(&event.data).unwrap();
    assert_eq!(json(&events[0])["event"], "on_chat_model_start");
    assert_eq!(json(&events[0])["thread_id"], thread);
    assert!(json(&events[1])["thread_id"].is_null());
    let end = json(events.last().unwrap());
    assert_eq!(end["thread_id"], thread);
    assert!(
        events[0]
            .id
            .starts_with(end["data"]["trace_id"].as_str().unwrap())
    );

    let path = format!("/agents/default/threads/{thread}/events");
    let again = server.get(&path).open().await;
    assert_eq!(again.header("x-thread-id"), Some(&*thread));
    assert_eq!(again.events().await, events);
}

#[tokio::test]
async fn stream_of_a_run_that_is_stopped_ends_with_the_reason() {
    let (mut gate, tool) = Gate::new();
    let server = server_of(caller("wait", json!({})).tool(tool)).await;
    let stream = server.post("/agents/stream", input("Go")).open().await;
    gate.begun().await;
    let thread = stream.header("x-thread-id").unwrap();
    let path = format!("/agents/default/threads/{thread}/interrupt");
    let reply = server.request("POST", &path).send().await;
    assert_eq!(reply.status, 202);
    let events = stream.events().await;
    let last: Value = serde_json::from_str(&events.last().unwrap().data).unwrap();
    assert_eq!(
        (&last["event"], &last["data"]["reason"]),
        (&json!("error"), &json!("aborted_tools"))
    );
}

#[tokio::test]
async fn invoke_with_invalid_messages_is_a_400_that_names_the_message() {
    let server = server_of(echo()).await;
    let cases = [
        (json!({}), "messages must not be empty"),
        (json!({"messages": []}), "messages must not be empty"),
        (
            json!({"messages": [{"role": "hacker", "content": "x"}]}),
            "message[0]: unknown role \"hacker\"",
        ),
        (
            json!({"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]}),
            "message[1]: role \"assistant\" not allowed (must be \"user\" or \"system\")",
        ),
        (
            json!({"messages": [{"role": "user", "content": ""}]}),
            "message[0]: content must not be empty",
        ),
    ];
    for path in ["/agents/invoke", "/agents/stream"] {
        for (body, text) in &cases {
            let reply = server.post(path, body.clone()).send().await;
            assert_eq!(reply.error(400), *text);
        }
        let body = input_in("no/slash", "x");
        assert!(
            server
                .post(path, body)
                .send()
                .await
                .error(400)
                .contains("thread id")
        );
    }
}

#[tokio::test]
async fn invoke_of_an_unknown_agent_is_a_404() {
    let server = server_of(echo()).await;
    let reply = server
        .post("/agents/other/invoke", input("Hi"))
        .send()
        .await;
    assert_eq!(reply.error(404), "there is no agent \"other\"");
}

#[tokio::test]
async fn invoke_of_a_thread_with_a_run_is_a_409() {
    let (mut gate, tool) = Gate::new();
    let server = server_of(caller("wait", json!({})).tool(tool)).await;
    let stream = server
        .post("/agents/stream", input_in("th", "Go"))
        .open()
        .await;
    gate.begun().await;
    for path in ["/agents/invoke", "/agents/stream"] {
        let reply = server.post(path, input_in("th", "Again")).send().await;
        assert!(reply.error(409).contains("has a run already"));
        assert_eq!(reply.header("retry-after"), Some("1"));
    }
    gate.open();
    assert_eq!(stream.events().await.last().unwrap().event, "done");
}

#[tokio::test]
async fn invoke_that_fails_at_the_provider_is_a_502_and_else_a_500() {
    let provider = Error::new(ErrorKind::QuotaExhausted, "the quota is used up");
    let model = ScriptedModel::new().fail(provider);
    let server = server_of(AgentBuilder::new(model)).await;
    let reply = server.post("/agents/invoke", input("Hi")).send().await;
    assert!(reply.error(502).contains("the quota is used up"));

    let broken = Error::new(ErrorKind::Other, "the model is broken");
    let server = server_of(AgentBuilder::new(ScriptedModel::new().fail(broken))).await;
    let reply = server.post("/agents/invoke", input("Hi")).send().await;
    assert!(reply.error(500).contains("the model is broken"));
}

#[tokio::test]
async fn stream_has_tool_and_text_events_and_ends_with_done() {
    let agent = caller("add", json!({"a": 2, "b": 3})).tool(add());
    let server = server_of(agent).await;
    let response = server.post("/agents/default/stream", input_in("th_8f3a2b", "Add 2+3"));
    let response = response.open().await;
    assert_eq!(response.status, 200);
    assert_eq!(response.header("content-type"), Some("text/event-stream"));
    assert_eq!(response.header("cache-control"), Some("no-cache"));
    assert_eq!(response.header("x-accel-buffering"), Some("no"));

    let events = response.events().await;
    let of_kind = |kind: &str| {
        let events = events.iter().filter(move |event| event.event == kind);
        events
            .map(|event| serde_json::from_str::<Value>(&event.data).unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        of_kind("on_tool_start")[0]["data"]["args"],
        json!({"a": 2, "b": 3})
    );
    assert_eq!(of_kind("on_tool_start")[0]["name"], "add");
    assert_eq!(of_kind("on_tool_end")[0]["data"]["output"], "5");
    assert_eq!(
        of_kind("on_chat_model_stream")[0]["data"]["delta"],
        "Done: 5"
    );
    assert_eq!(of_kind("done")[0]["thread_id"], "th_8f3a2b");
    assert_eq!(events.last().unwrap().event, "done");
    assert!(
        events.iter().all(|event| event.id.contains(':')),
        "{events:?}"
    );
}

#[tokio::test]
async fn stream_has_the_format_of_the_query_or_of_accept() {
    let server = server_of(echo()).await;
    let sdk = server
        .post("/agents/stream?format=sdk", input("Hi"))
        .open()
        .await
        .events()
        .await;
    let first: Value = serde_json::from_str(&sdk[0].data).unwrap();
    assert_eq!(
        (&first["type"], &first["subtype"]),
        (&json!("system"), &json!("init"))
    );

    let request = server.post("/agents/stream", input("Hi"));
    let lines = request
        .header("accept", "application/x-ndjson")
        .send()
        .await;
    assert_eq!(lines.header("content-type"), Some("application/x-ndjson"));
    let text = lines.text();
    let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(last["type"], "result");

    let request = server.post("/agents/stream", input("Hi"));
    let request = request.header("accept", "text/event-stream;format=sdk");
    assert_eq!(request.open().await.events().await[0].event, "");

    let reply = server
        .post("/agents/stream?format=xml", input("Hi"))
        .send()
        .await;
    assert!(reply.error(400).contains("unknown format \"xml\""));
}

#[tokio::test]
async fn stream_of_a_run_that_fails_ends_with_an_error() {
    let error = Error::new(ErrorKind::Other, "the model is broken");
    let server = server_of(AgentBuilder::new(ScriptedModel::new().fail(error))).await;
    let events = server
        .post("/agents/stream", input("Hi"))
        .open()
        .await
        .events()
        .await;
    let last = events.last().unwrap();
    assert_eq!(last.event, "error");
    assert!(last.data.contains("the model is broken"));
    let json: Value = serde_json::from_str(&last.data).unwrap();
    assert_eq!(json["data"]["reason"], "api_error");
}

#[tokio::test]
async fn run_continues_when_its_reader_leaves() {
    let (mut gate, tool) = Gate::new();
    let server = server_of(caller("wait", json!({})).tool(tool)).await;
    let stream = server
        .post("/agents/stream", input_in("th", "Go"))
        .open()
        .await;
    gate.begun().await;
    drop(stream);
    gate.open();
    let events = server
        .get("/agents/default/threads/th/events")
        .open()
        .await
        .events()
        .await;
    assert_eq!(events.last().unwrap().event, "done");
}

#[tokio::test]
async fn stream_begins_before_the_first_event_of_a_model_that_thinks() {
    let model = ScriptedModel::new().say("Late.");
    let model = model.delayed(Duration::from_secs(3_600));
    let server = TestServer::start(Server::new().agent("default", AgentBuilder::new(model))).await;
    let stream = server
        .post("/agents/stream?format=sdk", input_in("th", "Go"))
        .open();
    let mut stream = stream.await;
    assert_eq!(stream.status, 200);
    let init = stream.event().await.unwrap();
    assert!(init.data.contains("\"init\""), "{init:?}");
}
