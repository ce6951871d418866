//! Agents of a registry, one for each user.

mod backends;
mod events;
mod instances;
mod templates;
mod tools;
mod users;

use agentcore::config::{AgentConfig, BackendCfg};
use agentcore::registry::Registry;
use agentcore::testing::ScriptedModel;

/// Creates a registry whose agents use `model`, with the template `default`, whose files are in
/// memory.
pub fn registry(model: ScriptedModel) -> Registry {
    let registry = empty(model);
    let config = AgentConfig::new("m").with_backend(BackendCfg::state());
    registry.register_template("default", config).unwrap();
    registry
}

pub fn empty(model: ScriptedModel) -> Registry {
    Registry::new().models(move |_| Ok(model.clone()))
}
