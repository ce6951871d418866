//! The types of subagents that a run may start.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::tool::check_name_of;

use super::definition::SubagentDefinition;

/// The types of subagents that a run may start, by name.
///
/// ```
/// use agentcore::subagent::{SubagentDefinition, SubagentRegistry};
///
/// let mut agents = SubagentRegistry::new();
/// agents.register("scout", SubagentDefinition::new("Looks around", "You look around."))?;
/// assert_eq!(agents.names(), ["scout"]);
/// # Ok::<(), agentcore::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct SubagentRegistry(BTreeMap<Arc<str>, SubagentDefinition>);

impl SubagentRegistry {
    /// Creates an empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a type.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Config`] if the name is taken, or does not consist of 1 to 64 letters,
    /// digits, `_` and `-`.
    pub fn register(
        &mut self,
        name: impl Into<Arc<str>>,
        definition: SubagentDefinition,
    ) -> Result<()> {
        let name = name.into();
        check_name(&name)?;
        if self.0.contains_key(&name) {
            let text = format!("there is already a subagent {name:?}; give this one another name");
            return Err(Error::new(ErrorKind::Config, text));
        }
        self.0.insert(name, definition);
        Ok(())
    }

    /// Returns the definition of a type.
    pub fn get(&self, name: &str) -> Option<&SubagentDefinition> {
        self.0.get(name)
    }

    /// Returns the names of all types, sorted.
    pub fn names(&self) -> Vec<&str> {
        self.0.keys().map(|name| &**name).collect()
    }

    /// Returns all types, sorted by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &SubagentDefinition)> {
        self.0.iter()
    }
}

/// Checks the name of an agent.
pub(super) fn check_name(name: &str) -> Result<()> {
    check_name_of("a name of an agent", ErrorKind::Config, name)
}
