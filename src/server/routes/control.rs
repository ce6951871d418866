//! The control of runs in progress.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::run::SteerRefusal;
use crate::tool::PermissionMode;
use crate::util::text::quoted;

use super::super::api::{Api, Operation, Verb};
use super::super::app::App;
use super::super::error::ApiError;
use super::super::json::{JsonBody, OptionalBody};
use super::super::runs::ServerRun;
use super::super::users::Caller;
use super::input::{SteerBody, checked_input_id};
use super::path::Path;

pub(super) fn routes(api: Api) -> Api {
    let operation = |path, summary| {
        Operation::new(Verb::Post, path, "threads", summary)
            .status(202)
            .fails(404, "the thread has no run in progress")
    };
    let interrupt_operation = operation(
        "/agents/{id}/threads/{thread}/interrupt",
        "Stops the run of a thread.",
    );
    let steer_operation = operation(
        "/agents/{id}/threads/{thread}/steer",
        "Adds a message of the user to the run of a thread.",
    )
    .fails(429, "too many messages wait for the next model call");
    let compact_operation = operation(
        "/agents/{id}/threads/{thread}/compact",
        "Summarizes the history before the next model call of a thread's run.",
    );
    let mode_operation = operation(
        "/agents/{id}/threads/{thread}/mode",
        "Sets the permission mode of a thread's run. `bypassPermissions` is for admins.",
    );
    let model_operation = operation(
        "/agents/{id}/threads/{thread}/model",
        "Sets the model of a thread's run, from the next turn on.",
    );
    api.route(interrupt_operation.optional_body::<NoBody>(), interrupt)
        .route(steer_operation.body::<SteerBody>(), steer)
        .route(compact_operation.optional_body::<NoBody>(), compact)
        .route(mode_operation.body::<ModeBody>(), mode)
        .route(model_operation.body::<ModelBody>(), model)
}

/// A body without keys.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NoBody {}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ModeBody {
    /// `default`, `plan`, `acceptEdits`, `bypassPermissions` or `dontAsk`.
    mode: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ModelBody {
    /// A model of the agents or of `Server::models`.
    model: String,
}

/// Returns the run of a thread that is in progress, of any agent that shares the thread.
async fn running(app: &App, caller: &Caller, path: &Path) -> Result<Arc<ServerRun>, ApiError> {
    let run = app.run(caller, &path.agent, &path.thread).await;
    let run = run.filter(|run| run.is_running());
    run.ok_or_else(|| no_run(path))
}

fn no_run(path: &Path) -> ApiError {
    ApiError::not_found(format!(
        "thread {:?} has no run in progress on this server; begin one with /stream",
        path.thread
    ))
}

async fn interrupt(
    State(app): State<App>,
    caller: Caller,
    path: Path,
    _body: OptionalBody<NoBody>,
) -> Result<StatusCode, ApiError> {
    running(&app, &caller, &path).await?.handle().interrupt();
    Ok(StatusCode::ACCEPTED)
}

async fn steer(
    State(app): State<App>,
    caller: Caller,
    path: Path,
    JsonBody(body): JsonBody<SteerBody>,
) -> Result<StatusCode, ApiError> {
    let message = body.message()?;
    let id = checked_input_id(body.input_id.as_deref())?;
    let run = running(&app, &caller, &path).await?;
    match run.handle().try_steer(id.map(Into::into), message) {
        Ok(()) => Ok(StatusCode::ACCEPTED),
        Err(SteerRefusal::Ended) => Err(no_run(&path)),
        Err(SteerRefusal::Full) => Err(ApiError::too_many(
            "too many messages wait for the next model call of the run; send it again later",
        )),
    }
}

async fn compact(
    State(app): State<App>,
    caller: Caller,
    path: Path,
    _body: OptionalBody<NoBody>,
) -> Result<StatusCode, ApiError> {
    running(&app, &caller, &path).await?.handle().compact();
    Ok(StatusCode::ACCEPTED)
}

async fn mode(
    State(app): State<App>,
    caller: Caller,
    path: Path,
    JsonBody(body): JsonBody<ModeBody>,
) -> Result<StatusCode, ApiError> {
    let mode: PermissionMode = body
        .mode
        .parse()
        .map_err(|error: crate::error::Error| ApiError::bad_request(error.to_string()))?;
    if mode == PermissionMode::BypassPermissions {
        caller.require_admin()?;
    }
    let run = running(&app, &caller, &path).await?;
    run.handle().set_permission_mode(mode);
    Ok(StatusCode::ACCEPTED)
}

async fn model(
    State(app): State<App>,
    caller: Caller,
    path: Path,
    JsonBody(body): JsonBody<ModelBody>,
) -> Result<StatusCode, ApiError> {
    let run = running(&app, &caller, &path).await?;
    let templates = app.registry.list();
    let is_of_agents = templates
        .iter()
        .any(|template| template.model == body.model);
    if !is_of_agents && !app.models.contains(&body.model) {
        let text = format!(
            "the model {} is not offered; use one of the agents' models",
            quoted(&body.model)
        );
        return Err(ApiError::bad_request(text));
    }
    let model = app
        .registry
        .model(&body.model)
        .map_err(|error| ApiError::bad_request(error.to_string()))?;
    run.handle().set_model(model);
    Ok(StatusCode::ACCEPTED)
}
