//! The start of a backend from its configuration.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::{Backend, LocalBackend, MemoryBackend};
#[cfg(all(feature = "docker", unix))]
use crate::backend::{DockerBackend, DockerBuilder};
use crate::error::{Error, ErrorKind, Result};
use crate::util::blocking::blocking;

#[cfg(feature = "sandbox")]
use super::backend::SandboxCfg;
use super::backend::{BackendCfg, BackendType};

/// The folder in the `workdir` with a folder for each user.
pub(super) const USERS: &str = "users";

/// The default time limit of a command, in seconds.
const DEFAULT_TIMEOUT: u64 = 120;

/// The default maximum number of bytes kept of a command's output.
const DEFAULT_MAX_OUTPUT: usize = 100_000;

/// The maximum size of one user's files in memory, in bytes.
const USER_MEMORY: usize = 8 * 1024 * 1024;

/// A backend that was started from its configuration.
#[derive(Clone, Debug)]
pub(crate) struct StartedBackend {
    /// The backend.
    pub(crate) backend: Arc<dyn Backend>,
    /// Its kind.
    pub(crate) kind: BackendType,
    /// The container, if the backend has one.
    #[cfg(all(feature = "docker", unix))]
    container: Option<Arc<DockerBackend>>,
}

impl StartedBackend {
    /// Returns the status of the container: `running`, `missing`, or the status that the engine
    /// reports. `None` for a backend without a container.
    pub(crate) async fn container_status(&self) -> Result<Option<String>> {
        #[cfg(all(feature = "docker", unix))]
        if let Some(container) = &self.container {
            use crate::backend::ContainerStatus;
            return Ok(Some(match container.container_status().await? {
                ContainerStatus::Running => "running".to_owned(),
                ContainerStatus::Stopped(word) => word,
                ContainerStatus::Missing => "missing".to_owned(),
            }));
        }
        Ok(None)
    }

    /// Stops the container, if there is one.
    pub(crate) async fn stop_container(&self) -> Result<()> {
        #[cfg(all(feature = "docker", unix))]
        if let Some(container) = &self.container {
            container.stop_container().await?;
        }
        Ok(())
    }

    /// Restarts the container, if there is one.
    pub(crate) async fn restart_container(&self) -> Result<()> {
        #[cfg(all(feature = "docker", unix))]
        if let Some(container) = &self.container {
            container.restart_container().await?;
        }
        Ok(())
    }
}

/// The agent and the user that own a backend.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner<'a> {
    /// The id of the agent.
    #[cfg_attr(
        not(feature = "docker"),
        expect(dead_code, reason = "containers are named after it")
    )]
    pub(crate) agent: &'a str,
    /// The name of the user's folder.
    pub(crate) user: &'a str,
}

#[cfg(all(feature = "docker", unix))]
impl Owner<'_> {
    /// Returns the name of the user's container, which is unique to its owner:
    ///
    /// * without a name in the configuration, the first dot ends the id of the agent, which
    ///   contains none;
    /// * with a name, `_n` begins its length. The names of users' folders contain no `_n`, because
    ///   their `_` is followed by a digit, a letter up to `f`, or `long-`.
    fn container_name(&self, name: Option<&str>) -> String {
        let user = self.user;
        match name {
            Some(name) => format!("{name}.{user}_n{}", name.len()),
            None => format!("agentcore-{}.{user}", self.agent),
        }
    }
}

impl BackendCfg {
    /// Starts the backend. With an `owner`, it has its own folder or container. Relative paths are
    /// relative to `folder`.
    pub(crate) async fn start(
        &self,
        folder: Option<&Path>,
        owner: Option<Owner<'_>>,
    ) -> Result<StartedBackend> {
        match self.kind {
            BackendType::Local => self.start_local(folder, owner).await,
            BackendType::State => {
                let files = match owner {
                    Some(_) => MemoryBackend::new().with_max_bytes(USER_MEMORY),
                    None => MemoryBackend::new(),
                };
                Ok(self.started(Arc::new(files)))
            }
            BackendType::Docker => self.start_docker(owner).await,
        }
    }

    fn started(&self, backend: Arc<dyn Backend>) -> StartedBackend {
        StartedBackend {
            backend,
            kind: self.kind,
            #[cfg(all(feature = "docker", unix))]
            container: None,
        }
    }

    async fn start_local(
        &self,
        folder: Option<&Path>,
        owner: Option<Owner<'_>>,
    ) -> Result<StartedBackend> {
        let workdir = Path::new(self.workdir.as_deref().unwrap_or("."));
        let mut root = folder.map_or_else(|| workdir.to_owned(), |folder| folder.join(workdir));
        let user = owner.map(|owner| owner.user.to_owned());
        let config = self.clone();
        let backend = blocking(move || {
            std::fs::create_dir_all(&root).map_err(|error| not_created(&root, &error))?;
            for name in user.iter().flat_map(|user| [USERS, user.as_str()]) {
                root.push(name);
                make_own_folder(&root)?;
            }
            config.open_local(&root)
        });
        Ok(self.started(Arc::new(backend.await?)))
    }

    fn open_local(&self, root: &Path) -> Result<LocalBackend> {
        let backend = LocalBackend::new(root)?
            .with_timeout(self.time_limit())
            .with_max_output(self.output_limit());
        #[cfg(feature = "sandbox")]
        if self.sandbox == SandboxCfg::Workspace {
            return Ok(backend.with_sandbox(crate::backend::Sandbox::workspace(root)));
        }
        Ok(backend)
    }

    fn time_limit(&self) -> Duration {
        Duration::from_secs(self.timeout.unwrap_or(DEFAULT_TIMEOUT))
    }

    fn output_limit(&self) -> usize {
        self.max_output_bytes.unwrap_or(DEFAULT_MAX_OUTPUT)
    }

    #[cfg(not(all(feature = "docker", unix)))]
    async fn start_docker(&self, _owner: Option<Owner<'_>>) -> Result<StartedBackend> {
        let text = super::check::needs_feature("a backend of the type \"docker\"", "docker");
        Err(Error::new(ErrorKind::Config, text))
    }

    /// Starts the container. Without an image, or if its name is taken, attaches to the container
    /// of that name, which an earlier process may have left.
    #[cfg(all(feature = "docker", unix))]
    async fn start_docker(&self, owner: Option<Owner<'_>>) -> Result<StartedBackend> {
        let name = match (owner, &self.container_name) {
            (Some(owner), name) => Some(owner.container_name(name.as_deref())),
            (None, name) => name.clone(),
        };
        let attached = || {
            // There is a name: a configuration without an image must have one, and only a container
            // with a name can exist already.
            let name = name.clone().unwrap_or_default();
            self.docker_settings(DockerBackend::attach(name))
        };
        let mounts = self.existing_mounts().await?;
        let container = match &self.image {
            None => attached().start().await?,
            Some(image) => {
                let mut builder = self.docker_settings(DockerBackend::run(image));
                for folder in mounts {
                    builder = builder.mount_read_only(&folder, folder.as_str());
                }
                if let Some(network) = &self.network {
                    builder = builder.network(network);
                }
                if let Some(name) = &name {
                    // A container with a name keeps its files across restarts.
                    builder = builder.name(name).keep(true);
                }
                match builder.start().await {
                    Err(error) if error.kind() == ErrorKind::Conflict && name.is_some() => {
                        attached().start().await?
                    }
                    started => started?,
                }
            }
        };
        let container = Arc::new(container);
        Ok(StartedBackend {
            backend: container.clone(),
            kind: self.kind,
            container: Some(container),
        })
    }

    /// Returns the absolute paths of the folders to mount that exist.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Config`] if one exists and the container cannot mount it.
    #[cfg(all(feature = "docker", unix))]
    async fn existing_mounts(&self) -> Result<Vec<String>> {
        let folders = self.mounts.clone();
        let folders = blocking(move || {
            folders
                .iter()
                .filter(|folder| folder.is_dir())
                .map(|folder| Ok(LocalBackend::new(folder)?.root().to_owned()))
                .collect::<Result<Vec<_>>>()
        })
        .await?;
        let Some(folder) = folders.first() else {
            return Ok(folders);
        };
        let reason = match (&self.image, &self.docker_host) {
            (_, Some(host)) => format!("the engine at {host} has other files than this machine"),
            (None, _) => "the container runs already".to_owned(),
            (Some(_), None) => return Ok(folders),
        };
        let text = format!(
            "the skills in {folder} cannot be mounted, for {reason}; copy them into the container, \
             and name them by their absolute path in it"
        );
        Err(Error::new(ErrorKind::Config, text))
    }

    #[cfg(all(feature = "docker", unix))]
    fn docker_settings(&self, mut builder: DockerBuilder) -> DockerBuilder {
        builder = builder
            .timeout(self.time_limit())
            .max_output(self.output_limit());
        if let Some(workdir) = &self.workdir {
            builder = builder.workdir(workdir);
        }
        if let Some(program) = &self.docker_program {
            builder = builder.program(program);
        }
        if let Some(host) = &self.docker_host {
            builder = builder.host(host);
        }
        builder
    }
}

/// Makes the folder, if need be. Commands of other users may have put a link in its place, which
/// leads out of the `workdir`.
fn make_own_folder(folder: &Path) -> Result<()> {
    match std::fs::create_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        outcome => outcome.map_err(|error| not_created(folder, &error))?,
    }

    let metadata =
        std::fs::symlink_metadata(folder).map_err(|error| not_created(folder, &error))?;
    if metadata.is_dir() {
        return Ok(());
    }
    let text = format!(
        "{} is a link or a file; a folder with the files of users has to be there: move it there, \
         or set `workdir` to where it is",
        folder.display()
    );
    Err(Error::new(ErrorKind::Io, text))
}

fn not_created(folder: &Path, error: &std::io::Error) -> Error {
    let text = format!("cannot create the folder {}: {error}", folder.display());
    Error::new(ErrorKind::Io, text)
}

#[cfg(all(test, feature = "docker", unix))]
mod tests {
    use super::Owner;

    #[test]
    fn container_names_of_different_owners_differ() {
        let name = |agent, user, name| Owner { agent, user }.container_name(name);
        let pairs = [
            (name("code", "r-ann", None), name("code-r", "ann", None)),
            (name("a", "x-b", Some("box")), name("a", "b", Some("box-x"))),
            (name("a", "x.b", Some("box")), name("a", "b", Some("box.x"))),
            (name("a", "1.b", Some("box")), name("a", "b", Some("box.1"))),
            (
                name("box", "ann", None),
                name("a", "ann", Some("agentcore-box")),
            ),
        ];
        for (one, other) in pairs {
            assert_ne!(one, other);
        }
    }
}
