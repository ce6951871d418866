//! Separation of users: none sees data of another one.

use agentcore::config::{AgentConfig, BackendCfg, Config, MemoryCfg};
use agentcore::session::ListQuery;
use agentcore::testing::ScriptedModel;
use agentcore::{ErrorKind, SessionStore, ThreadStore};
use serde_json::json;

use super::{empty, registry};
use crate::kit::result_texts;

#[tokio::test]
async fn users_have_folders_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let workdir = folder.path().join("workspace");
    let model = ScriptedModel::new()
        .call(
            "write_file",
            json!({"path": "notes.txt", "content": "of Ann"}),
        )
        .say("done")
        .call("ls", json!({"path": "."}))
        .call("read_file", json!({"path": "notes.txt"}))
        .call("read_file", json!({"path": "../ann/notes.txt"}))
        .call(
            "read_file",
            json!({"path": workdir.join("users/ann/notes.txt").to_str().unwrap()}),
        )
        .call("grep", json!({"pattern": "of Ann"}))
        .say("done");
    let registry = empty(model);
    let backend = BackendCfg::local(workdir.to_str().unwrap());
    let config = AgentConfig::new("m").with_backend(backend);
    registry.register_template("default", config).unwrap();

    let ann = registry.get_or_clone("default", "ann").await.unwrap();
    ann.session("th_1").run("Write").await.unwrap();
    let notes = std::fs::read_to_string(workdir.join("users/ann/notes.txt")).unwrap();
    assert_eq!(notes, "of Ann");

    let bob = registry.get_or_clone("default", "bob").await.unwrap();
    let output = bob.session("th_2").run("Look").await.unwrap();
    for text in result_texts(&output.messages) {
        assert!(!text.contains("of Ann"), "{text}");
    }
    assert!(workdir.join("users/bob").is_dir());
}

#[tokio::test]
async fn users_have_files_in_memory_of_their_own() {
    let registry = registry(ScriptedModel::new());
    let ann = registry.get_or_clone("default", "ann").await.unwrap();
    let bob = registry.get_or_clone("default", "bob").await.unwrap();
    ann.backend()
        .unwrap()
        .write("a.txt", b"of Ann")
        .await
        .unwrap();
    assert!(!bob.backend().unwrap().exists("a.txt").await.unwrap());
    assert!(ann.backend().unwrap().exists("a.txt").await.unwrap());
}

#[tokio::test]
async fn files_in_memory_stay_when_the_instance_is_made_again() {
    let registry = registry(ScriptedModel::new());
    let ann = registry.get_or_clone("default", "ann").await.unwrap();
    ann.backend()
        .unwrap()
        .write("a.txt", b"of Ann")
        .await
        .unwrap();
    registry.invalidate("default", None);
    let ann = registry.get_or_clone("default", "ann").await.unwrap();
    assert!(ann.backend().unwrap().exists("a.txt").await.unwrap());

    registry.remove("default");
    let config = AgentConfig::new("m").with_backend(BackendCfg::state());
    registry.register_template("default", config).unwrap();
    let ann = registry.get_or_clone("default", "ann").await.unwrap();
    assert!(!ann.backend().unwrap().exists("a.txt").await.unwrap());
}

#[tokio::test]
async fn odd_ids_of_users_are_folders_beneath_the_workspace() {
    let folder = tempfile::tempdir().unwrap();
    let workdir = folder.path().join("w");
    let registry = empty(ScriptedModel::new());
    let backend = BackendCfg::local(workdir.to_str().unwrap());
    let config = AgentConfig::new("m").with_backend(backend);
    registry.register_template("default", config).unwrap();
    let users = [
        "..",
        ".",
        "../b",
        "a/b",
        "Ann",
        "ann",
        "_41nn",
        "ann@example.org",
        "\u{e9}",
    ];
    for user in users {
        let instance = registry.get_or_clone("default", user).await.unwrap();
        instance
            .backend()
            .unwrap()
            .write("mine.txt", user.as_bytes())
            .await
            .unwrap();
    }
    for user in users {
        let instance = registry.get_or_clone("default", user).await.unwrap();
        let content = instance.backend().unwrap().read("mine.txt").await.unwrap();
        assert_eq!(content, user.as_bytes());
    }
    let folders = std::fs::read_dir(workdir.join("users")).unwrap().count();
    assert_eq!(folders, users.len());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);

    for user in ["".to_owned(), "x".repeat(257)] {
        let error = registry.get_or_clone("default", &user).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRequest);
    }
}

#[cfg(unix)]
#[tokio::test]
async fn link_in_place_of_the_folder_of_users_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let (workdir, outside) = (folder.path().join("w"), folder.path().join("outside"));
    std::fs::create_dir_all(&workdir).unwrap();
    std::fs::create_dir(&outside).unwrap();
    let registry = empty(ScriptedModel::new());
    let backend = BackendCfg::local(workdir.to_str().unwrap());
    let config = AgentConfig::new("m").with_backend(backend);
    registry.register_template("default", config).unwrap();

    let users = workdir.join("users");
    for link in [users.clone(), users.join("ann")] {
        std::os::unix::fs::symlink(&outside, &link).unwrap();
        let error = registry.get_or_clone("default", "ann").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        let text = error.to_string();
        assert!(
            text.contains(&format!("{} is a link", link.display())),
            "{text}"
        );
        std::fs::remove_file(&link).unwrap();
        std::fs::create_dir(&link).unwrap();
    }
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
    registry.get_or_clone("default", "ann").await.unwrap();
}

#[tokio::test]
async fn users_have_sessions_of_their_own_in_a_store_they_share() {
    let store = ThreadStore::new();
    let registry = registry(ScriptedModel::new().say("Hello Ann").say("Hello Bob"));
    let registry = registry.store(store.clone());
    let ann = registry.get_or_clone("default", "ann").await.unwrap();
    ann.session("th_1").run("I am Ann").await.unwrap();
    let bob = registry.get_or_clone("default", "bob").await.unwrap();
    bob.session("th_2").run("I am Bob").await.unwrap();

    let error = bob.session("th_1").run("Who am I?").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SessionNotFound);
    assert!(bob.session("th_1").state().await.unwrap().is_none());
    assert!(!bob.session("th_1").delete().await.unwrap());
    let page = store
        .list_page(ListQuery::new().with_user_id("bob"))
        .await
        .unwrap();
    let ids: Vec<_> = page.sessions.iter().map(|info| &*info.id).collect();
    assert_eq!(ids, ["th_2"]);
}

#[tokio::test]
async fn notes_of_one_user_are_not_in_the_prompt_of_another() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("AGENTS.md"), "Use tabs.").unwrap();
    let model = ScriptedModel::new()
        .call(
            "write_file",
            json!({"path": "AGENTS.md", "content": "I am Ann."}),
        )
        .say("done")
        .say("1")
        .say("2");
    let registry = empty(model.clone());
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let config = AgentConfig::new("m")
        .with_backend(BackendCfg::local(path("work")))
        .with_memory(MemoryCfg::new([path("AGENTS.md")]));
    registry.register_template("default", config).unwrap();
    let ann = registry.get_or_clone("default", "ann").await.unwrap();
    ann.session("th_1").run("Remember me").await.unwrap();
    ann.session("th_2").run("Hi").await.unwrap();
    let bob = registry.get_or_clone("default", "bob").await.unwrap();
    bob.session("th_3").run("Hi").await.unwrap();

    let requests = model.requests();
    let prompts: Vec<_> = requests
        .iter()
        .map(|request| request.system.to_string())
        .collect();
    assert!(
        prompts[2].contains("I am Ann.") && prompts[2].contains("Use tabs."),
        "{}",
        prompts[2]
    );
    assert!(
        !prompts[3].contains("I am Ann.") && prompts[3].contains("Use tabs."),
        "{}",
        prompts[3]
    );
}

#[cfg(feature = "jsonl")]
#[tokio::test]
async fn agents_that_name_the_same_store_share_its_sessions() {
    use agentcore::config::SessionsCfg;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let registry = empty(ScriptedModel::new().say("1").say("2"));
    for (id, path) in [
        ("a", path.to_owned()),
        ("b", format!("{path}/./")),
        ("c", format!("{path}/c")),
    ] {
        let config = AgentConfig::new("m").with_sessions(SessionsCfg::jsonl(path));
        registry.register_template(id, config).unwrap();
    }
    let instance = async |id: &str| registry.get_or_clone(id, "ann").await.unwrap();
    instance("a").await.session("th_1").run("Hi").await.unwrap();
    let output = instance("b").await.session("th_1").run("Hi").await.unwrap();
    assert_eq!(output.messages.len(), 4);
    assert!(
        instance("c")
            .await
            .session("th_1")
            .state()
            .await
            .unwrap()
            .is_none()
    );
}

/// The file has no `workdir`, and the skills are next to it, as in a new project.
#[tokio::test]
async fn skills_next_to_the_file_are_found_in_the_workspace_of_each_user() {
    const SKILL: &str = "---\nname: greet\ndescription: Greets\n---\nSay hello.";
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let skill = folder.join("skills/greet/SKILL.md");
    let of_bob = folder.join("users/bob/own/wave/SKILL.md");
    for (path, text) in [(&skill, SKILL), (&of_bob, &SKILL.replace("greet", "wave"))] {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let path = skill.to_str().unwrap();
    for backend in ["{ type: local }", "{ type: local, workdir: . }"] {
        let yaml = format!("model: m\nbackend: {backend}\nskills: {{ paths: [./skills, ./own] }}");
        std::fs::write(folder.join("agents.yaml"), yaml).unwrap();
        let model = ScriptedModel::new()
            .call("read_file", json!({ "path": path }))
            .call(
                "write_file",
                json!({"path": path, "content": "Say nothing."}),
            )
            .say("done");
        let registry = empty(model);
        let config = Config::load(folder.join("agents.yaml")).unwrap();
        registry.register_config(&config).unwrap();
        for (user, names) in [("ann", &["greet"][..]), ("bob", &["greet", "wave"])] {
            let instance = registry.get_or_clone("default", user).await.unwrap();
            let skills = instance.skills().await.into_iter();
            let mut skill_names: Vec<_> = skills.map(|skill| skill.name.to_string()).collect();
            skill_names.sort();
            assert_eq!(skill_names, names, "{backend} {user}");
        }
        let ann = registry.get_or_clone("default", "ann").await.unwrap();
        let output = ann.session("th_1").run("Go").await.unwrap();
        let results = result_texts(&output.messages);
        assert!(results[0].contains("Say hello."), "{results:?}");
        assert!(results[1].starts_with("Error"), "{results:?}");
    }
    assert_eq!(std::fs::read_to_string(&skill).unwrap(), SKILL);
}

#[tokio::test]
async fn skills_of_the_whole_workdir_show_no_files_of_other_users() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let notes = folder.join("users/bob/notes.txt");
    std::fs::create_dir_all(notes.parent().unwrap()).unwrap();
    std::fs::write(&notes, "of Bob").unwrap();
    for paths in [".", "./users", "./users/bob"] {
        let yaml = format!("model: m\nbackend: {{ type: local }}\nskills: {{ paths: [{paths}] }}");
        std::fs::write(folder.join("agents.yaml"), yaml).unwrap();
        let read = json!({"path": notes.to_str().unwrap()});
        let registry = empty(ScriptedModel::new().call("read_file", read).say("done"));
        let config = Config::load(folder.join("agents.yaml")).unwrap();
        registry.register_config(&config).unwrap();
        let ann = registry.get_or_clone("default", "ann").await.unwrap();
        let output = ann.session("th_1").run("Look").await.unwrap();
        let results = result_texts(&output.messages).concat();
        assert!(!results.contains("of Bob"), "{paths}: {results}");
    }
}
