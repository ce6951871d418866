//! Runs in your own axum application, with three routes: one streams a run, one answers its
//! questions, one stops it. If the client disconnects, the run is cancelled.
//!
//! ```sh
//! cargo run --example axum --features server
//! curl -N http://127.0.0.1:3000/runs -d 'Remove the old files'
//! curl http://127.0.0.1:3000/runs/SESSION/answers/ID -d yes
//! curl -X DELETE http://127.0.0.1:3000/runs/SESSION
//! ```
//!
//! `SESSION` is the `session_id` of the first message in the stream, `ID` the `id` of a
//! `permission_request`. The last request stops a run that is in progress, such as one that waits
//! for its answer. The script of the model is for one run: start the program again for another.
//!
//! The module `agentcore::server` has such routes, with logins, limits and streams that can be
//! continued.

use agentcore::testing::ScriptedModel;
use agentcore::tool::{GateRequest, PermissionGate};
use agentcore::{Agent, Answer, FuncTool, ToolDecision, async_trait};
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::{delete, post};
use futures::StreamExt;
use serde_json::json;

/// Streams a run. The stream owns the run: if the client disconnects, axum drops both.
async fn start(State(agent): State<Agent>, input: String) -> impl IntoResponse {
    let run = agent.new_session().run(input);
    let responder = run.responder();
    let events = run.map(move |message| {
        // The run waits for answers as long as a responder exists.
        let _responder = &responder;
        serde_json::to_string(&message).map(|line| format!("data: {line}\n\n"))
    });
    let headers = [(header::CONTENT_TYPE, "text/event-stream")];
    (headers, Body::from_stream(events))
}

/// Answers a question with `yes`, or with the reason of a denial.
async fn answer(
    State(agent): State<Agent>,
    Path((session, id)): Path<(String, String)>,
    text: String,
) -> StatusCode {
    let Some(handle) = agent.handle(&session) else {
        return StatusCode::NOT_FOUND;
    };
    let answer = match text.as_str() {
        "yes" => Answer::Allow,
        reason => Answer::Deny(reason.to_owned()),
    };
    if handle.responder().respond(&id, answer) {
        StatusCode::OK
    } else {
        StatusCode::NOT_FOUND
    }
}

/// Stops the run of a session. Its stream ends with the result.
async fn stop(State(agent): State<Agent>, Path(session): Path<String>) -> StatusCode {
    let Some(handle) = agent.handle(&session) else {
        return StatusCode::NOT_FOUND;
    };
    handle.interrupt();
    StatusCode::OK
}

struct AskAlways;

#[async_trait]
impl PermissionGate for AskAlways {
    async fn check(&self, request: &GateRequest) -> agentcore::Result<ToolDecision> {
        Ok(ToolDecision::ask(format!("May {} run?", request.call.name)))
    }
}

fn agent() -> agentcore::Result<Agent> {
    let remove = FuncTool::new(
        "remove",
        "Removes",
        json!({"type": "object"}),
        |_cx, _args| async { "They are gone." },
    );
    let model = ScriptedModel::new().call("remove", json!({})).say("Done.");
    Agent::builder(model)
        .tool(remove)
        .permissions(AskAlways)
        .build()
}

#[tokio::main]
async fn main() -> agentcore::Result<()> {
    let router = Router::new()
        .route("/runs", post(start))
        .route("/runs/{session}", delete(stop))
        .route("/runs/{session}/answers/{id}", post(answer))
        .with_state(agent()?);
    let port = std::env::args().nth(1).and_then(|port| port.parse().ok());
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port.unwrap_or(3000))).await?;
    println!("http://{}/runs", listener.local_addr()?);
    axum::serve(listener, router).await?;
    Ok(())
}
