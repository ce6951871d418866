//! The steps of an agent's run, and its hooks.

use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::HookChoice;
use crate::registry::Instance;

use super::super::api::{Api, Operation, Verb};
use super::super::app::App;
use super::super::error::ApiError;
use super::super::json::JsonBody;
use super::super::users::Caller;
use super::available::{HookReply, hooks_of};
use super::path::Path;

/// The hook that cannot be switched.
const PERMISSIONS: &str = "permissions";

/// The steps of a run in their order, with the phase of the hooks that take part.
const STEPS: &[(&str, Option<&str>)] = &[
    ("before_agent", Some("before_agent")),
    ("loop_start", None),
    ("modify_request", Some("modify_request")),
    ("model_call", Some("wrap_model_call")),
    ("pre_tool_use", Some("pre_tool_use")),
    ("tool_call", Some("wrap_tool_call")),
    ("post_tool_use", Some("post_tool_use")),
    ("before_stop", Some("before_stop")),
    ("loop_end", None),
    ("after_agent", Some("after_agent")),
];

/// Returns `true` if the user may switch the hook off.
pub(super) fn is_configurable(hook: &str, caller: &Caller) -> bool {
    let is_admin = caller.0.is_admin && hook != PERMISSIONS;
    is_admin || HookChoice::CONFIGURABLE.contains(&hook)
}

pub(super) fn routes(api: Api) -> Api {
    let flow_operation = Operation::new(
        Verb::Get,
        "/agents/{id}/flow",
        "agents",
        "Lists the steps of a run, with the hooks of each.",
    );
    let hooks_operation = Operation::new(
        Verb::Patch,
        "/agents/{id}/hooks",
        "agents",
        "Switches hooks of the user's agent off, and on again. Only admins may switch on what the \
         agent has off, and switch hooks of the application.",
    );
    api.route(flow_operation.reply::<FlowReply>(), flow).route(
        hooks_operation.body::<HooksBody>().reply::<HooksReply>(),
        set_hooks,
    )
}

#[derive(Debug, Serialize, JsonSchema)]
struct FlowReply {
    agent_id: String,
    steps: Vec<Step>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Step {
    step: &'static str,
    /// The hooks that take part, outermost first.
    #[serde(skip_serializing_if = "Option::is_none")]
    hooks: Option<Vec<String>>,
    /// The maximum number of turns; 0 is no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_iterations: Option<u32>,
}

async fn flow(
    State(app): State<App>,
    caller: Caller,
    path: Path,
) -> Result<Json<FlowReply>, ApiError> {
    let instance = app.described(&path.agent, &caller).await?;
    let info = instance.agent().info();
    let steps = STEPS.iter().map(|(step, phase)| {
        let of_phase = |phase: &str| {
            info.hooks
                .iter()
                .filter(|hook| hook.phases.contains(&phase))
                .map(|hook| hook.name.clone())
                .collect()
        };
        Step {
            step,
            hooks: phase.map(of_phase),
            max_iterations: (*step == "loop_start").then_some(info.max_turns),
        }
    });
    Ok(Json(FlowReply {
        agent_id: instance.id().to_owned(),
        steps: steps.collect(),
    }))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct HooksBody {
    /// The hooks to switch on.
    #[serde(default)]
    enable: Vec<String>,
    /// The hooks to switch off.
    #[serde(default)]
    disable: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct HooksReply {
    agent_id: String,
    /// The hooks that are on, outermost first.
    hooks: Vec<HookReply>,
}

impl HooksReply {
    fn new(instance: &Instance, caller: &Caller) -> Self {
        Self {
            agent_id: instance.id().to_owned(),
            hooks: hooks_of(instance, caller),
        }
    }
}

async fn set_hooks(
    State(app): State<App>,
    caller: Caller,
    path: Path,
    JsonBody(body): JsonBody<HooksBody>,
) -> Result<Json<HooksReply>, ApiError> {
    let instance = app.instance(&path.agent, &caller).await?;
    if caller.0.is_admin {
        instance.set_hooks(&body.enable, &body.disable).await?;
    } else {
        let switched = instance.set_hooks_as_user(&body.enable, &body.disable);
        switched.await?;
    }
    Ok(Json(HooksReply::new(&instance, &caller)))
}
