//! Configurations of agents, and files of subagents.

use agentcore::backend::{Backend, MemoryBackend};
use agentcore::config::{AgentConfig, Config, Untrusted};
use agentcore::subagent::SubagentRegistry;
use fastrand::Rng;
use futures::executor::block_on;

use super::generator::Grammar;
use super::texts::JSON;
use super::{fuzz, texts};

const KEYS: Grammar = Grammar {
    tokens: &[
        "model: m\n",
        "model: {provider: a, model: b}\n",
        "name: a\n",
        "system_prompt: |\n  a\n",
        "tools: [calculate, unknown]\n",
        "hooks: off\n",
        "hooks: {todolist: off}\n",
        "middleware: {memory: on}\n",
        "limits: {max_turns: 99999999999999999999}\n",
        "limits: {max_duration: -1}\n",
        "permissions: {deny: [\"Bash(rm:*)\"]}\n",
        "permissions: {mode: bypassPermissions}\n",
        "backend: {type: local, workdir: ../..}\n",
        "backend: {type: docker, image: a}\n",
        "skills: {paths: [./a, /etc]}\n",
        "memory: {paths: [./a], initial_content: \"# a\"}\n",
        "sessions: {type: jsonl, path: ./s}\n",
        "subagents:\n- {name: a, description: b}\n",
        "builtin_config: {tavily: \"${AGENTCORE_FUZZ_UNSET}\"}\n",
        "\"${AGENTCORE_FUZZ_UNSET}\"",
        "defaults: &d {model: m}\n",
        "agents: {a: *d}\n",
        "agents: {a: {model: m}, a: {model: m}}\n",
        "debug: yes\n",
        "  ",
        "\n",
        "*d",
        "<<: *d\n",
        "!!binary ",
    ],
    pairs: &[
        ("agents:\n  default: {model: m, ", "}\n"),
        ("agents: {a: {model: m, subagents: [", "]}}\n"),
        ("&d {model: ", "}\n"),
        ("name: \"", "\"\n"),
        ("[", "]"),
        ("{a: ", "}"),
    ],
};

/// Returns YAML, mostly with keys that exist.
fn yaml(rng: &mut Rng) -> String {
    match rng.u8(..8) {
        0 => texts::YAML.text(rng, 64 * 1024),
        1 => format!("agents: {{a: {{model: m, {}", KEYS.text(rng, 64 * 1024)),
        _ => KEYS.text(rng, 64 * 1024),
    }
}

#[test]
fn configurations_are_read_and_narrowed_without_panic() {
    let base = "agents: {a: {model: m}, default: {model: m}}";
    let base = Config::from_yaml(base).unwrap();
    fuzz("configuration", |rng| {
        let text = yaml(rng);
        std::hint::black_box(Config::from_yaml(&text).is_ok());
        if let Ok(untrusted) = Untrusted::from_yaml(&text) {
            std::hint::black_box(base.narrow(&untrusted).is_ok());
        }
        text.len()
    });
}

#[test]
fn configurations_in_json_are_read_without_panic() {
    fuzz("configuration in JSON", |rng| {
        let text = JSON.text(rng, 64 * 1024);
        let agent = format!("{{\"model\": \"m\", \"subagents\": {text}}}");
        std::hint::black_box(AgentConfig::from_json(&agent).is_ok());
        std::hint::black_box(Config::from_json(&text).is_ok());
        agent.len()
    });
}

#[test]
fn files_of_subagents_are_read_without_panic() {
    fuzz("file of a subagent", |rng| {
        let keys = texts::YAML.text(rng, 16 * 1024);
        let content = format!("---\nname: a\ndescription: b\n{keys}\n---\n{keys}");
        let backend = MemoryBackend::new();
        block_on(backend.write("agents/a.md", content.as_bytes())).unwrap();
        let mut registry = SubagentRegistry::new();
        let loaded = block_on(registry.load_dir(&backend, "agents"));
        std::hint::black_box(loaded.is_ok());
        content.len()
    });
}
