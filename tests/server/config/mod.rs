//! Configuration files.

mod combinations;
mod errors;
mod fields;
mod hooks;
mod narrowing;
mod paths;
mod whole_files;

use agentcore::config::{AgentConfig, Config, Parts};
use agentcore::testing::{FunctionModel, ScriptedModel};
use agentcore::{Agent, Error, ModelEvent};

/// The parts of an agent whose model answers with `model`.
pub fn parts(model: ScriptedModel) -> Parts {
    Parts::new().models(move |_| Ok(model.clone()))
}

/// Builds the agent `default` of a file with a scripted model.
pub async fn built(yaml: &str) -> Agent {
    let config = Config::from_yaml(yaml).unwrap();
    build(config.agent("default").unwrap()).await
}

pub async fn build(config: &AgentConfig) -> Agent {
    let parts = Parts::new().models(|_| {
        Ok(FunctionModel::new(|_| {
            vec![Ok(ModelEvent::Text("Hello!".to_owned()))]
        }))
    });
    config.builder(&parts).await.unwrap().build().unwrap()
}

/// Returns the text of the error for a file.
pub fn error(yaml: &str) -> String {
    Config::from_yaml(yaml).unwrap_err().to_string()
}

/// Returns the error of building the agent `default` of a file.
pub async fn build_error(yaml: &str) -> Error {
    let config = Config::from_yaml(yaml).unwrap();
    let parts = parts(ScriptedModel::new());
    config
        .agent("default")
        .unwrap()
        .builder(&parts)
        .await
        .unwrap_err()
}
