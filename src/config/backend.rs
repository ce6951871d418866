//! The configuration of a backend.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The kind of a backend.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum BackendType {
    /// A folder of this machine.
    #[default]
    Local,
    /// Files in memory, without commands: at most 64 MiB, or 8 MiB for each agent and user of a
    /// registry.
    State,
    /// A container (feature `docker`).
    Docker,
}

impl BackendType {
    /// Returns the name in a configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::State => "state",
            Self::Docker => "docker",
        }
    }
}

/// The sandbox of commands: the access that the kernel allows them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum SandboxCfg {
    /// No sandbox.
    #[default]
    Off,
    /// The access of `Sandbox::workspace` (feature `sandbox`).
    Workspace,
}

/// The backend for an agent's files and commands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct BackendCfg {
    /// The kind of backend. Defaults to `local`.
    #[serde(rename = "type")]
    pub kind: BackendType,
    /// The folder of the files. A relative path is relative to the folder of the configuration
    /// file; in a container, the path must be absolute. Defaults to the folder of the configuration
    /// file, or, in a container, to `/workspace`.
    pub workdir: Option<String>,
    /// The time limit of a command in seconds. Defaults to 120.
    pub timeout: Option<u64>,
    /// The maximum size of a command's output that is returned, in bytes. Defaults to 100,000.
    pub max_output_bytes: Option<usize>,
    /// The sandbox of the commands of a `local` backend. Defaults to `off`: a command may read and
    /// write everything that the process may, including the folders of other users.
    pub sandbox: SandboxCfg,
    /// The image of a new container.
    pub image: Option<String>,
    /// The name of the new container if `image` is set, or of an existing one otherwise. For a user
    /// of a registry, `.USER_nLENGTH` is appended; see `BackendStore::create`.
    pub container_name: Option<String>,
    /// The address of the Docker engine, such as `ssh://build@example.org`. Defaults to the address
    /// that the `docker` program uses.
    pub docker_host: Option<String>,
    /// The network of a new container. Defaults to `none`.
    pub network: Option<String>,
    /// The program to run instead of `docker`. A file cannot set it.
    #[serde(skip)]
    pub docker_program: Option<PathBuf>,
    /// The folders of this machine to mount in a container, read-only.
    #[serde(skip)]
    pub(super) mounts: Vec<PathBuf>,
}

impl BackendCfg {
    /// Creates the configuration of a folder of this machine.
    pub fn local(workdir: impl Into<String>) -> Self {
        Self {
            workdir: Some(workdir.into()),
            ..Self::default()
        }
    }

    /// Creates the configuration of files in memory.
    pub fn state() -> Self {
        Self {
            kind: BackendType::State,
            ..Self::default()
        }
    }

    /// Creates the configuration of a new container of an image.
    pub fn docker(image: impl Into<String>) -> Self {
        Self {
            kind: BackendType::Docker,
            image: Some(image.into()),
            ..Self::default()
        }
    }

    /// Sets the name of the container.
    #[must_use]
    pub fn with_container_name(mut self, name: impl Into<String>) -> Self {
        self.container_name = Some(name.into());
        self
    }

    /// Sets the program to run instead of `docker`, with the same arguments, such as `podman`.
    #[must_use]
    pub fn with_docker_program(mut self, program: impl Into<PathBuf>) -> Self {
        self.docker_program = Some(program.into());
        self
    }

    /// Sets the folder of the files. For a container, this is an absolute path in it.
    #[must_use]
    pub fn with_workdir(mut self, path: impl Into<String>) -> Self {
        self.workdir = Some(path.into());
        self
    }

    /// Sets the time limit of a command in seconds.
    #[must_use]
    pub fn with_timeout(mut self, seconds: u64) -> Self {
        self.timeout = Some(seconds);
        self
    }

    /// Sets the maximum number of bytes of a command's output that are returned.
    #[must_use]
    pub fn with_max_output_bytes(mut self, bytes: usize) -> Self {
        self.max_output_bytes = Some(bytes);
        self
    }

    /// Sets the sandbox of commands.
    #[must_use]
    pub fn with_sandbox(mut self, sandbox: SandboxCfg) -> Self {
        self.sandbox = sandbox;
        self
    }
}
