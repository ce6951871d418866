//! The backend of a user's agent.

use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::registry::ContainerAction;

use super::super::api::{Api, Operation, Verb};
use super::super::app::App;
use super::super::error::ApiError;
use super::super::json::JsonBody;
use super::super::users::Caller;
use super::path::Path;

pub(super) fn routes(api: Api) -> Api {
    let backend_operation = Operation::new(
        Verb::Patch,
        "/agents/{id}/backend",
        "agents",
        "Sets the engine of the user's container.",
    );
    let container_operation = Operation::new(
        Verb::Post,
        "/agents/{id}/container",
        "agents",
        "Stops or restarts the user's container.",
    );
    api.route(
        backend_operation
            .body::<BackendBody>()
            .reply::<BackendReply>()
            .admin(),
        set_backend,
    )
    .route(
        container_operation
            .body::<ContainerBody>()
            .reply::<ContainerReply>(),
        container,
    )
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct BackendBody {
    /// `local` or `remote`.
    #[serde(default)]
    mode: String,
    /// The address of the engine, such as `ssh://build@example.org`.
    sandbox_url: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct BackendReply {
    agent_id: String,
    sandbox_url: Option<String>,
    /// `local`, `state` or `docker`.
    backend_type: &'static str,
    container_status: Option<String>,
}

async fn set_backend(
    State(app): State<App>,
    caller: Caller,
    path: Path,
    JsonBody(body): JsonBody<BackendBody>,
) -> Result<Json<BackendReply>, ApiError> {
    caller.require_admin()?;
    let instance = app.instance(&path.agent, &caller).await?;
    let url = body.sandbox_url.as_deref().filter(|url| !url.is_empty());
    let info = instance.set_backend(&body.mode, url).await?;
    Ok(Json(BackendReply {
        agent_id: instance.id().to_owned(),
        sandbox_url: info.sandbox_url,
        backend_type: info.backend_type,
        container_status: info.container_status,
    }))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ContainerBody {
    action: ContainerAction,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ContainerReply {
    agent_id: String,
    action: ContainerAction,
    container_status: String,
}

async fn container(
    State(app): State<App>,
    caller: Caller,
    path: Path,
    JsonBody(body): JsonBody<ContainerBody>,
) -> Result<Json<ContainerReply>, ApiError> {
    let instance = app.instance(&path.agent, &caller).await?;
    let container_status = instance.container(body.action).await?;
    Ok(Json(ContainerReply {
        agent_id: instance.id().to_owned(),
        action: body.action,
        container_status,
    }))
}
