//! A builder as the template of several agents.

use std::sync::Arc;

use crate::session::SessionStore;

use super::builder::AgentBuilder;

impl AgentBuilder {
    pub(crate) fn agent_name(&self) -> &str {
        &self.settings.agent
    }

    /// Sets the id of the template that the agent is made from.
    pub(crate) fn agent_id(mut self, id: Arc<str>) -> Self {
        self.settings.agent_id = Some(id);
        self
    }

    pub(crate) fn model_id(&self) -> &str {
        self.settings.model.id()
    }

    /// Returns the names of the tools, sorted.
    pub(crate) fn tool_names(&self) -> Vec<String> {
        let tools = self.tools.iter();
        let mut names: Vec<String> = tools.map(|tool| tool.name().to_owned()).collect();
        names.sort_unstable();
        names
    }

    pub(crate) fn hook_names(&self) -> Vec<String> {
        self.hooks
            .iter()
            .map(|hook| hook.name().to_owned())
            .collect()
    }

    /// Removes the hooks whose names are not accepted.
    pub(crate) fn retain_hooks(mut self, is_on: impl Fn(&str) -> bool) -> Self {
        self.hooks.retain(|hook| is_on(hook.name()));
        self
    }

    /// Returns the store that was set.
    pub(crate) fn own_store(&self) -> Option<Arc<dyn SessionStore>> {
        self.store.clone()
    }
}
