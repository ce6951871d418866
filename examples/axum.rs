//! Runs in your own axum application, with three routes: one streams a run, one answers its
//! questions, one stops it. If the client disconnects, the run is cancelled.
//!
//! ```sh
//! cargo run --example axum --features server
//! curl -N http://127.0.0.1:3000/runs -d 'Remove the old files'
//! curl http://127.0.0.1:3000/answers/ID -d yes
//! curl -X DELETE http://127.0.0.1:3000/runs/SESSION
//! ```
//!
//! `ID` is the `id` of the `permission_request` in the stream, `SESSION` the `session_id` of any of
//! its messages.
//!
//! The module `agentcore::server` has such routes, with logins, limits and streams that can be
//! continued.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use agentcore::testing::ScriptedModel;
use agentcore::tool::{GateRequest, PermissionGate};
use agentcore::{Agent, Answer, FuncTool, Responder, SdkMessage, ToolDecision, async_trait};
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::{delete, post};
use futures::StreamExt;
use serde_json::json;

#[derive(Clone)]
struct App {
    agent: Agent,
    /// The responders of the runs, by the ids of their questions.
    questions: Arc<Mutex<HashMap<String, Responder>>>,
}

/// Streams a run. The stream owns the run: if the client disconnects, axum drops both.
async fn start(State(app): State<App>, input: String) -> impl IntoResponse {
    let run = app.agent.new_session().run(input);
    let responder = run.responder();
    let events = run.map(move |message| {
        if let SdkMessage::PermissionRequest(request) = &message {
            let mut questions = app.questions.lock().expect("no holder panics");
            questions.insert(request.id.to_string(), responder.clone());
        }
        serde_json::to_string(&message).map(|line| format!("data: {line}\n\n"))
    });
    let headers = [(header::CONTENT_TYPE, "text/event-stream")];
    (headers, Body::from_stream(events))
}

/// Answers a question with `yes`, or with the reason of a denial.
async fn answer(State(app): State<App>, Path(id): Path<String>, text: String) -> StatusCode {
    let responder = app.questions.lock().expect("no holder panics").remove(&id);
    let answer = match text.as_str() {
        "yes" => Answer::Allow,
        reason => Answer::Deny(reason.to_owned()),
    };
    if responder.is_some_and(|responder| responder.respond(&id, answer)) {
        StatusCode::OK
    } else {
        StatusCode::NOT_FOUND
    }
}

/// Stops the run of a session. Its stream ends with the result.
async fn stop(State(app): State<App>, Path(session): Path<String>) -> StatusCode {
    let Some(handle) = app.agent.handle(&session) else {
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
    let app = App {
        agent: agent()?,
        questions: Arc::default(),
    };
    let router = Router::new()
        .route("/runs", post(start))
        .route("/runs/{session}", delete(stop))
        .route("/answers/{id}", post(answer))
        .with_state(app);
    let port = std::env::args().nth(1).and_then(|port| port.parse().ok());
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port.unwrap_or(3000))).await?;
    println!("http://{}/runs", listener.local_addr()?);
    axum::serve(listener, router).await?;
    Ok(())
}
