//! `Debug` output of values that may be secrets.

use agentcore::backend::Command;

const SECRET: &str = "hunter2-of-the-variable";

fn shows_names_only(text: &str) {
    assert!(text.contains("TOKEN"), "{text}");
    assert!(!text.contains(SECRET), "{text}");
}

#[test]
fn debug_of_command_shows_variable_names_only() {
    shows_names_only(&format!(
        "{:?}",
        Command::new("env").with_env("TOKEN", SECRET)
    ));
    shows_names_only(&format!(
        "{:#?}",
        Command::new("env").with_env("TOKEN", SECRET)
    ));
}

#[cfg(all(feature = "process", unix))]
#[test]
fn debug_of_local_backend_shows_variable_names_only() {
    let folder = tempfile::tempdir().unwrap();
    let backend = agentcore::backend::LocalBackend::new(folder.path()).unwrap();
    shows_names_only(&format!("{:?}", backend.with_env("TOKEN", SECRET)));
}

#[cfg(all(feature = "docker", unix))]
#[test]
fn debug_of_docker_builder_shows_variable_names_only() {
    let builder = agentcore::backend::DockerBackend::run("image").env("TOKEN", SECRET);
    shows_names_only(&format!("{builder:?}"));
}
