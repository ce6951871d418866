//! The description of an agent.

use serde::Serialize;

use crate::hook::Hook;

/// The description of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AgentInfo {
    /// Its name.
    pub name: String,
    /// Its model's id.
    pub model: String,
    /// The names of its own tools, sorted; hooks and sources may bring more.
    pub tools: Vec<String>,
    /// Its hooks, outermost first.
    pub hooks: Vec<HookInfo>,
    /// The maximum number of turns of a run; 0 is no limit.
    pub max_turns: u32,
}

/// The description of a hook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct HookInfo {
    /// Its name.
    pub name: String,
    /// The hook's own description.
    pub description: String,
    /// The phases it takes part in, by name.
    pub phases: Vec<&'static str>,
    /// The names of the tools it registers.
    pub tools: Vec<String>,
}

impl HookInfo {
    pub(super) fn of(hook: &dyn Hook) -> Self {
        Self {
            name: hook.name().to_owned(),
            description: hook.description().to_owned(),
            phases: hook.phases().names().collect(),
            tools: hook.tools(),
        }
    }
}
