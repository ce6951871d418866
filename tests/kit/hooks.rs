//! Helpers for tests of the hooks of this crate.

use agentcore::Hook;
use agentcore::backend::{Backend, MemoryBackend};
use agentcore::testing::ScriptedModel;

use crate::kit::{agent, warnings, watch};

/// A file of `tests/data/hooks` without its trailing line end.
pub fn golden(file: &str) -> &str {
    file.strip_suffix('\n').unwrap_or(file)
}

pub fn pretty(value: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap()
}

/// Returns the system prompt of the first request of an agent with this hook, and the warnings of
/// the run.
pub async fn prompt(hook: impl Hook) -> (String, Vec<String>) {
    let model = ScriptedModel::new().say("done");
    let agent = agent(model.clone()).hook(hook).build().unwrap();
    let (messages, output) = watch(agent.run("Go")).await;
    output.unwrap();
    (model.requests()[0].system.to_string(), warnings(&messages))
}

/// A workspace in memory that has these files.
pub async fn with(files: &[(&str, &[u8])]) -> MemoryBackend {
    let backend = MemoryBackend::new();
    for (path, content) in files {
        backend.write(path, content).await.unwrap();
    }
    backend
}
