//! The agents of the server.

use std::collections::{BTreeMap, HashSet};
use std::iter;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::agent::HookInfo;
use crate::config::AgentConfig;
use crate::error::ErrorKind;
use crate::registry::TemplateInfo;

use super::super::api::{Api, Operation, Verb};
use super::super::app::App;
use super::super::error::ApiError;
use super::super::json::JsonBody;
use super::super::users::Caller;
use super::path::Path;
use super::schemas;

pub(super) fn routes(api: Api) -> Api {
    let group = "agents";
    let list_operation = |path| {
        Operation::new(Verb::Get, path, group, "Lists the agents.").reply::<Vec<AgentReply>>()
    };
    let create_operation = |path| {
        Operation::new(Verb::Post, path, group, "Adds an agent.")
            .body::<CreateBody>()
            .reply::<AgentReply>()
            .status(201)
            .fails(409, "there is an agent with this id")
            .admin()
    };
    let get_operation = Operation::new(Verb::Get, "/agents/{id}", group, "Describes an agent.");
    let delete_operation = Operation::new(
        Verb::Delete,
        "/agents/{id}",
        group,
        "Removes an agent. Its threads stay.",
    );
    api.route(list_operation("/agents/"), list)
        .route(list_operation("/agents"), list)
        .route(create_operation("/agents/"), create)
        .route(create_operation("/agents"), create)
        .route(get_operation.reply::<AgentReply>(), get)
        .route(delete_operation.status(204).admin(), delete)
}

/// The description of an agent.
#[derive(Debug, Serialize, JsonSchema)]
struct AgentReply {
    /// The id in paths.
    id: String,
    name: String,
    description: String,
    model: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_prompt: Option<String>,
    tools: Vec<String>,
    subagents: Vec<String>,
    /// `local`, `state` or `docker`.
    backend_type: Option<&'static str>,
    debug: bool,
    /// The models that a thread may change to.
    models: Vec<String>,
    /// The hooks of the user's agent, outermost first. For one agent alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<schemas::HookInfo>>")]
    hooks: Option<Vec<HookInfo>>,
    /// The maximum number of turns of a run; 0 is no limit. For one agent alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_turns: Option<u32>,
}

impl AgentReply {
    /// Describes an agent. `models` are those of [`models_of`].
    fn new(caller: &Caller, template: TemplateInfo, models: &[String]) -> Self {
        let others = models.iter().filter(|model| **model != template.model);
        let models = iter::once(&template.model).chain(others).cloned().collect();
        Self {
            id: template.id,
            name: template.name,
            description: template.description,
            model: template.model,
            // The instructions of an agent are its owner's.
            system_prompt: template.system_prompt.filter(|_| caller.0.is_admin),
            tools: template.tools,
            subagents: template.subagents,
            backend_type: template.backend_type,
            debug: template.debug,
            models,
            hooks: None,
            max_turns: None,
        }
    }
}

/// Returns the models of these agents and of the server, each once. A request collects them once,
/// because the list of agents copies their prompts.
fn models_of(app: &App, templates: &[TemplateInfo]) -> Vec<String> {
    let mut known_models = HashSet::new();
    let own = templates.iter().map(|template| &template.model);
    let mut models: Vec<&String> = own.chain(&app.models).collect();
    models.retain(|model| known_models.insert(*model));
    models.into_iter().cloned().collect()
}

async fn list(State(app): State<App>, caller: Caller) -> Json<Vec<AgentReply>> {
    let templates = app.registry.list();
    let models = models_of(&app, &templates);
    let templates = templates.into_iter();
    let replies = templates.map(|template| AgentReply::new(&caller, template, &models));
    Json(replies.collect())
}

async fn get(
    State(app): State<App>,
    caller: Caller,
    path: Path,
) -> Result<Json<AgentReply>, ApiError> {
    let instance = app.described(&path.agent, &caller).await?;
    let template = app.registry.info(&path.agent);
    let template =
        template.ok_or_else(|| ApiError::not_found(format!("agent {:?} not found", path.agent)))?;
    let info = instance.agent().info();
    let models = models_of(&app, &app.registry.list());
    let mut reply = AgentReply::new(&caller, template, &models);
    reply.tools = instance.tools().into_iter().map(|tool| tool.name).collect();
    reply.hooks = Some(info.hooks);
    reply.max_turns = Some(info.max_turns);
    Ok(Json(reply))
}

/// The body of a new agent: its id, and the keys of an agent in a configuration file.
#[derive(Debug, Deserialize, JsonSchema)]
struct CreateBody {
    /// The id in paths: 1 to 64 of the characters A-Z a-z 0-9 _ -.
    #[serde(default)]
    agent_id: String,
    #[serde(flatten)]
    #[schemars(with = "BTreeMap<String, Value>")]
    config: Map<String, Value>,
}

async fn create(
    State(app): State<App>,
    caller: Caller,
    JsonBody(body): JsonBody<CreateBody>,
) -> Result<(StatusCode, Json<AgentReply>), ApiError> {
    caller.require_admin()?;
    if body.agent_id.is_empty() {
        return Err(ApiError::bad_request("agent_id is required"));
    }
    // Clients send the keys that they leave empty as null.
    let mut config = body.config;
    config.retain(|_, value| !value.is_null());
    let json = Value::Object(config).to_string();
    let config =
        AgentConfig::from_json(&json).map_err(|error| ApiError::bad_request(error.to_string()))?;
    let outcome = app.registry.register_template(&body.agent_id, config);
    outcome.map_err(|error| match error.kind() {
        ErrorKind::Config => ApiError::bad_request(error.to_string()),
        _ => error.into(),
    })?;
    let template = app
        .registry
        .info(&body.agent_id)
        .ok_or_else(ApiError::internal)?;
    let models = models_of(&app, &app.registry.list());
    let reply = AgentReply::new(&caller, template, &models);
    Ok((StatusCode::CREATED, Json(reply)))
}

async fn delete(
    State(app): State<App>,
    caller: Caller,
    path: Path,
) -> Result<StatusCode, ApiError> {
    caller.require_admin()?;
    if !app.registry.remove(&path.agent) {
        return Err(ApiError::not_found(format!(
            "agent {:?} not found",
            path.agent
        )));
    }
    Ok(StatusCode::NO_CONTENT)
}
