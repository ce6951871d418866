//! The backend for a folder of this machine.

use std::path::Path;
use std::sync::Arc;
#[cfg(feature = "process")]
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use crate::error::Result;
use crate::util::blocking::blocking;
use crate::util::{Cancellation, large};

use super::super::backend::Backend;
#[cfg(feature = "process")]
use super::super::command::{BackgroundOutput, Command, CommandLimits, CommandOutput};
use super::super::entry::{ContentHash, DirEntry, Metadata, range_length};
#[cfg(feature = "process")]
use super::super::process::{Jobs, Running, TIMEOUT};
#[cfg(feature = "sandbox")]
use super::super::sandbox::{Confined, Sandbox, SandboxReport};
#[cfg(feature = "search")]
use super::super::search::{GlobMatches, GlobQuery, GrepMatches, GrepQuery};
#[cfg(feature = "process")]
use super::super::shell::Shell;
use super::replace::Expected;
use super::root::Root;
#[cfg(feature = "process")]
use super::shell::{self, Settings};

/// The default maximum size of a file that is read at once, in bytes.
const MAX_READ: u64 = 32 * 1024 * 1024;

/// A folder of this machine.
///
/// # Files
///
/// No path leaves the root: not by `..`, not by an absolute path and not by a symbolic link, even
/// if the link is created during the call. A link to another path below the root is followed.
/// FIFOs, sockets and devices are refused at once. Hard links to files elsewhere look like any
/// file: do not let other users create them.
///
/// A write is atomic and durable (see [`Backend::write`]) and preserves the mode of the file that
/// it replaces. Writes of this process to one path are made one after the other. The content is
/// first written to a file `.agentcore-*.tmp` in the same folder, which is not listed.
///
/// # Commands
///
/// With the feature `process`, commands run in `bash`, or in `sh` where there is none. They are
/// **not** confined to the root, except by a `Sandbox` (feature `sandbox`). Each runs in its own
/// session, reads from `/dev/null`, and has only harmless variables of this process's environment
/// and the variables that were set for it. Commands need a tokio runtime with its drivers enabled,
/// and a clock that is not paused.
///
/// A command can read all of the environment that this process began with, as `/proc/PID/environ`
/// or with `ps eww`. The keys in it are redacted in results, as the docs of
/// [`Secret`](crate::Secret) describe, but the command itself has them and may send them anywhere.
/// A `Sandbox` that does not allow `/proc`, another user or a container hides the environment.
///
/// All processes of a command are ended with it:
///
/// * Its whole process group is ended with it: at once when it exits or the future is dropped; when
///   its time is up or it is stopped, with `SIGTERM`, and with `SIGKILL` after two seconds, which
///   processes that outlive the shell have as well.
/// * On Linux, processes that left the group, with `setsid` or as daemons, are ended too. Where
///   this process may make a cgroup of version 2 (as root, in a systemd unit with `Delegate=`, in
///   most desktop sessions), all of a command is in one, and the kernel ends it at once, however it
///   forks; see [`with_cgroups`](Self::with_cgroups).
/// * On Linux without a cgroup, the processes of the command are searched for among all processes
///   of the machine, for two seconds in the call and for a minute after it. They are recognized by
///   the variable `AGENTCORE_COMMAND` in their environment, by their session and parents, and by
///   the pipes of the command that they have open.
/// * If this process is killed, a watcher process ends the group, and the cgroup as well unless a
///   `Sandbox` denies it access.
///
/// # Limits
///
/// * On systems other than Linux only the process group is ended. Without `/proc`, a command that
///   was sent `SIGTERM` always takes the two seconds.
/// * Without a cgroup, a process is not found if it has a session and an environment of its own,
///   has closed every inherited file, and its parent ended before the command.
/// * A command that runs as root can leave its cgroup; it is then searched for.
/// * Processes of another user, such as those started with `sudo`, can be ended only by root or in
///   a cgroup.
/// * A command that ends its watcher may outlive this process.
/// * A file or socket that this process has open without close-on-exec is open in its commands,
///   too, and a `Sandbox` does not close it. The standard library opens none in this way.
///
/// Run commands that must not be able to do any of this in a container: use a `DockerBackend`.
///
/// Clones share the root and the commands in the background.
///
/// ```
/// use agentcore::backend::{Backend, LocalBackend};
///
/// # async fn example() -> agentcore::Result<()> {
/// # let folder = std::env::temp_dir().join(format!("agentcore-doc-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder).unwrap();
/// let backend = LocalBackend::new(&folder)?;
/// backend.write("notes/today.md", b"- nothing\n").await?;
/// assert_eq!(&backend.read("notes/today.md").await?[..], b"- nothing\n");
/// assert!(backend.read("../outside").await.is_err());
/// # std::fs::remove_dir_all(&folder).unwrap();
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct LocalBackend {
    root: Arc<Root>,
    max_read: u64,
    /// Dropped before the settings, so that commands have ended when the sandbox's folder is
    /// removed.
    #[cfg(feature = "process")]
    jobs: Arc<Jobs>,
    #[cfg(feature = "process")]
    settings: Arc<Settings>,
}

impl LocalBackend {
    /// Opens the folder `root`, which must exist.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Config`](crate::ErrorKind::Config) if `root` does not exist or is not a
    /// folder.
    pub fn new(root: impl AsRef<Path>) -> Result<Self> {
        Ok(Self {
            root: Arc::new(Root::open(root.as_ref())?),
            max_read: MAX_READ,
            #[cfg(feature = "process")]
            settings: Arc::default(),
            #[cfg(feature = "process")]
            jobs: Arc::default(),
        })
    }

    /// Sets the limit on a file that is read at once, in bytes. Defaults to 32 MiB.
    #[must_use]
    pub fn with_max_read(mut self, bytes: u64) -> Self {
        self.max_read = bytes;
        self
    }

    /// Sets the time limit of commands that name none. Defaults to 120 seconds, and to no limit for
    /// commands in the background ([`start`](Backend::start)). Tools that run commands use it
    /// instead of their own default.
    #[cfg(feature = "process")]
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        Arc::make_mut(&mut self.settings).limits.timeout = Some(timeout);
        self
    }

    /// Sets how many bytes of each stream of a command are captured, half from its start and half
    /// from its end. Defaults to 256 KiB. Tools that run commands show all of it, if it is set,
    /// instead of what their own limit allows.
    #[cfg(feature = "process")]
    #[must_use]
    pub fn with_max_output(mut self, bytes: usize) -> Self {
        Arc::make_mut(&mut self.settings).limits.max_output = Some(bytes);
        self
    }

    /// Sets whether each command gets its own cgroup where this process may make one. Defaults to
    /// `true`. With one, all processes of a command are ended in every case. Some kernels take a
    /// few milliseconds to move a command there.
    #[cfg(feature = "process")]
    #[must_use]
    pub fn with_cgroups(mut self, cgroups: bool) -> Self {
        Arc::make_mut(&mut self.settings).cgroups = cgroups;
        self
    }

    /// Sets a variable for all commands.
    #[cfg(feature = "process")]
    #[must_use]
    pub fn with_env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let settings = Arc::make_mut(&mut self.settings);
        settings.env.insert(name.into(), value.into());
        self
    }

    /// Confines the commands; see [`Sandbox`]. The methods for files are not confined: they stay
    /// below the root by themselves.
    ///
    /// A command that cannot be confined as requested is refused with an [`ErrorKind::Config`] that
    /// names the missing features.
    ///
    /// [`ErrorKind::Config`]: crate::ErrorKind::Config
    #[cfg(feature = "sandbox")]
    #[must_use]
    pub fn with_sandbox(mut self, sandbox: Sandbox) -> Self {
        Arc::make_mut(&mut self.settings).sandbox = Some(Confined::new(sandbox));
        self
    }

    /// Returns the report on what confines the commands of this backend on this machine; `None`
    /// without a sandbox.
    #[cfg(feature = "sandbox")]
    pub fn sandbox_report(&self) -> Option<SandboxReport> {
        let confinement = self.settings.sandbox.as_ref()?;
        Some(confinement.sandbox().check())
    }

    async fn on_root<T: Send + 'static>(
        &self,
        path: &str,
        work: impl FnOnce(&Root, &str) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let root = self.root.clone();
        let path = path.to_owned();
        blocking(move || work(&root, &path)).await
    }

    /// Starts a command in the root.
    #[cfg(feature = "process")]
    async fn start_command(&self, command: &Command) -> Result<Running> {
        shell::start(&self.root, &self.settings, command).await
    }
}

#[async_trait]
impl Backend for LocalBackend {
    fn root(&self) -> &str {
        self.root.displayed_path()
    }

    async fn read(&self, path: &str) -> Result<Bytes> {
        let max = self.max_read;
        self.on_root(path, move |root, path| {
            root.read(path, max).map(Bytes::from)
        })
        .await
    }

    async fn read_range(&self, path: &str, offset: u64, len: usize) -> Result<Bytes> {
        let len = range_length(len, self.max_read);
        self.on_root(path, move |root, path| root.read_range(path, offset, len))
            .await
    }

    async fn stat(&self, path: &str) -> Result<Metadata> {
        self.on_root(path, Root::stat).await
    }

    async fn write(&self, path: &str, content: &[u8]) -> Result<()> {
        let content = large::copy(content);
        self.on_root(path, move |root, path| {
            root.write(path, Expected::Any, &content)
        })
        .await
    }

    async fn create_new(&self, path: &str, content: &[u8]) -> Result<()> {
        let content = large::copy(content);
        self.on_root(path, move |root, path| {
            root.write(path, Expected::Nothing, &content)
        })
        .await
    }

    async fn write_if_unchanged(
        &self,
        path: &str,
        expected: ContentHash,
        content: &[u8],
    ) -> Result<()> {
        let content = large::copy(content);
        self.on_root(path, move |root, path| {
            root.write(path, Expected::Content(expected), &content)
        })
        .await
    }

    async fn append(&self, path: &str, content: &[u8]) -> Result<()> {
        let content = large::copy(content);
        self.on_root(path, move |root, path| root.append(path, &content))
            .await
    }

    async fn list(&self, path: &str) -> Result<Vec<DirEntry>> {
        let cancellation = Cancellation::default();

        // Ends the listing when this future is dropped.
        let _guard = cancellation.guard();
        self.on_root(path, move |root, path| root.list(path, &cancellation))
            .await
    }

    async fn remove(&self, path: &str) -> Result<()> {
        self.on_root(path, Root::remove).await
    }

    async fn real_path(&self, path: &str) -> Result<String> {
        self.on_root(path, Root::real_path).await
    }

    async fn set_mode(&self, path: &str, mode: u32) -> Result<()> {
        self.on_root(path, move |root, path| root.set_mode(path, mode))
            .await
    }

    #[cfg(feature = "search")]
    async fn glob(&self, query: GlobQuery) -> Result<GlobMatches> {
        super::search::glob(self.root.clone(), query).await
    }

    #[cfg(feature = "search")]
    async fn grep(&self, query: GrepQuery) -> Result<GrepMatches> {
        super::search::grep(self.root.clone(), query).await
    }

    #[cfg(feature = "process")]
    fn command_limits(&self) -> CommandLimits {
        self.settings.limits
    }

    #[cfg(feature = "process")]
    fn shell(&self) -> Shell {
        shell::shell()
    }

    #[cfg(feature = "process")]
    async fn execute(&self, command: Command) -> Result<CommandOutput> {
        let timeout = command
            .timeout
            .or(self.settings.limits.timeout)
            .unwrap_or(TIMEOUT);
        Ok(self
            .start_command(&command)
            .await?
            .wait(Some(timeout))
            .await)
    }

    #[cfg(feature = "process")]
    async fn start(&self, command: Command) -> Result<String> {
        let limit = command.timeout.or(self.settings.limits.timeout);
        let place = self.jobs.reserve()?;
        let process = self.start_command(&command).await?;
        Ok(place.take(process, limit))
    }

    #[cfg(feature = "process")]
    async fn poll(&self, id: &str) -> Result<BackgroundOutput> {
        self.jobs.poll(id)
    }

    #[cfg(feature = "process")]
    async fn wait(&self, id: &str) -> Result<()> {
        self.jobs.wait(id).await
    }

    #[cfg(feature = "process")]
    async fn stop(&self, id: &str) -> Result<BackgroundOutput> {
        self.jobs.stop(id).await
    }
}
