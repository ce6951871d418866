//! The tools, skills and hooks that agents may have.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::registry::Instance;

use super::super::api::{Api, Operation, Verb};
use super::super::app::App;
use super::super::error::ApiError;
use super::super::large_reply::{ReplySpace, file_list_permit};
use super::super::users::Caller;
use super::flow::is_configurable;
use super::query::QueryOf;

pub(super) fn routes(api: Api) -> Api {
    let operation = |path, summary| {
        Operation::new(Verb::Get, path, "catalog", summary)
            .query::<String>("agent_id", "One agent. All by default.")
    };
    let tools_operation = operation("/agents/tools/available", "Lists the tools of the agents.");
    let skills_operation = operation(
        "/agents/skills/available",
        "Lists the skills of the agents.",
    );
    let hooks_operation = operation("/agents/hooks/available", "Lists the hooks of the agents.");
    api.route(tools_operation.reply::<ToolList>(), tools)
        .route(skills_operation.reply::<SkillList>(), skills)
        .route(hooks_operation.reply::<HookList>(), hooks)
}

#[derive(Debug, Deserialize)]
struct Params {
    agent_id: Option<String>,
}

/// Returns the instance of the agent that a query names, or the instances of all agents.
async fn instances(
    app: &App,
    caller: &Caller,
    params: &Params,
) -> Result<Vec<std::sync::Arc<Instance>>, ApiError> {
    if let Some(id) = &params.agent_id {
        return Ok(vec![app.described(id, caller).await?]);
    }
    let mut instances = Vec::new();
    for template in app.registry.list() {
        match app.described(&template.id, caller).await {
            Ok(instance) => instances.push(instance),
            // An agent that cannot be made, for example without its model, hides no other agent.
            Err(error) => tracing::warn!(agent = template.id, %error, "an agent cannot be made"),
        }
    }
    Ok(instances)
}

#[derive(Debug, Serialize, JsonSchema)]
struct ToolList {
    tools: Vec<ToolReply>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ToolReply {
    name: String,
    /// `builtin`, the hook that brings it, such as `filesystem` or `todolist`, or `external`.
    source: String,
}

async fn tools(
    State(app): State<App>,
    caller: Caller,
    QueryOf(params): QueryOf<Params>,
) -> Result<Json<ToolList>, ApiError> {
    let mut sources = BTreeMap::new();
    for instance in instances(&app, &caller, &params).await? {
        for tool in instance.tools() {
            sources.entry(tool.name).or_insert(tool.source);
        }
    }
    // Registered tools are listed even if no agent has them.
    for name in app.registry.tools().names(caller.id()) {
        sources.entry(name).or_insert_with(|| "external".to_owned());
    }
    let tools = sources
        .into_iter()
        .map(|(name, source)| ToolReply { name, source });
    Ok(Json(ToolList {
        tools: tools.collect(),
    }))
}

#[derive(Debug, Serialize, JsonSchema)]
struct SkillList {
    skills: Vec<SkillReply>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct SkillReply {
    name: String,
    description: String,
    /// The path of its `SKILL.md` as the agent sees it.
    path: String,
    agent_id: String,
}

async fn skills(
    State(app): State<App>,
    caller: Caller,
    QueryOf(params): QueryOf<Params>,
) -> Result<Response, ApiError> {
    let _permit = file_list_permit(&app, &caller).await?;
    let mut skills = Vec::new();
    for instance in instances(&app, &caller, &params).await? {
        let of_agent = instance.skills().await.into_iter();
        skills.extend(of_agent.map(|skill| SkillReply {
            name: skill.name,
            description: skill.description,
            path: skill.path,
            agent_id: instance.id().to_owned(),
        }));
    }
    ReplySpace::json_for(&app, &caller, SkillList { skills }).await
}

#[derive(Debug, Serialize, JsonSchema)]
struct HookList {
    hooks: Vec<HookReply>,
}

/// A hook, and the phases that it takes part in.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct HookReply {
    name: String,
    description: String,
    phases: Vec<String>,
    /// True if the user may switch it off.
    configurable: bool,
    /// The tools that it brings.
    tools: Vec<String>,
}

/// Returns the hooks of an instance, outermost first.
pub(super) fn hooks_of(instance: &Instance, caller: &Caller) -> Vec<HookReply> {
    let hooks = instance
        .agent()
        .info()
        .hooks
        .into_iter()
        .map(|hook| HookReply {
            configurable: is_configurable(&hook.name, caller),
            name: hook.name,
            description: hook.description,
            phases: hook.phases.into_iter().map(str::to_owned).collect(),
            tools: hook.tools,
        });
    hooks.collect()
}

async fn hooks(
    State(app): State<App>,
    caller: Caller,
    QueryOf(params): QueryOf<Params>,
) -> Result<Json<HookList>, ApiError> {
    let mut hooks: Vec<HookReply> = Vec::new();
    for instance in instances(&app, &caller, &params).await? {
        for hook in hooks_of(&instance, &caller) {
            if hooks.iter().all(|other| other.name != hook.name) {
                hooks.push(hook);
            }
        }
    }
    Ok(Json(HookList { hooks }))
}
