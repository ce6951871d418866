//! Runs whose messages are streamed.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;

use super::super::api::{Api, Operation, Verb};
use super::super::app::App;
use super::super::error::ApiError;
use super::super::json::RawBody;
use super::super::runs::ServerRun;
use super::super::stream::StreamFormat;
use super::super::stream_reply;
use super::super::users::Caller;
use super::clients;
use super::input::RunBody;
use super::launch::{LaunchOptions, Work, launch, open};
use super::path::Path;
use super::query::StreamRequest;

pub(super) fn routes(api: Api) -> Api {
    let operation = |path, summary| {
        Operation::new(Verb::Post, path, "runs", summary)
            .body::<RunBody>()
            .query::<String>("format", FORMATS)
            .stream()
            .fails(409, "the thread has a run already")
    };
    api.route(
        operation(
            "/agents/stream",
            "Runs the agent `default` and streams its messages.",
        ),
        stream,
    )
    .route(
        operation(
            "/agents/{id}/stream",
            "Runs an agent and streams its messages.",
        ),
        stream,
    )
}

/// The description of the parameter `format`.
pub(super) const FORMATS: &str = "The format of the stream: events (default), sdk, ndjson, ag-ui \
                                  or ai-sdk. The body is that of the format's clients.";

async fn stream(
    State(app): State<App>,
    caller: Caller,
    path: Path,
    request: StreamRequest,
    body: RawBody,
) -> Result<Response, ApiError> {
    match request.format {
        StreamFormat::AgUi => return clients::ag_ui(&app, &caller, &path, &request, &body).await,
        StreamFormat::AiSdk => return clients::ai_sdk(&app, &caller, &path, &request, &body).await,
        StreamFormat::Events | StreamFormat::Sdk | StreamFormat::Ndjson => {}
    }
    let body: RunBody = body.parse(&app)?;
    let messages = body.messages()?;
    let input_id = body.checked_input_id()?.map(Arc::from);
    let opened = open(&app, &caller, &path.agent, body.thread_id.as_deref()).await?;
    let options = LaunchOptions {
        is_traced: body.is_traced(),
        ..LaunchOptions::default()
    };
    let run = launch(
        &app,
        &caller,
        opened,
        Work::Input(messages, input_id),
        options,
    )?;
    follow(&app, &run, &request, None).await
}

/// The response with the stream of a run, from its beginning.
///
/// # Errors
///
/// 409 if another process has the session.
pub(super) async fn follow(
    app: &App,
    run: &Arc<ServerRun>,
    request: &StreamRequest,
    client_run_id: Option<Arc<str>>,
) -> Result<Response, ApiError> {
    let reader = run.reader(request.format, client_run_id, None)?;
    run.opened().await;
    if let Some(error) = run.busy_error() {
        app.runs.forget(run);
        return Err(ApiError::of_run(error));
    }
    Ok(stream_reply::of_run(reader, request.format, app.keep_alive))
}
