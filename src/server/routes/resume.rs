//! Decisions about calls that waited.

use axum::extract::State;
use axum::response::Response;
use schemars::JsonSchema;
use serde::Deserialize;

use super::super::api::{Api, Operation, Verb};
use super::super::app::App;
use super::super::error::ApiError;
use super::super::json::RawBody;
use super::super::users::Caller;
use super::super::values::ValueRoom;
use super::decisions::DecisionBody;
use super::invoke::{self, RunReply};
use super::launch::{LaunchInput, LaunchOptions, launch};
use super::opened_thread::open_existing;
use super::path::Path;
use super::query::StreamRequest;
use super::schemas;
use super::stream::{FORMATS, StreamCall};

pub(super) fn routes(api: Api) -> Api {
    let operation = |path, summary| {
        Operation::new(Verb::Post, path, "runs", summary)
            .body::<ResumeBody>()
            .query::<schemas::StreamFormatName>("format", FORMATS)
            .reply_or_stream::<RunReply>()
            .fails(
                409,
                "a call does not wait, its question has expired, its arguments differ, or another \
                 agent asked about it",
            )
            .fails(502, "the provider of the model failed")
    };
    let summary = "Continues a run of the agent `default` whose calls waited for decisions.";
    api.route(operation("/agents/resume", summary), resume)
        .route(
            operation(
                "/agents/{id}/resume",
                "Continues a run whose calls waited for decisions.",
            ),
            resume,
        )
}

/// The body of `/resume`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ResumeBody {
    /// The thread.
    thread_id: String,
    /// The decisions. Calls without one wait on.
    decisions: Vec<DecisionBody>,
    /// Set to `false` to record no trace of the run.
    trace: Option<bool>,
}

async fn resume(
    State(app): State<App>,
    caller: Caller,
    path: Path,
    request: StreamRequest,
    body: RawBody,
) -> Result<Response, ApiError> {
    let (body, space) = body.parse::<ResumeBody>(&app)?;
    if body.decisions.is_empty() {
        return Err(ApiError::bad_request("decisions must not be empty"));
    }
    let opened = open_existing(&app, &caller, &path.agent, &body.thread_id).await?;
    let pending = opened.pending();
    opened.check_agent(&app, &pending)?;
    let pending_by_id = pending.iter().map(|call| (&*call.id, call)).collect();
    let mut room = ValueRoom::default();
    let decisions = body
        .decisions
        .into_iter()
        .map(|decision| decision.decision(&pending_by_id, &mut room))
        .collect::<Result<Vec<_>, _>>()?;
    crate::agent::check_decisions(&decisions, &pending)?;

    let options = LaunchOptions {
        is_traced: body.trace.unwrap_or(true),
        leaves_calls_pending: request.is_explicit && request.format.leaves_calls_pending(),
        ..LaunchOptions::default()
    };
    let launch_input = LaunchInput::Decisions(decisions);
    if request.is_explicit {
        let call = StreamCall {
            app: &app,
            caller: &caller,
            agent: &path.agent,
            format: request.format,
        };
        call.launch_and_follow(opened, launch_input, options).await
    } else {
        let run = launch(&app, &caller, opened, launch_input, options)?;
        drop(space);
        invoke::reply(&app, run).await
    }
}
