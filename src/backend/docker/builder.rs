//! [`DockerBuilder`], the builder of a [`DockerBackend`].

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};

use super::super::command::CommandLimits;
use super::super::shell::Shell;
use super::backend::DockerBackend;
use super::cli::Cli;
use super::container::Container;

/// The memory of a new container, in bytes, unless set otherwise.
const MEMORY: u64 = 2 * 1024 * 1024 * 1024;
/// The maximum number of processes and threads of a new container, unless set otherwise.
const PROCESSES: u32 = 512;

/// A builder of a [`DockerBackend`], from [`DockerBackend::run`] or [`DockerBackend::attach`].
#[derive(Clone)]
#[must_use]
pub struct DockerBuilder {
    pub(super) cli: Cli,
    pub(super) image: Option<String>,
    pub(super) name: String,
    pub(super) workdir: String,
    pub(super) network: String,
    pub(super) user: Option<String>,
    pub(super) capabilities: Vec<String>,
    pub(super) memory: Option<u64>,
    pub(super) cpus: Option<f64>,
    pub(super) processes: Option<u32>,
    pub(super) mounts: Vec<(PathBuf, String)>,
    pub(super) keep: bool,
    pub(super) shell: Option<Shell>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) limits: CommandLimits,
    pub(super) max_read: u64,
}

impl DockerBuilder {
    pub(super) fn new(image: Option<String>, name: String) -> Self {
        Self {
            cli: Cli {
                program: PathBuf::from("docker"),
                host: None,
            },
            keep: image.is_none(),
            image,
            name,
            workdir: "/workspace".to_owned(),
            network: "none".to_owned(),
            user: None,
            capabilities: Vec::new(),
            memory: Some(MEMORY),
            cpus: None,
            processes: Some(PROCESSES),
            mounts: Vec::new(),
            shell: None,
            env: BTreeMap::new(),
            limits: CommandLimits::default(),
            max_read: 32 * 1024 * 1024,
        }
    }

    /// Sets the name of a new container. Defaults to a random one.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the workspace, an absolute path in the container. Defaults to `/workspace`. The folder
    /// is created in a new container if its image has none.
    pub fn workdir(mut self, path: impl Into<String>) -> Self {
        self.workdir = path.into();
        self
    }

    /// Sets the Docker engine, such as `ssh://user@host`. Defaults to the engine of the
    /// environment.
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.cli.host = Some(host.into());
        self
    }

    /// Sets the program to call, which must accept the arguments of `docker`, such as `podman`.
    /// Defaults to `docker`.
    pub fn program(mut self, program: impl Into<PathBuf>) -> Self {
        self.cli.program = program.into();
        self
    }

    /// Sets the network of a new container, such as `bridge`. Defaults to `none`.
    pub fn network(mut self, network: impl Into<String>) -> Self {
        self.network = network.into();
        self
    }

    /// Sets the user, or `user:group`, that runs commands and accesses files. Defaults to the
    /// image's user.
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// Adds capabilities of the kernel to a new container, such as `CHOWN` or `CAP_NET_RAW`.
    /// Defaults to none.
    ///
    /// Without them, `root` in the container is an ordinary user who owns the files of `root`: it
    /// cannot read or write the files of other users, change owners, become another user or bind a
    /// port below 1024, so `apt`, `su` and `chown` fail. Such commands need
    /// `["CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"]`. `ALL` adds every capability.
    pub fn capabilities<C: Into<String>>(mut self, names: impl IntoIterator<Item = C>) -> Self {
        self.capabilities.extend(names.into_iter().map(Into::into));
        self
    }

    /// Sets the maximum memory of a new container, in bytes, without additional swap. Defaults to 2
    /// GiB. A process that needs more is killed.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = Some(bytes);
        self
    }

    /// Removes the memory limit of a new container.
    pub fn no_memory_limit(mut self) -> Self {
        self.memory = None;
        self
    }

    /// Sets the number of processors that a new container may use, such as 1.5. Defaults to no
    /// limit.
    pub fn cpus(mut self, cpus: f64) -> Self {
        self.cpus = Some(cpus);
        self
    }

    /// Sets the maximum number of processes and threads of a new container. Defaults to 512. In the
    /// container, starting another one fails.
    pub fn processes(mut self, processes: u32) -> Self {
        self.processes = Some(processes);
        self
    }

    /// Removes the process limit of a new container; the limit of the engine applies.
    pub fn no_process_limit(mut self) -> Self {
        self.processes = None;
        self
    }

    /// Mounts a file or folder of the engine's machine in a new container, read-only. Both paths
    /// are absolute.
    pub fn mount_read_only(mut self, from: impl Into<PathBuf>, to: impl Into<String>) -> Self {
        self.mounts.push((from.into(), to.into()));
        self
    }

    /// Sets whether the container stays when the backend is dropped. By default a new container is
    /// removed. A container that the backend attached to always stays.
    pub fn keep(mut self, keep: bool) -> Self {
        self.keep = keep || self.image.is_none();
        self
    }

    /// Sets a variable for all commands.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Sets the time limit of commands that have none. Defaults to 120 seconds, and to no limit for
    /// commands in the background ([`Backend::start`](crate::backend::Backend::start)).
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.limits.timeout = Some(timeout);
        self
    }

    /// Sets the maximum number of bytes of each stream of a command that are captured, half from
    /// its start and half from its end. Defaults to 256 KiB.
    pub fn max_output(mut self, bytes: usize) -> Self {
        self.limits.max_output = Some(bytes);
        self
    }

    /// Sets the maximum size of a file that is read at once, in bytes. Defaults to 32 MiB.
    pub fn max_read(mut self, bytes: u64) -> Self {
        self.max_read = bytes;
        self
    }

    /// Sets the shell of commands. By default it is [`Shell::Bash`] if the container has `bash`
    /// when it is started or attached to, else [`Shell::Posix`].
    pub fn shell(mut self, shell: Shell) -> Self {
        self.shell = Some(shell);
        self
    }

    /// Starts a new container, or the attached container if it is stopped, and waits until it runs.
    /// A missing image is pulled.
    ///
    /// # Errors
    ///
    /// Returns an error of the kind
    ///
    /// * [`ErrorKind::Config`] if a setting is not valid, or the program is not found, and
    ///   [`ErrorKind::InvalidRequest`] if the name of a variable is not valid.
    /// * [`ErrorKind::Connect`] or [`ErrorKind::PermissionDenied`] if the engine does not answer.
    /// * [`ErrorKind::NotFound`] if there is no container to attach to, and [`ErrorKind::Conflict`]
    ///   if another container has the name of the new one.
    /// * [`ErrorKind::Timeout`] if the engine takes more than ten minutes to pull the image and run
    ///   the container, or more than 60 seconds for anything else.
    /// * [`ErrorKind::Other`] for any other error of the engine, such as an image that it cannot
    ///   pull.
    ///
    /// # Cancel safety
    ///
    /// A new container that was being started is removed again. An attached one stays.
    pub async fn start(self) -> Result<DockerBackend> {
        self.check()?;
        let container = Container::open(&self).await?;
        let shell = match self.shell {
            Some(shell) => shell,
            None => container.shell(self.user.as_deref()).await?,
        };
        Ok(DockerBackend::new(container, self, shell))
    }

    /// Returns the arguments that run a new container of `image`.
    pub(super) fn run_arguments(&self, image: &str) -> Vec<String> {
        let mut arguments: Vec<String> = Vec::new();
        let mut push = |words: &[&str]| arguments.extend(words.iter().map(|&word| word.to_owned()));
        push(&["run", "--detach", "--init", "--label", "agentcore"]);
        push(&["--name", &self.name, "--workdir", &self.workdir]);
        push(&["--network", &self.network]);
        push(&["--security-opt", "no-new-privileges"]);
        push(&["--cap-drop", "ALL"]);
        for capability in &self.capabilities {
            push(&["--cap-add", capability]);
        }

        if let Some(user) = &self.user {
            push(&["--user", user]);
        }

        if let Some(memory) = self.memory {
            let memory = memory.to_string();

            // Without `--memory-swap`, swap doubles the limit.
            push(&["--memory", &memory, "--memory-swap", &memory]);
        }

        if let Some(cpus) = self.cpus {
            push(&["--cpus", &cpus.to_string()]);
        }

        if let Some(processes) = self.processes {
            push(&["--pids-limit", &processes.to_string()]);
        }

        for (source, target) in &self.mounts {
            let source = format!("source={}", source.display());
            let fields = ["type=bind".to_owned(), source, format!("target={target}")]
                .map(|field| quoted(&field))
                .join(",");
            push(&["--mount", &format!("{fields},readonly")]);
        }

        // `tail` runs until it receives a signal, and then exits at once.
        push(&["--entrypoint", "tail", image, "-f", "/dev/null"]);
        arguments
    }

    fn check(&self) -> Result<()> {
        self.check_names()?;
        self.check_paths()?;
        self.check_capabilities()?;
        self.check_limits()?;
        self.env.keys().try_for_each(|name| check_variable(name))
    }

    fn check_names(&self) -> Result<()> {
        let name = &self.name;

        // The engine would read a name with a leading dash as an option.
        let mut characters = name.bytes();
        let is_name = characters.next().is_some_and(|c| c.is_ascii_alphanumeric())
            && characters.all(|c| c.is_ascii_alphanumeric() || b"_.-".contains(&c));
        if !is_name {
            return reject(format!(
                "container {name:?}: a name begins with a letter or a digit, and has only letters, \
                 digits, `_`, `.` and `-`"
            ));
        }

        if let Some(image) = &self.image
            && (image.is_empty() || image.starts_with('-'))
        {
            return reject(format!("image {image:?}: this is not a valid image name"));
        }
        Ok(())
    }

    fn check_paths(&self) -> Result<()> {
        let is_path = |path: &str| path.starts_with('/') && !path.contains('\0');
        let workdir = &self.workdir;
        if !is_path(workdir) || workdir.split('/').any(|part| part == "..") {
            let text = format!("workdir {workdir:?}: it must be an absolute path without `..`");
            return reject(text);
        }

        for (from, to) in &self.mounts {
            if !from.is_absolute() || from.to_str().is_none() || !is_path(to) {
                let text = format!("mount {from:?} at {to:?}: both must be absolute paths");
                return reject(text);
            }
        }
        Ok(())
    }

    fn check_capabilities(&self) -> Result<()> {
        for name in &self.capabilities {
            let is_name = |c: u8| c.is_ascii_uppercase() || c.is_ascii_digit() || c == b'_';
            if name.is_empty() || !name.bytes().all(is_name) {
                return reject(format!(
                    "capability {name:?}: it must be a name such as \"CHOWN\" or \"CAP_CHOWN\""
                ));
            }
        }
        Ok(())
    }

    fn check_limits(&self) -> Result<()> {
        // The engine treats 0 as "no limit".
        if self.memory == Some(0) {
            let text = "memory of 0 bytes: it must be more; `no_memory_limit` removes the limit";
            return reject(text);
        }

        if self.processes == Some(0) {
            let text = "0 processes: it must be more; `no_process_limit` removes the limit";
            return reject(text);
        }

        if self
            .cpus
            .is_some_and(|cpus| !cpus.is_finite() || cpus <= 0.0)
        {
            return reject("the number of processors must be more than 0");
        }
        Ok(())
    }
}

fn reject(text: impl Into<String>) -> Result<()> {
    Err(Error::new(ErrorKind::Config, text))
}

/// Checks that a shell accepts the name of a variable.
pub(super) fn check_variable(name: &str) -> Result<()> {
    let is_name = !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_');
    if is_name {
        Ok(())
    } else {
        Err(Error::new(
            ErrorKind::InvalidRequest,
            format!("{name:?} is not a valid variable name"),
        ))
    }
}

/// Returns a field of comma-separated values.
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

impl fmt::Debug for DockerBuilder {
    /// Prints only the names of the variables, because a value may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DockerBuilder")
            .field("cli", &self.cli)
            .field("image", &self.image)
            .field("name", &self.name)
            .field("workdir", &self.workdir)
            .field("network", &self.network)
            .field("user", &self.user)
            .field("capabilities", &self.capabilities)
            .field("memory", &self.memory)
            .field("cpus", &self.cpus)
            .field("processes", &self.processes)
            .field("mounts", &self.mounts)
            .field("shell", &self.shell)
            .field("keep", &self.keep)
            .field("env", &self.env.keys())
            .field("limits", &self.limits)
            .field("max_read", &self.max_read)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(builder: &DockerBuilder) -> String {
        builder.run_arguments("image").join(" ")
    }

    fn builder() -> DockerBuilder {
        DockerBuilder::new(Some("image".to_owned()), "box".to_owned())
    }

    #[test]
    fn new_container_has_limits_and_no_capabilities_by_default() {
        let expected = "run --detach --init --label agentcore --name box --workdir /workspace \
            --network none --security-opt no-new-privileges --cap-drop ALL \
            --memory 2147483648 --memory-swap 2147483648 --pids-limit 512 \
            --entrypoint tail image -f /dev/null";
        assert_eq!(arguments(&builder()), expected);
    }

    #[test]
    fn capabilities_are_added_after_all_are_dropped() {
        let builder = builder()
            .capabilities(["CHOWN", "CAP_NET_RAW"])
            .capabilities(vec!["SETUID".to_owned()]);
        let expected = " --cap-drop ALL --cap-add CHOWN --cap-add CAP_NET_RAW --cap-add SETUID \
            --memory ";
        assert!(arguments(&builder).contains(expected));
    }

    #[test]
    fn limits_are_replaced_and_removed() {
        let limited_arguments = arguments(&builder().memory(1 << 30).processes(64));
        let expected = " --memory 1073741824 --memory-swap 1073741824 --pids-limit 64 ";
        assert!(limited_arguments.contains(expected), "{limited_arguments}");
        let unlimited_arguments = arguments(&builder().no_memory_limit().no_process_limit());
        assert!(
            !unlimited_arguments.contains("--memory")
                && !unlimited_arguments.contains("--pids-limit")
        );
        assert!(unlimited_arguments.contains(" --cap-drop ALL --entrypoint "));
    }
}
