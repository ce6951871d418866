//! Workspaces, skills and memory.

use std::path::Path;

use agentcore::config::{Config, Untrusted};
use agentcore::testing::ScriptedModel;
use serde_json::json;

use super::{build, parts};
use crate::kit::result_texts;

/// Writes a configuration and files next to it, and loads it.
fn load(folder: &Path, yaml: &str, files: &[(&str, &str)]) -> Config {
    for (path, content) in files {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    let path = folder.join("agents.yaml");
    std::fs::write(&path, format!("model: m\n{yaml}")).unwrap();
    Config::load(&path).unwrap()
}

/// Returns the results of these calls, and the system prompt of the last request.
async fn calls(config: &Config, calls: &[(&str, serde_json::Value)]) -> (Vec<String>, String) {
    let mut model = ScriptedModel::new();
    for (name, args) in calls {
        model = model.call(*name, args.clone());
    }
    let model = model.say("done");
    let agent = config.agent("default").unwrap();
    let agent = agent
        .builder(&parts(model.clone()))
        .await
        .unwrap()
        .build()
        .unwrap();
    let output = agent.run("Go").await.unwrap();
    let system = model.requests().last().unwrap().system.to_string();
    (result_texts(&output.messages), system)
}

#[tokio::test]
async fn files_of_a_configuration_are_protected_in_the_workspace() {
    let folder = tempfile::tempdir().unwrap();
    let yaml = "backend: { type: local, workdir: . }\n\
                permissions: { allow: ['*'], mode: dontAsk }";
    let project = "agents: { default: { limits: { max_turns: 20 } } }";
    let config = load(folder.path(), yaml, &[("project.yaml", project)]);
    let path = |name: &str| folder.path().join(name);
    let project = Untrusted::load(path("project.yaml")).unwrap();
    let config = config.narrow(&project).unwrap();
    let contents = || {
        let read = |name| std::fs::read_to_string(path(name)).unwrap();
        [read("agents.yaml"), read("project.yaml")]
    };

    let old_contents = contents();
    let write = |path: &str| ("write_file", json!({"path": path, "content": "x"}));
    let run = |command: &str| ("execute", json!({"command": command}));
    let (results, _) = calls(
        &config,
        &[
            write("agents.yaml"),
            write(path("agents.yaml").to_str().unwrap()),
            write("project.yaml"),
            run("echo x > agents.yaml"),
            run("cp agents.yaml ./project.yaml"),
            run("mv agents.yaml old.yaml"),
            write("other.txt"),
            run("echo x > more.txt"),
            // The command concerns the whole workspace and does not name the file.
            run("find . -name '*.tmp' -delete; echo x > last.txt"),
        ],
    )
    .await;
    assert_eq!(contents(), old_contents, "{results:?}");
    for written in ["other.txt", "more.txt", "last.txt"] {
        assert!(path(written).exists(), "{written}: {results:?}");
    }
}

const SKILL: &str = "---\nname: greet\ndescription: Greets\n---\nSay hello.";

#[tokio::test]
async fn workdir_begins_at_the_folder_of_the_file_and_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let yaml = "backend: { type: local, workdir: ./work }";
    let config = load(folder.path(), yaml, &[]);
    let write = ("write_file", json!({"path": "a.txt", "content": "one"}));
    calls(&config, &[write]).await;
    let content = std::fs::read_to_string(folder.path().join("work/a.txt")).unwrap();
    assert_eq!(content, "one");
}

#[tokio::test]
async fn timeout_of_the_backend_ends_a_command() {
    let folder = tempfile::tempdir().unwrap();
    let yaml = "backend: { type: local, workdir: ., timeout: 2, max_output_bytes: 100 }";
    let config = load(folder.path(), yaml, &[]);
    let (results, _) = calls(
        &config,
        &[
            ("execute", json!({"command": "sleep 60; echo late"})),
            (
                "execute",
                json!({"command": "head -c 5000 /dev/zero | tr '\\0' x"}),
            ),
        ],
    )
    .await;
    assert!(
        results[0].contains("timed out after 2.0 seconds"),
        "{}",
        results[0]
    );
    assert!(!results[0].contains("late"), "{}", results[0]);
    assert!(results[1].matches('x').count() <= 110, "{}", results[1]);
}

#[tokio::test]
async fn skills_next_to_the_file_are_listed_and_can_be_read_but_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let yaml = "backend: { type: local, workdir: ./work }\nskills: { paths: [./skills] }";
    let files = [("skills/greet/SKILL.md", SKILL), ("secret.txt", "key")];
    let config = load(folder.path(), yaml, &files);
    let root = folder.path().canonicalize().unwrap();
    let skill = root.join("skills/greet/SKILL.md");
    let skill = skill.to_str().unwrap();
    let secret = root.join("skills/../secret.txt");
    let (results, system) = calls(
        &config,
        &[
            ("read_file", json!({"path": skill})),
            (
                "write_file",
                json!({"path": skill, "content": "Say nothing."}),
            ),
            (
                "edit_file",
                json!({"path": skill, "old_text": "hello", "new_text": "no"}),
            ),
            ("read_file", json!({"path": secret.to_str().unwrap()})),
            (
                "grep",
                json!({"pattern": "hello", "path": root.join("skills").to_str().unwrap()}),
            ),
        ],
    )
    .await;
    assert!(
        system.contains(&format!("- [greet] Greets → Read {skill} for")),
        "{system}"
    );
    assert!(results[0].contains("Say hello."), "{}", results[0]);
    assert!(results[1].starts_with("Error"), "{}", results[1]);
    assert!(results[2].starts_with("Error"), "{}", results[2]);
    assert!(results[3].starts_with("Error"), "{}", results[3]);
    assert!(results[4].contains("SKILL.md"), "{}", results[4]);
    assert_eq!(std::fs::read_to_string(skill).unwrap(), SKILL);
}

#[tokio::test]
async fn skills_in_the_workspace_and_of_a_missing_folder_need_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let yaml = "backend: { type: local, workdir: ./work }\n\
                skills: { paths: [./work/skills, ./missing] }";
    let config = load(
        folder.path(),
        yaml,
        &[("work/skills/greet/SKILL.md", SKILL)],
    );
    let (_, system) = calls(&config, &[]).await;
    assert!(system.contains("[greet] Greets"), "{system}");
}

#[tokio::test]
async fn memory_next_to_the_file_is_shared_and_notes_go_to_the_workspace() {
    let folder = tempfile::tempdir().unwrap();
    let yaml = "backend: { type: local, workdir: ./work }\nmemory: { paths: [./AGENTS.md] }";
    let config = load(folder.path(), yaml, &[("AGENTS.md", "Use tabs.")]);
    let shared = folder.path().canonicalize().unwrap().join("AGENTS.md");
    let (results, system) = calls(
        &config,
        &[
            (
                "write_file",
                json!({"path": shared.to_str().unwrap(), "content": "Use spaces."}),
            ),
            (
                "write_file",
                json!({"path": "AGENTS.md", "content": "I am Ann."}),
            ),
        ],
    )
    .await;
    assert!(system.contains("Use tabs."), "{system}");
    assert!(results[0].starts_with("Error"), "{}", results[0]);
    assert_eq!(std::fs::read_to_string(&shared).unwrap(), "Use tabs.");
    let own = std::fs::read_to_string(folder.path().join("work/AGENTS.md")).unwrap();
    assert_eq!(own, "I am Ann.");

    let (_, system) = calls(&config, &[]).await;
    assert!(
        system.contains("I am Ann.") && system.contains("Use tabs."),
        "{system}"
    );
}

#[tokio::test]
async fn initial_content_of_memory_is_written_into_the_workspace() {
    let folder = tempfile::tempdir().unwrap();
    let yaml = "backend: { type: local, workdir: ./work }\n\
                memory: { paths: [./AGENTS.md], initial_content: '# Notes' }";
    let config = load(folder.path(), yaml, &[]);
    let (_, system) = calls(&config, &[]).await;
    assert!(system.contains("# Notes"), "{system}");
    let own = std::fs::read_to_string(folder.path().join("work/AGENTS.md")).unwrap();
    assert_eq!(own, "# Notes");
    assert!(!folder.path().join("AGENTS.md").exists());
}

#[tokio::test]
async fn backend_in_memory_reads_skills_of_this_machine() {
    let folder = tempfile::tempdir().unwrap();
    let yaml = "backend: { type: state }\nskills: { paths: [./skills] }";
    let config = load(folder.path(), yaml, &[("skills/greet/SKILL.md", SKILL)]);
    let skill = folder
        .path()
        .canonicalize()
        .unwrap()
        .join("skills/greet/SKILL.md");
    let read = ("read_file", json!({"path": skill.to_str().unwrap()}));
    let (results, system) = calls(&config, &[read]).await;
    assert!(
        system.contains("[greet]") && results[0].contains("Say hello."),
        "{system}"
    );
}

#[cfg(feature = "sandbox")]
#[tokio::test]
async fn sandbox_of_the_workspace_is_that_of_the_backend() {
    let folder = tempfile::tempdir().unwrap();
    let yaml = "backend: { type: local, workdir: ./work, sandbox: workspace }";
    let config = load(folder.path(), yaml, &[("outside.txt", "secret")]);
    let outside = folder.path().join("outside.txt");
    let command = format!("cat {}", outside.display());
    let (results, _) = calls(&config, &[("execute", json!({"command": command}))]).await;
    assert!(!results[0].contains("secret"), "{}", results[0]);
}

#[tokio::test]
async fn agent_of_a_file_without_a_backend_has_no_workspace() {
    let folder = tempfile::tempdir().unwrap();
    let config = load(folder.path(), "", &[]);
    let agent = build(config.agent("default").unwrap()).await;
    assert!(agent.info().tools.is_empty());
}

#[cfg(all(feature = "docker", target_os = "linux"))]
#[tokio::test]
async fn skills_next_to_the_file_are_mounted_in_a_new_container_alone() {
    let folder = tempfile::tempdir().unwrap();
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/docker/docker");
    let engine = folder.path().join("docker");
    std::os::unix::fs::symlink(program, &engine).unwrap();
    let workdir = folder.path().join("ws");
    let yaml = format!(
        "backend: {{ type: docker, image: image, workdir: {} }}\n\
         skills: {{ paths: [./skills, ./none, /opt/skills] }}",
        workdir.display()
    );
    let files = [("skills/greet/SKILL.md", SKILL)];
    let config = load(folder.path(), &yaml, &files);
    let mut config = config.agent("default").unwrap().clone();
    let backend = config.backend.clone().unwrap();
    let backend = backend.with_docker_program(&engine);
    config = config.with_backend(backend.clone());
    let agent = config.builder(&parts(ScriptedModel::new())).await.unwrap();
    drop(agent);
    let skills = folder.path().canonicalize().unwrap().join("skills");
    let skills = skills.display();
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    let mount = format!("type=bind\\,source={skills}\\,target={skills}\\,readonly");
    assert!(log.contains(&mount), "{log}");
    assert_eq!(log.matches("--mount").count(), 1, "{log}");

    let mut attached = backend.clone().with_container_name("box");
    attached.image = None;
    let mut remote = backend;
    remote.docker_host = Some("ssh://build".to_owned());
    for (backend, reason) in [(attached, "runs already"), (remote, "ssh://build")] {
        let config = config.clone().with_backend(backend);
        let error = config.builder(&parts(ScriptedModel::new())).await;
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("cannot be mounted") && error.contains(reason),
            "{error}"
        );
        assert!(error.contains("absolute path"), "{error}");
    }
}
