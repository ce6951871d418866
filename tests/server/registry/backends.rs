//! The backends of users.

use agentcore::ErrorKind;
use agentcore::config::{AgentConfig, BackendCfg};
use agentcore::registry::{BackendStore, ContainerAction};
use agentcore::testing::ScriptedModel;

use super::{empty, registry};

#[tokio::test]
async fn backend_of_a_user_is_created_found_and_removed() {
    let store = BackendStore::new();
    assert!(store.get("a", "ann").is_none());
    let backend = store
        .create("a", "ann", &BackendCfg::state(), None)
        .await
        .unwrap();
    backend.write("x", b"1").await.unwrap();
    assert!(store.get("a", "ann").unwrap().exists("x").await.unwrap());
    assert!(store.get("a", "bob").is_none() && store.get("b", "ann").is_none());
    let info = store.info("a", "ann").await.unwrap().unwrap();
    assert_eq!((info.backend_type, info.container_status), ("state", None));
    assert!(store.remove("a", "ann"));
    assert!(!store.remove("a", "ann"));

    let error = store
        .create("a", "", &BackendCfg::state(), None)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidRequest);
}

#[tokio::test]
async fn backends_of_invalidated_agents_are_removed_and_their_folders_stay() {
    let folder = tempfile::tempdir().unwrap();
    let registry = empty(ScriptedModel::new());
    let backend = BackendCfg::local(folder.path().to_str().unwrap());
    let config = AgentConfig::new("m").with_backend(backend);
    registry
        .register_template("default", config.clone())
        .unwrap();
    let get = async |user: &str| registry.get_or_clone("default", user).await.unwrap();
    let has_backends =
        || ["ann", "bob"].map(|user| registry.backends().get("default", user).is_some());

    let files = get("ann").await.backend().unwrap();
    files.write("a", b"of Ann").await.unwrap();
    drop(files);
    get("bob").await;
    assert_eq!(has_backends(), [true, true]);
    registry.invalidate("default", Some("ann"));
    assert_eq!(has_backends(), [false, true]);
    registry.invalidate("other", None);
    assert_eq!(has_backends(), [false, true]);
    registry.invalidate("default", None);
    assert_eq!(has_backends(), [false, false]);

    let files = get("ann").await.backend().unwrap();
    assert_eq!(files.read("a").await.unwrap(), b"of Ann"[..]);
    registry.replace_template("default", config).unwrap();
    assert_eq!(has_backends(), [false, false]);
}

#[tokio::test]
async fn agent_without_a_container_refuses_actions_on_one() {
    let registry = registry(ScriptedModel::new());
    let instance = registry.get_or_clone("default", "ann").await.unwrap();
    for action in [ContainerAction::Stop, ContainerAction::Restart] {
        let error = instance.container(action).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRequest);
        assert_eq!(error.to_string(), "the agent \"default\" has no container");
    }
    let error = registry
        .backends()
        .stop("default", "bob")
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidRequest);
}

#[tokio::test]
async fn mode_of_the_backend_is_checked() {
    let registry = registry(ScriptedModel::new());
    let instance = registry.get_or_clone("default", "ann").await.unwrap();
    for (mode, url, text) in [
        ("cloud", None, "mode must be 'local' or 'remote'"),
        (
            "remote",
            None,
            "sandbox_url is required for the mode 'remote'",
        ),
        (
            "remote",
            Some("--privileged"),
            "sandbox_url must begin with one of: ssh://, tcp://, unix://, http://, https://",
        ),
        (
            "remote",
            Some("ssh://h"),
            "the mode 'remote' needs a backend of the type docker",
        ),
    ] {
        let error = instance.set_backend(mode, url).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (ErrorKind::InvalidRequest, text)
        );
    }
    let info = instance.set_backend("local", None).await.unwrap();
    assert_eq!(info.backend_type, "state");

    let bare = empty(ScriptedModel::new());
    bare.register_template("default", AgentConfig::new("m"))
        .unwrap();
    let instance = bare.get_or_clone("default", "ann").await.unwrap();
    let error = instance.set_backend("local", None).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the agent \"default\" has no backend; add one to its configuration"
    );
    assert!(instance.backend_info().await.unwrap().is_none());
}

#[tokio::test]
async fn files_in_memory_of_a_user_and_their_users_are_limited() {
    let store = BackendStore::new();
    let create = async |user: &str| {
        let state = BackendCfg::state();
        store.create("a", user, &state, None).await
    };
    let backend = create("u0").await.unwrap();
    let half = vec![b'x'; 4 * 1024 * 1024 - 1024];
    backend.write("a", &half).await.unwrap();
    backend.write("b", &half).await.unwrap();
    backend.write("c", &half).await.unwrap_err();

    for number in 1..1_024 {
        create(&format!("u{number}")).await.unwrap();
    }
    create("u5").await.unwrap();
    let error = create("one_more").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::QuotaExhausted);
    assert!(error.to_string().contains("1024 backends"), "{error}");
    assert!(store.remove("a", "u7"));
    create("one_more").await.unwrap();
}

/// A fake engine in place of `docker`, with a folder for its state.
#[cfg(all(feature = "docker", target_os = "linux"))]
struct Engine(tempfile::TempDir);

#[cfg(all(feature = "docker", target_os = "linux"))]
impl Engine {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/docker/docker");
        std::os::unix::fs::symlink(program, folder.path().join("docker")).unwrap();
        Self(folder)
    }

    fn config(&self) -> BackendCfg {
        BackendCfg::docker("image")
            .with_docker_program(self.0.path().join("docker"))
            .with_workdir(self.0.path().join("ws").to_str().unwrap())
    }

    fn containers(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path().join("containers")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.0.path().join("log")).unwrap()
    }
}

#[cfg(all(feature = "docker", target_os = "linux"))]
#[tokio::test]
async fn users_have_containers_of_their_own_that_stay() {
    let engine = Engine::new();
    let store = BackendStore::new();
    for user in ["ann", "Bob"] {
        store
            .create("coder", user, &engine.config(), None)
            .await
            .unwrap();
    }
    let named = engine.config().with_container_name("box");
    store.create("coder", "cy", &named, None).await.unwrap();
    let names = ["agentcore-coder._42ob", "agentcore-coder.ann", "box.cy_n3"];
    assert_eq!(engine.containers(), names);

    drop(store);
    assert_eq!(engine.containers(), names);
    let again = BackendStore::new();
    again
        .create("coder", "ann", &engine.config(), None)
        .await
        .unwrap();
    assert_eq!(engine.containers(), names);
}

#[cfg(all(feature = "docker", target_os = "linux"))]
#[tokio::test]
async fn container_of_a_user_is_stopped_restarted_and_moved() {
    let engine = Engine::new();
    let registry = empty(ScriptedModel::new());
    let config = AgentConfig::new("m").with_backend(engine.config());
    registry.register_template("coder", config).unwrap();
    let instance = registry.get_or_clone("coder", "ann").await.unwrap();
    let mut events = registry.events().subscribe("ann");
    let info = instance.backend_info().await.unwrap().unwrap();
    assert_eq!((info.backend_type, info.sandbox_url), ("docker", None));
    assert_eq!(info.container_status.as_deref(), Some("running"));

    let status = instance.container(ContainerAction::Stop).await.unwrap();
    assert_eq!(status, "exited");
    assert_eq!(events.next().await.as_deref(), Some("container_status:ann"));
    let status = instance.container(ContainerAction::Restart).await.unwrap();
    assert_eq!(status, "running");

    let info = instance
        .set_backend("remote", Some("ssh://build"))
        .await
        .unwrap();
    assert_eq!(info.sandbox_url.as_deref(), Some("ssh://build"));
    assert!(
        engine.log().contains("--host ssh://build"),
        "{}",
        engine.log()
    );
    let config = instance.config().unwrap();
    let host = config.backend.as_ref().unwrap().docker_host.clone();
    assert_eq!(host.as_deref(), Some("ssh://build"));
    let info = instance.set_backend("local", None).await.unwrap();
    assert_eq!(info.sandbox_url, None);
}
