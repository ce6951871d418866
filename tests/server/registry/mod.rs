//! One agent for each user.

mod backends;
mod events;
mod instances;
mod templates;
mod tools;
mod users;

use agentcore::config::{AgentConfig, BackendCfg};
use agentcore::registry::Registry;
use agentcore::testing::ScriptedModel;

/// A registry whose agents answer with `model`, and its agent `default` with files in memory.
pub fn registry(model: ScriptedModel) -> Registry {
    let registry = empty(model);
    let config = AgentConfig::new("m").with_backend(BackendCfg::state());
    registry.register_template("default", config).unwrap();
    registry
}

pub fn empty(model: ScriptedModel) -> Registry {
    Registry::new().models(move |_| Ok(model.clone()))
}
