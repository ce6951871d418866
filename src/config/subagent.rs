//! The configuration of a subagent.

use std::sync::Arc;

use serde::Deserialize;

use crate::error::Result;
use crate::model::Model;
use crate::subagent::{SubagentDefinition, SubagentRegistry};
use crate::tool::{FuncTool, Tool};
use crate::tools;

use super::agent::AgentConfig;
use super::parts::Parts;

/// The configuration of a subagent. The model of the agent starts it with `delegate_to_agent`, or
/// in the background with `start_async_task`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SubAgentCfg {
    /// Its name: 1 to 64 letters, digits, `_` and `-`.
    pub name: String,
    /// The description for the model that starts it.
    #[serde(default)]
    pub description: String,
    /// Its system prompt.
    #[serde(default)]
    pub system_prompt: String,
    /// The names of its tools. Defaults to the agent's tools without the tools that start
    /// subagents.
    #[serde(default)]
    pub tools: Vec<String>,
    /// Its model. Defaults to the agent's model.
    #[serde(default)]
    pub model: Option<String>,
    /// True if a call can start it and wait for its result. Defaults to `true`.
    #[serde(default = "default_true")]
    pub sync: bool,
    /// True if it can be started in the background. Defaults to `false`.
    #[serde(default, rename = "async")]
    pub background: bool,
}

fn default_true() -> bool {
    true
}

impl SubAgentCfg {
    /// Creates a subagent with the model and the tools of the agent.
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        system_prompt: impl Into<String>,
    ) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            system_prompt: system_prompt.into(),
            tools: Vec::new(),
            model: None,
            sync: true,
            background: false,
        }
    }
}

impl AgentConfig {
    /// Checks the subagents.
    pub(super) fn check_subagents(&self) -> Result<()> {
        for (index, subagent) in self.subagents.iter().enumerate() {
            let path = format!("subagents.{index}");
            if !subagent.sync && !subagent.background {
                let text = "\"sync\" and \"async\" are both false; set one of them to true";
                return Err(self.error_at(&path, text));
            }
        }
        self.subagent_registry(|_| true).map(drop)
    }

    /// Returns the definitions of the chosen subagents.
    fn subagent_registry(&self, is_chosen: fn(&SubAgentCfg) -> bool) -> Result<SubagentRegistry> {
        let mut registry = SubagentRegistry::new();
        for (index, subagent) in self.subagents.iter().enumerate() {
            if !is_chosen(subagent) {
                continue;
            }

            let description = subagent.description.as_str();
            let mut definition = SubagentDefinition::new(description, &subagent.system_prompt)
                .with_tools(subagent.tools.iter().cloned());
            definition.model.clone_from(&subagent.model);
            registry
                .register(subagent.name.as_str(), definition)
                .map_err(|error| self.error_from(&format!("subagents.{index}.name"), error))?;
        }
        Ok(registry)
    }

    /// Returns the tools that start subagents: `delegate_to_agent` for the synchronous subagents,
    /// and the tools for tasks for the background ones.
    pub(super) fn subagent_tools(&self, parts: &Parts) -> Result<Vec<FuncTool>> {
        let models = self.subagent_models(parts)?;
        let mut tools = self.delegation_tools(&models, |subagent| subagent.sync)?;
        tools.retain(|tool| tool.name() == "delegate_to_agent");
        let mut task_tools = self.delegation_tools(&models, |subagent| subagent.background)?;
        task_tools.retain(|tool| tool.name() != "delegate_to_agent");
        tools.extend(task_tools);
        Ok(tools)
    }

    /// Returns all tools that delegate to the chosen subagents; none if no subagent is chosen.
    fn delegation_tools(
        &self,
        models: &[(&str, Arc<dyn Model>)],
        is_chosen: fn(&SubAgentCfg) -> bool,
    ) -> Result<Vec<FuncTool>> {
        if !self.subagents.iter().any(is_chosen) {
            return Ok(Vec::new());
        }

        let mut builder = tools::delegate(self.subagent_registry(is_chosen)?);
        for (name, model) in models {
            builder = builder.model_alias(*name, model.clone());
        }
        builder.build()
    }

    /// Returns the models that the subagents name.
    fn subagent_models(&self, parts: &Parts) -> Result<Vec<(&str, Arc<dyn Model>)>> {
        let mut models = Vec::new();
        for (index, subagent) in self.subagents.iter().enumerate() {
            if let Some(name) = &subagent.model {
                let model = (parts.make_model)(name)
                    .map_err(|error| self.error_from(&format!("subagents.{index}.model"), error))?;
                models.push((name.as_str(), model));
            }
        }
        Ok(models)
    }
}
