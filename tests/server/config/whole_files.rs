//! Complete configurations, in a file and in code.

#[cfg(feature = "calc")]
use agentcore::config::{AgentConfig, BackendCfg};
use agentcore::config::{BackendType, Config};

/// A file with the keys of one agent, without `agents`.
const FLAT: &str = r#"name: code-assistant
model: claude-sonnet-4-20250514
system_prompt: "You are a coding assistant."
context_window: 128000          # → SummarizationHook (§6.4) uses this
backend:
  type: docker                  # → FilesystemHook (§6.1) activated (needs a backend)
  image: python:3.12-slim
  workdir: /workspace
skills:
  paths:                        # → SkillsHook (§6.2) activated
    - /workspace/skills
memory:
  paths:                        # → MemoryHook (§6.3) activated
    - /workspace/AGENTS.md
"#;

#[cfg(feature = "docker")]
#[test]
fn file_with_the_keys_of_one_agent_describes_the_agent_default() {
    let config = Config::from_yaml(FLAT).unwrap();
    assert_eq!(config.agents().count(), 1);
    let agent = config.agent("default").unwrap();
    assert_eq!(agent.name.as_deref(), Some("code-assistant"));
    assert_eq!(agent.model, "claude-sonnet-4-20250514");
    assert_eq!(agent.system_prompt, "You are a coding assistant.");
    assert_eq!(agent.context_window, Some(128_000));
    let backend = agent.backend.as_ref().unwrap();
    assert_eq!(backend.kind, BackendType::Docker);
    assert_eq!(backend.image.as_deref(), Some("python:3.12-slim"));
    assert_eq!(backend.workdir.as_deref(), Some("/workspace"));
    assert_eq!(agent.skills.paths, ["/workspace/skills"]);
    assert_eq!(agent.memory.paths, ["/workspace/AGENTS.md"]);
}

#[cfg(not(feature = "docker"))]
#[test]
fn file_for_docker_names_the_feature_that_it_needs() {
    let text = Config::from_yaml(FLAT).unwrap_err().to_string();
    assert!(
        text.starts_with("config:6:3: a backend of the type \"docker\" needs"),
        "{text}"
    );
    let _ = BackendType::Docker;
}

#[cfg(feature = "calc")]
#[tokio::test]
async fn configuration_in_code_builds_the_agent_and_its_workdir() {
    let folder = tempfile::tempdir().unwrap();
    let workdir = folder.path().join("workspace");
    let config = AgentConfig::new("ollama:llama3.1:8b")
        .with_name("Ollama Local")
        .with_tools(["calculate"])
        .with_backend(BackendCfg::local(workdir.to_str().unwrap()));
    let agent = super::build(&config).await;
    assert_eq!(agent.name(), "Ollama Local");
    assert_eq!(agent.info().tools, ["calculate"]);
    assert_eq!(agent.info().max_turns, 25);
    assert!(workdir.is_dir());
    // The model of the configuration, without the test's scripted one.
    let agent = config
        .builder(&Default::default())
        .await
        .unwrap()
        .build()
        .unwrap();
    assert_eq!(agent.model().id(), "ollama:llama3.1:8b");
}

#[cfg(feature = "calc")]
#[test]
fn the_same_agent_is_written_in_yaml() {
    let yaml = "agents:\n  default:\n    name: Ollama Local\n    model: ollama:llama3.1:8b\n    \
                tools: [calculate]\n    backend: { type: local, workdir: ./workspace }\n";
    let config = Config::from_yaml(yaml).unwrap();
    let agent = config.agent("default").unwrap();
    assert_eq!(agent.model, "ollama:llama3.1:8b");
    assert_eq!(agent.backend, Some(BackendCfg::local("./workspace")));
}
