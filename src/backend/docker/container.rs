//! A container, from its start to its end.

use std::process::Stdio;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};

use super::super::shell::Shell;
use super::builder::DockerBuilder;
use super::cli::{Called, Cli, refused};
use super::reaper::reap;

/// The time limit of pulling an image.
const PULL: Duration = Duration::from_secs(600);
/// The time limit of all other operations on a container.
const LIMIT: Duration = Duration::from_secs(60);
/// The maximum length of the engine's answers, in bytes.
const MAX_ANSWER: u64 = 64 * 1024;

/// The status of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ContainerStatus {
    /// It is running.
    Running,
    /// It exists, but does not run: `exited`, `paused`, `created` and the like.
    Stopped(String),
    /// No container of that name exists.
    Missing,
}

/// A container that is removed with this value, unless it is to stay.
#[derive(Debug)]
pub(super) struct Container {
    pub(super) cli: Cli,
    pub(super) name: String,
    /// True if the container stays when this value is dropped. False while it is created, so that a
    /// creation that is cancelled or fails leaves none.
    keep: bool,
}

impl Container {
    /// Runs a new container, or finds the container to attach to.
    pub(super) async fn open(builder: &DockerBuilder) -> Result<Self> {
        let mut container = Self {
            cli: builder.cli.clone(),
            name: builder.name.clone(),
            keep: true,
        };

        let version_arguments = ["version"];
        container
            .call("the engine", &version_arguments, LIMIT)
            .await?;
        let Some(image) = &builder.image else {
            match container.status().await? {
                ContainerStatus::Running => {}
                ContainerStatus::Stopped(_) => container.control("start").await?,
                ContainerStatus::Missing => {
                    let text = format!("there is no container {:?}", container.name);
                    return Err(Error::new(ErrorKind::NotFound, text));
                }
            }

            return Ok(container);
        };

        // A container that already has this name belongs to others: it is not removed on drop.
        if container.status().await? != ContainerStatus::Missing {
            let text = format!(
                "there is a container {:?} already; attach to it, or choose another name",
                container.name
            );
            return Err(Error::new(ErrorKind::Conflict, text));
        }

        container.keep = false;
        let arguments = builder.run_arguments(image);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let subject = format!("image {image:?}");
        let run = container.call(&subject, &arguments, PULL).await;
        container.keep = match &run {
            Ok(_) => builder.keep,
            // After the check, others have created a container with this name.
            Err(error) => error.kind() == ErrorKind::Conflict,
        };

        run?;
        Ok(container)
    }

    /// Returns the shell of the container for commands of this user.
    pub(super) async fn shell(&self, user: Option<&str>) -> Result<Shell> {
        let mut arguments = vec!["exec"];
        if let Some(user) = user {
            arguments.extend(["--user", user]);
        }
        arguments.extend([self.name.as_str(), "sh", "-c", "command -v bash"]);
        let output = self.cli.call(arguments, b"", MAX_ANSWER, LIMIT).await?;
        match output.status.code() {
            Some(0) => Ok(Shell::Bash),
            // The engine explains why it runs nothing; `sh` is silent.
            Some(1 | 127) if output.stderr.is_empty() => Ok(Shell::Posix),
            _ => Err(refused(&self.label(), &output)),
        }
    }

    /// Returns the status of the container.
    pub(super) async fn status(&self) -> Result<ContainerStatus> {
        let arguments = ["container", "inspect", "--format", "{{.State.Status}}"]
            .into_iter()
            .chain([self.name.as_str()]);
        let output = self.cli.call(arguments, b"", MAX_ANSWER, LIMIT).await?;
        if output.status.success() {
            let status = String::from_utf8_lossy(&output.stdout);
            return Ok(match status.trim() {
                "running" => ContainerStatus::Running,
                other => ContainerStatus::Stopped(other.to_owned()),
            });
        }

        let error = refused(&self.label(), &output);
        match error.kind() {
            ErrorKind::NotFound => Ok(ContainerStatus::Missing),
            _ => Err(error),
        }
    }

    /// Starts, stops or restarts the container: `action` is `start`, `stop` or `restart`.
    pub(super) async fn control(&self, action: &str) -> Result<()> {
        let arguments = ["container", action, &self.name];
        self.call(&self.label(), &arguments, LIMIT).await.map(drop)
    }

    /// Removes it, running or not, and all that runs in it.
    pub(super) async fn remove(&self) -> Result<()> {
        let output = self
            .cli
            .call(self.removal(), b"", MAX_ANSWER, LIMIT)
            .await?;
        if output.status.success() {
            Ok(())
        } else {
            match refused(&self.label(), &output) {
                gone if gone.kind() == ErrorKind::NotFound => Ok(()),
                error => Err(error),
            }
        }
    }

    fn removal(&self) -> [&str; 5] {
        ["container", "rm", "--force", "--volumes", &self.name]
    }

    /// Returns the container as errors name it.
    fn label(&self) -> String {
        format!("container {:?}", self.name)
    }

    /// Calls the engine. An error names `subject`.
    async fn call(&self, subject: &str, arguments: &[&str], limit: Duration) -> Result<Called> {
        let output = self.cli.call(arguments, b"", MAX_ANSWER, limit).await?;
        if output.status.success() {
            Ok(output)
        } else {
            Err(refused(subject, &output))
        }
    }
}

impl Drop for Container {
    /// Removes the container without waiting for the engine.
    fn drop(&mut self) {
        if self.keep {
            return;
        }

        let mut command = self.cli.command(self.removal());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if let Ok(child) = command.spawn() {
            reap(child, LIMIT);
        }
    }
}
