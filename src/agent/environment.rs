//! An agent from the environment.

use crate::error::{Error, ErrorKind, Result};
use crate::providers::{env, resolve};

use super::builder::AgentBuilder;

/// Asked when `AGENTCORE_MODEL` is not set, in this order: the key's variable, then the model.
const BY_KEY: [(&str, &str); 2] = [
    ("ANTHROPIC_API_KEY", "anthropic:claude-sonnet-5"),
    ("OPENAI_API_KEY", "openai:gpt-5.4-mini"),
];

impl AgentBuilder {
    /// An agent with the model the environment names: `AGENTCORE_MODEL`, such as
    /// `ollama:llama3.1:8b`, or else a current model of the provider whose key is set. 100 turns,
    /// as every agent.
    ///
    /// # Errors
    ///
    /// [`Config`](ErrorKind::Config) when nothing is set; otherwise as [`resolve`].
    pub fn from_env() -> Result<Self> {
        let model_name = env::var("AGENTCORE_MODEL");
        let by_key = || {
            let mut providers = BY_KEY.iter();
            let provider = providers.find(|(key, _)| env::var(key).is_some());
            provider.map(|(_, model)| (*model).to_owned())
        };

        let Some(model) = model_name.or_else(by_key) else {
            return Err(Error::new(
                ErrorKind::Config,
                "no model is set: put its name into AGENTCORE_MODEL (such as \
                 `ollama:llama3.1:8b`), or a key into ANTHROPIC_API_KEY or OPENAI_API_KEY",
            ));
        };

        Ok(Self::new(resolve(&model)?))
    }
}
