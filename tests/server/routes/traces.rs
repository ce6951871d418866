//! Traces of runs.

use agentcore::hooks::TracingHook;
use agentcore::server::Server;
use agentcore::testing::FunctionModel;
use agentcore::{AgentBuilder, FuncTool, ModelEvent, ToolCall};
use serde_json::json;

use crate::agents::{echo, input, login, text};
use crate::http::TestServer;

#[tokio::test]
async fn trace_of_a_run_has_its_spans_as_a_tree() {
    let agent = echo().hook(TracingHook::new().with_run_span(true));
    let server = TestServer::start(Server::new().agent("default", agent)).await;
    let reply = server
        .post("/agents/invoke", input("Hi"))
        .send()
        .await
        .ok(200);
    let id = reply["trace_id"].as_str().unwrap();
    let trace = server
        .get(&format!("/agents/traces/{id}"))
        .send()
        .await
        .ok(200);
    assert_eq!(
        (&trace["trace_id"], &trace["thread_id"]),
        (&json!(id), &reply["thread_id"])
    );
    let run = &trace["spans"][0];
    assert_eq!(run["name"], "agent.run");
    assert_eq!(run["children"][0]["name"], "llm.call");
    assert!(run["duration_ms"].is_number());

    let list = server.get("/agents/traces?limit=1").send().await.ok(200);
    assert_eq!(
        (&list["traces"][0]["trace_id"], &list["traces"][0]["spans"]),
        (&json!(id), &json!(2))
    );
}

#[tokio::test]
async fn trace_of_a_run_with_many_calls_has_a_limit_and_counts_the_rest() {
    let model = FunctionModel::new(|request| {
        if request.messages.len() > 1 {
            return vec![text("Done.".to_owned())];
        }
        let calls = (0..1_000).map(|number| {
            let call = ToolCall::new(format!("call_{number}"), "act", json!({}));
            Ok(ModelEvent::ToolCall(call))
        });
        calls.collect()
    });
    let act = FuncTool::new("act", "Acts", json!({"type": "object"}), |_, _| async {
        "acted"
    });
    let agent = AgentBuilder::new(model).tool(act).hook(TracingHook::new());
    let server = TestServer::start(Server::new().agent("default", agent)).await;
    let reply = server.post("/agents/invoke", input("Go")).send().await;
    let id = reply.ok(200)["trace_id"].as_str().unwrap().to_owned();
    let list = server.get("/agents/traces").send().await.ok(200);
    let count = list["traces"][0]["spans"].as_u64().unwrap();
    assert!((100..=1_000).contains(&count), "{count}");
    let trace = server.get(&format!("/agents/traces/{id}")).send().await;
    assert!(trace.body.len() < 1024 * 1024, "{}", trace.body.len());
    let trace = trace.ok(200);
    let spans = trace["spans"].as_array().unwrap();
    let last = spans.last().unwrap();
    assert_eq!(last["name"], "dropped");
    assert!(last["attributes"]["parts"].as_u64().unwrap() > 0, "{last}");
}

#[tokio::test]
async fn trace_is_left_out_on_request() {
    let server = TestServer::start(Server::new().agent("default", echo())).await;
    let mut body = input("Hi");
    body["trace"] = false.into();
    let reply = server.post("/agents/invoke", body).send().await.ok(200);
    let path = format!("/agents/traces/{}", reply["trace_id"].as_str().unwrap());
    server.get(&path).send().await.error(404);
    assert_eq!(
        server.get("/agents/traces").send().await.ok(200)["traces"],
        json!([])
    );
    for limit in ["0", "101", "x"] {
        server
            .get(&format!("/agents/traces?limit={limit}"))
            .send()
            .await
            .error(400);
    }
}

#[tokio::test]
async fn trace_of_another_user_is_a_404() {
    let server = Server::new().agent("default", echo()).users(login);
    let server = TestServer::start_with_own_login(server).await;
    let reply = server
        .post("/agents/invoke", input("Hi"))
        .of_user("ann")
        .send()
        .await
        .ok(200);
    let path = format!("/agents/traces/{}", reply["trace_id"].as_str().unwrap());
    server.get(&path).of_user("ann").send().await.ok(200);
    server.get(&path).of_user("ben").send().await.error(404);
    let list = server
        .get("/agents/traces")
        .of_user("ben")
        .send()
        .await
        .ok(200);
    assert_eq!(list["traces"], json!([]));
}
