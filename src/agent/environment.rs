//! An agent from the environment.

use crate::error::{Error, ErrorKind, Result};
use crate::providers::{env, resolve};

use super::builder::AgentBuilder;

/// The default models, in the order of their precedence: the variable of the provider's key, then
/// the model.
const DEFAULT_MODELS: [(&str, &str); 3] = [
    ("ANTHROPIC_API_KEY", "anthropic:claude-sonnet-5"),
    ("OPENAI_API_KEY", "openai:gpt-6-luna"),
    ("GEMINI_API_KEY", "gemini:gemini-3.8-flash"),
];

/// # Models from the environment
impl AgentBuilder {
    /// Creates a builder with the model of [`model_from_env`](Self::model_from_env). Its agent has
    /// at most 100 turns in a run, the default of every builder.
    ///
    /// # Errors
    ///
    /// Returns [`Config`](ErrorKind::Config) if no variable is set, and the errors of [`resolve`]
    /// otherwise.
    pub fn from_env() -> Result<Self> {
        let Some(model) = Self::model_from_env() else {
            return Err(Error::new(
                ErrorKind::Config,
                "no model is set: put its name into AGENTCORE_MODEL (such as \
                 `ollama:llama3.1:8b`), or a key into ANTHROPIC_API_KEY, OPENAI_API_KEY or \
                 GEMINI_API_KEY",
            ));
        };

        Ok(Self::new(resolve(&model)?))
    }

    /// Returns the name of the model that the environment sets: `AGENTCORE_MODEL`, such as
    /// `ollama:llama3.1:8b`, or else a current model of the provider whose key is set. `None` if
    /// neither is set; an empty variable counts as not set.
    ///
    /// ```no_run
    /// use agentcore::{AgentBuilder, providers};
    ///
    /// let model = AgentBuilder::model_from_env();
    /// let model = providers::resolve(model.as_deref().unwrap_or("ollama:llama3.1:8b"))?;
    /// # Ok::<(), agentcore::Error>(())
    /// ```
    pub fn model_from_env() -> Option<String> {
        env::var("AGENTCORE_MODEL").or_else(|| {
            let mut defaults = DEFAULT_MODELS.iter();
            let default = defaults.find(|(key, _)| env::var(key).is_some());
            default.map(|(_, model)| (*model).to_owned())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::DEFAULT_MODELS;
    use crate::model::Catalog;

    #[test]
    fn defaults_end_later_than_60_days_after_the_data() {
        let catalog = Catalog::builtin();
        let as_of = catalog.as_of().expect("the built-in table has a date");
        for (_, model) in DEFAULT_MODELS {
            let profile = catalog.lookup(model).expect(model);
            let ends = profile.lifecycle.and_then(|dates| dates.ends);
            let days = ends.map(|ends| as_of.days_until(ends));
            assert!(
                days.is_none_or(|days| days > 60),
                "{model} ends in {days:?} days"
            );
        }
    }
}
