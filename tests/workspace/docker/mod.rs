//! A container as a workspace, with a program in place of `docker`: each call has a real command
//! line, and the commands are real processes. If the variable `AGENTCORE_TEST_DOCKER` names an
//! image, such as `debian:stable-slim`, some tests use a real engine.

mod commands;
mod container;
mod files;
mod real;

use std::path::PathBuf;

use agentcore::backend::{DockerBackend, DockerBuilder};
use tempfile::TempDir;

/// The fake engine: the program, a folder for its state, and one for workspaces.
struct Engine {
    base: PathBuf,
    _held: TempDir,
}

impl Engine {
    fn new() -> Self {
        let held = tempfile::tempdir().unwrap();
        let base = held.path().canonicalize().unwrap();
        let fake = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/docker/docker");
        // A link, because a copy could still be open for writing in a child that another test is
        // starting.
        std::os::unix::fs::symlink(fake, base.join("docker")).unwrap();
        Self { base, _held: held }
    }

    fn workdir(&self) -> PathBuf {
        self.base.join("ws")
    }

    fn builder(&self) -> DockerBuilder {
        DockerBackend::run("image")
            .program(self.base.join("docker"))
            .workdir(self.workdir().to_str().unwrap())
    }

    async fn start(&self) -> DockerBackend {
        self.builder().start().await.unwrap()
    }

    fn attach(&self, name: &str) -> DockerBuilder {
        DockerBackend::attach(name)
            .program(self.base.join("docker"))
            .workdir(self.workdir().to_str().unwrap())
    }

    fn set(&self, state: &str) {
        std::fs::write(self.base.join(state), "").unwrap();
    }

    fn clear(&self, state: &str) {
        std::fs::remove_file(self.base.join(state)).unwrap();
    }

    /// Returns all calls so far, except those of scripts.
    fn calls(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.base.join("log")).unwrap_or_default();
        let lines = log.lines().filter(|line| !line.starts_with("exec "));
        lines.map(|line| line.trim_end().to_owned()).collect()
    }

    fn containers(&self) -> Vec<String> {
        let names = std::fs::read_dir(self.base.join("containers")).unwrap();
        names
            .flatten()
            .map(|entry| entry.file_name().into_string().unwrap())
            .collect()
    }
}
