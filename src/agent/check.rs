//! The check of an agent's parts when it is built.

use std::collections::BTreeSet;

use crate::engine::check_prices;
use crate::error::{Error, ErrorKind, Result};
use crate::model::ModelRequest;
use crate::tool::{PermissionGate, check_tool};

use super::builder::AgentBuilder;

impl AgentBuilder {
    /// Checks the parts of the agent together, which no setter can.
    pub(super) fn check(&self) -> Result<()> {
        let mut names = BTreeSet::new();
        for tool in &self.tools {
            check_tool(tool)?;
            if !names.insert(tool.name()) {
                let text = format!(
                    "two tools are named {:?}; give one of them another name",
                    tool.name()
                );
                return Err(Error::new(ErrorKind::Config, text));
            }
        }

        self.check_permissions(names)?;
        self.request.check()?;
        self.settings.budget.check()?;
        if !self.settings.budget.needs_prices() {
            return Ok(());
        }

        check_prices(&self.settings.model.cards(&ModelRequest::default()))
    }

    /// Compares the gate and the hooks with the names of all tools.
    fn check_permissions(&self, names: BTreeSet<&str>) -> Result<()> {
        let announced_names: Vec<_> = self.hooks.iter().flat_map(|hook| hook.tools()).collect();
        let names: Vec<_> = names
            .into_iter()
            .chain(announced_names.iter().map(String::as_str))
            .chain(self.run_tools.iter().map(|name| &**name))
            .collect();
        let has_sources = !self.sources.is_empty();
        self.settings.gates.check_tools(&names, has_sources)?;
        self.hooks
            .iter()
            .try_for_each(|hook| hook.check_tools(&names, has_sources))
    }
}
