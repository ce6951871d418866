//! Tools that clients register.

use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::error::{Error, ErrorKind};
use crate::tool::HttpTool;

use super::super::api::{Api, Operation, Verb};
use super::super::app::App;
use super::super::error::ApiError;
use super::super::json::JsonBody;
use super::super::users::Caller;
use super::super::values::ValueRoom;
use super::path::Path;

/// The event that is published when tools have changed.
const CHANGED: &str = "tools_changed";

/// The maximum length of a tool's address, in bytes.
const MAX_URL: usize = 2_048;

pub(super) fn routes(api: Api) -> Api {
    let register_operation = Operation::new(
        Verb::Post,
        "/agents/tools/register",
        "tools",
        "Registers a tool of the user that is called at an address, from the next turn on.",
    );
    let deregister_operation = Operation::new(
        Verb::Delete,
        "/agents/tools/deregister/{name}",
        "tools",
        "Removes a tool that the user registered, from the next turn on.",
    );
    api.route(
        register_operation
            .body::<RegisterBody>()
            .reply::<RegisterReply>()
            .fails(409, "a tool of the program has the name"),
        register,
    )
    .route(deregister_operation.reply::<RegisterReply>(), deregister)
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RegisterBody {
    #[serde(default)]
    name: String,
    #[serde(default)]
    description: String,
    /// The JSON Schema of the arguments: an object.
    #[schemars(with = "Option<Value>")]
    parameters: Option<Box<RawValue>>,
    /// The address; calls go to `{callback_url}/tools/{name}`.
    #[serde(default)]
    callback_url: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct RegisterReply {
    /// `registered` or `deregistered`.
    status: &'static str,
    name: String,
}

async fn register(
    State(app): State<App>,
    caller: Caller,
    JsonBody(body): JsonBody<RegisterBody>,
) -> Result<Json<RegisterReply>, ApiError> {
    if body.name.is_empty() {
        return Err(ApiError::bad_request("name is required"));
    }
    if body.callback_url.is_empty() {
        return Err(ApiError::bad_request("callback_url is required"));
    }
    if body.callback_url.len() > MAX_URL {
        let text = format!(
            "callback_url is longer than {MAX_URL} bytes, which is the limit; use a shorter one"
        );
        return Err(ApiError::bad_request(text));
    }
    let name = body.name;
    let parameters = match body.parameters {
        Some(json) => ValueRoom::default().parse("parameters", &json)?,
        None => json!({"type": "object", "properties": {}}),
    };
    let tool = HttpTool::of_user(
        name.clone(),
        body.description,
        parameters,
        &body.callback_url,
        app.callbacks.clone(),
    )
    .map_err(refused)?;
    let tools = app.registry.tools();
    tools.register_for(caller.id(), tool).map_err(refused)?;
    app.registry.events().publish_to(caller.id(), CHANGED);
    Ok(Json(RegisterReply {
        status: "registered",
        name,
    }))
}

/// Returns the error of a tool that cannot be registered, which is the client's.
fn refused(error: Error) -> ApiError {
    match error.kind() {
        ErrorKind::Config | ErrorKind::Tool => ApiError::bad_request(error.to_string()),
        _ => error.into(),
    }
}

async fn deregister(
    State(app): State<App>,
    caller: Caller,
    path: Path,
) -> Result<Json<RegisterReply>, ApiError> {
    let name = path.name;
    if !app.registry.tools().deregister_for(caller.id(), &name) {
        return Err(ApiError::not_found(format!("tool {name:?} not found")));
    }
    app.registry.events().publish_to(caller.id(), CHANGED);
    Ok(Json(RegisterReply {
        status: "deregistered",
        name,
    }))
}
