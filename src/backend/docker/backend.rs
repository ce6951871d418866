//! [`DockerBackend`], a folder of a container as a workspace.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::Mutex;

use crate::error::Result;
use crate::util::blocking::blocking;

use super::super::backend::Backend;
use super::super::command::{BackgroundOutput, Command, CommandLimits, CommandOutput};
use super::super::entry::{ContentHash, DirEntry, Metadata, range_length};
use super::super::failure;
use super::super::process::{Jobs, Running, TIMEOUT};
#[cfg(feature = "search")]
use super::super::search::{self, GlobMatches, GlobQuery, GrepMatches, GrepQuery};
use super::super::shell::Shell;
use super::builder::DockerBuilder;
use super::cli::Called;
use super::container::{Container, ContainerStatus};
use super::file_call::{FileCall, FileOp};
#[cfg(feature = "search")]
use super::snapshot::Snapshot;
use super::{listing, reply};

const PATHS: &str = include_str!("paths.sh");
const FILES: &str = include_str!("files.sh");
const COMMAND: &str = include_str!("command.sh");

/// The time limit of the engine for a file.
const LIMIT: Duration = Duration::from_secs(120);
/// The maximum size of a listing, in bytes.
pub(super) const MAX_LISTING: u64 = 64 * 1024 * 1024;
/// The maximum number in which the shell counts bytes: a signed one of 64 bits.
const MAX_COUNT: u64 = i64::MAX as u64;
/// The number of attempts to list a folder in which files appear and disappear.
const TRIES: usize = 8;

/// A folder of a container as a workspace, driven through the `docker` program.
///
/// The container confines commands; the folder confines paths. Use [`run`](Self::run) to start a
/// container, and [`attach`](Self::attach) to use an existing one.
///
/// ```no_run
/// use agentcore::backend::{Backend, Command, DockerBackend};
///
/// # async fn example() -> agentcore::Result<()> {
/// let backend = DockerBackend::run("debian:stable-slim")
///     .memory(512 * 1024 * 1024)
///     .mount_read_only("/srv/data", "/data")
///     .start()
///     .await?;
/// backend.write("hello.sh", b"echo hello\n").await?;
/// let output = backend.execute(Command::new("sh hello.sh")).await?;
/// assert_eq!(output.stdout.text(), "hello\n");
/// backend.remove_container().await?;
/// # Ok(())
/// # }
/// ```
///
/// # The container
///
/// By default a new container has no network, no capabilities, 2 GiB of memory and 512 processes,
/// gains no privileges, and waits until it is stopped. The disk space of its files is not limited.
/// A container that the backend attached to has the limits with which it was created. The container
/// is removed with the last clone of the backend, without waiting; use
/// [`remove_container`](Self::remove_container) to wait. If this process is killed, the container
/// stays: `docker ps --filter label=agentcore` finds it. The image must have `sh`, `setsid`,
/// `stat`, `xargs` and the usual small tools, as every image with coreutils or busybox has.
///
/// # Files
///
/// No path leaves the workspace, neither by `..` nor by a symbolic link. This is checked in the
/// container, folder by folder. A command that runs at the same time can evade the check, but has
/// access to the whole container anyway. A write is atomic: the content is written to another file,
/// which then replaces the old one. Writes of clones are made one after the other.
///
/// # Commands
///
/// Commands run in `bash`, or in `sh` where there is none ([`DockerBuilder::shell`]), in their own
/// session, with the environment of the container. Variables are passed so that they are not
/// visible among the processes of this machine.
///
/// The process group of each command is ended in the container:
///
/// * with `SIGKILL` at once, when the shell of the command has ended, the future is dropped, this
///   process is killed, or the connection to the engine breaks;
/// * with `SIGTERM` at its time limit and when it is stopped, and with `SIGKILL` two seconds later.
///   Processes that outlive the shell then have these two seconds, too.
///
/// Processes that leave the group, with `setsid` or as a daemon, run until the container ends.
///
/// [`CommandOutput::signal`] is not known. An exit code above 128 may represent a signal, as in a
/// shell.
///
/// # Limits
///
/// A call of the `docker` program may take 60 seconds, a call for a file or for the start of a
/// command 120 seconds, and pulling an image 10 minutes. A program whose output exceeds the
/// requested bytes by more than 1 MiB is ended.
///
/// It needs a tokio runtime with its drivers enabled, and a clock that is not paused.
#[derive(Clone, Debug)]
pub struct DockerBackend {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// Dropped before the container, so that commands are ended while it exists.
    jobs: Jobs,
    container: Container,
    settings: DockerBuilder,
    shell: Shell,
    root: String,
    writing: Mutex<()>,
}

impl DockerBackend {
    /// Creates a builder for a new container of an image.
    pub fn run(image: impl Into<String>) -> DockerBuilder {
        let name = format!("agentcore-{}", uuid::Uuid::new_v4().simple());
        DockerBuilder::new(Some(image.into()), name)
    }

    /// Attaches to an existing container, by name or id. It is started if it is stopped, and stays
    /// when the backend is dropped. Settings of new containers have no effect.
    pub fn attach(container: impl Into<String>) -> DockerBuilder {
        DockerBuilder::new(None, container.into())
    }

    pub(super) fn new(container: Container, settings: DockerBuilder, shell: Shell) -> Self {
        let root = match settings.workdir.trim_end_matches('/') {
            "" => "/",
            root => root,
        };

        let root = root.to_owned();
        Self {
            inner: Arc::new(Inner {
                jobs: Jobs::default(),
                container,
                settings,
                shell,
                root,
                writing: Mutex::default(),
            }),
        }
    }

    /// Returns the name of the container.
    pub fn container(&self) -> &str {
        &self.inner.container.name
    }

    /// Returns the status of the container.
    ///
    /// # Errors
    ///
    /// Returns an error if the engine does not answer.
    pub async fn container_status(&self) -> Result<ContainerStatus> {
        self.inner.container.status().await
    }

    /// Stops the container, and all that runs in it. Its files stay.
    ///
    /// # Errors
    ///
    /// Returns an error if the engine does not answer, or the container no longer exists.
    pub async fn stop_container(&self) -> Result<()> {
        self.inner.container.control("stop").await
    }

    /// Stops the container, if it runs, and starts it again.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`stop_container`](Self::stop_container).
    pub async fn restart_container(&self) -> Result<()> {
        self.inner.container.control("restart").await
    }

    /// Removes the container with its files, even if the backend attached to it or
    /// [`keep`](DockerBuilder::keep) is set. It is not an error if the container no longer exists.
    ///
    /// # Errors
    ///
    /// Returns an error if the engine does not answer.
    pub async fn remove_container(&self) -> Result<()> {
        self.inner.container.remove().await
    }

    #[cfg(feature = "search")]
    pub(super) fn max_read(&self) -> u64 {
        self.inner.settings.max_read
    }

    /// Returns the arguments of a call that runs a script in the container.
    fn exec(&self, script: &str) -> Vec<String> {
        let mut arguments = vec!["exec".to_owned(), "--interactive".to_owned()];
        if let Some(user) = &self.inner.settings.user {
            arguments.extend(["--user".to_owned(), user.clone()]);
        }
        let shell = [&self.inner.container.name, "sh", "-c"];
        arguments.extend(shell.map(str::to_owned));
        arguments.extend([format!("{PATHS}{script}"), "agentcore".to_owned()]);
        arguments.push(self.inner.root.clone());
        arguments
    }

    /// Runs one operation of the script on one path.
    pub(super) async fn call_files(&self, call: FileCall<'_>) -> Result<Called> {
        if call.path.contains('\0') {
            return Err(failure::path_error(
                std::io::ErrorKind::InvalidInput,
                call.path,
                "has a NUL in it",
            ));
        }

        failure::check_path_len(call.path)?;
        let mut arguments = self.exec(FILES);
        arguments.extend([call.op.as_str().to_owned(), call.path.to_owned()]);
        arguments.extend_from_slice(call.arguments);
        let cli = &self.inner.container.cli;
        cli.call(&arguments, call.input, call.max_output, LIMIT)
            .await
    }

    /// Starts a command in the workspace.
    async fn start_command(&self, command: &Command) -> Result<Running> {
        let Inner {
            container,
            settings,
            root,
            ..
        } = &*self.inner;
        let arguments = self.exec(COMMAND);
        super::command::start(container, settings, root, arguments, command).await
    }

    async fn upload(&self, op: FileOp, path: &str, content: &[u8]) -> Result<()> {
        let arguments = [
            content.len().to_string(),
            format!("{:016x}", fastrand::u64(..)),
        ];
        let call = FileCall::new(op, path, MAX_LISTING)
            .arguments(&arguments)
            .input(content);
        let output = self.call_files(call).await?;
        reply::success(&output, path, self.root()).map(drop)
    }
}

#[async_trait]
impl Backend for DockerBackend {
    fn root(&self) -> &str {
        &self.inner.root
    }

    async fn read(&self, path: &str) -> Result<Bytes> {
        // One byte more is read, to notice that the file has grown.
        let max = self.inner.settings.max_read.min(MAX_COUNT - 1);
        let arguments = [max.to_string()];
        let max_output = max.saturating_add(1024);
        let call = FileCall::new(FileOp::Read, path, max_output).arguments(&arguments);
        let output = self.call_files(call).await?;
        let content = reply::data(&output, path, self.root())?;
        if content.len() as u64 > max {
            let reason = "has grown beyond what is read at once; read a range of it";
            let kind = std::io::ErrorKind::FileTooLarge;
            return Err(failure::path_error(kind, path, reason));
        }

        Ok(Bytes::copy_from_slice(content))
    }

    async fn read_range(&self, path: &str, offset: u64, len: usize) -> Result<Bytes> {
        // `tail` is called with the offset plus one.
        let offset = offset.min(MAX_COUNT - 1);
        let len = range_length(len, self.inner.settings.max_read) as u64;
        let arguments = [offset.to_string(), len.to_string()];
        let max_output = len.saturating_add(1024);
        let call = FileCall::new(FileOp::Range, path, max_output).arguments(&arguments);
        let output = self.call_files(call).await?;
        let content = reply::data(&output, path, self.root())?;
        Ok(Bytes::copy_from_slice(content))
    }

    async fn stat(&self, path: &str) -> Result<Metadata> {
        let call = FileCall::new(FileOp::Stat, path, 1024);
        let output = self.call_files(call).await?;
        let data = reply::data(&output, path, self.root())?;
        listing::metadata(data).ok_or_else(|| listing::unreadable(path))
    }

    async fn write(&self, path: &str, content: &[u8]) -> Result<()> {
        let _write_lock = self.inner.writing.lock().await;
        self.upload(FileOp::Write, path, content).await
    }

    async fn create_new(&self, path: &str, content: &[u8]) -> Result<()> {
        let _write_lock = self.inner.writing.lock().await;
        failure::expect_no_file(path, self.stat(path).await)?;
        self.upload(FileOp::Write, path, content).await
    }

    async fn write_if_unchanged(
        &self,
        path: &str,
        expected: ContentHash,
        content: &[u8],
    ) -> Result<()> {
        let _write_lock = self.inner.writing.lock().await;
        if ContentHash::of(&self.read(path).await?) != expected {
            return Err(failure::conflict(path));
        }
        self.upload(FileOp::Write, path, content).await
    }

    async fn append(&self, path: &str, content: &[u8]) -> Result<()> {
        let _write_lock = self.inner.writing.lock().await;
        self.upload(FileOp::Append, path, content).await
    }

    async fn list(&self, path: &str) -> Result<Vec<DirEntry>> {
        for _ in 0..TRIES {
            let call = FileCall::new(FileOp::List, path, MAX_LISTING);
            let output = self.call_files(call).await?;
            let (path, root) = (path.to_owned(), self.root().to_owned());
            let parse = move || {
                let data = reply::data(&output, &path, &root)?;
                listing::entries(&path, data).transpose()
            };
            if let Some(entries) = blocking(parse).await? {
                return Ok(entries);
            }
        }
        Err(listing::unreadable(path))
    }

    async fn remove(&self, path: &str) -> Result<()> {
        let _write_lock = self.inner.writing.lock().await;
        let call = FileCall::new(FileOp::Remove, path, 1024);
        let output = self.call_files(call).await?;
        reply::success(&output, path, self.root()).map(drop)
    }

    #[cfg(feature = "search")]
    async fn glob(&self, query: GlobQuery) -> Result<GlobMatches> {
        let snapshot = Snapshot::take(self).await?;
        search::glob_through(&snapshot, query).await
    }

    #[cfg(feature = "search")]
    async fn grep(&self, query: GrepQuery) -> Result<GrepMatches> {
        let snapshot = Snapshot::take(self).await?;
        search::grep_through(&snapshot, query).await
    }

    fn command_limits(&self) -> CommandLimits {
        self.inner.settings.limits
    }

    fn shell(&self) -> Shell {
        self.inner.shell
    }

    async fn execute(&self, command: Command) -> Result<CommandOutput> {
        let limit = command
            .timeout
            .or(self.inner.settings.limits.timeout)
            .unwrap_or(TIMEOUT);
        let process = self.start_command(&command).await?;
        Ok(process.wait(Some(limit)).await)
    }

    async fn start(&self, command: Command) -> Result<String> {
        let limit = command.timeout.or(self.inner.settings.limits.timeout);
        let place = self.inner.jobs.reserve()?;
        let process = self.start_command(&command).await?;
        Ok(place.take(process, limit))
    }

    async fn poll(&self, id: &str) -> Result<BackgroundOutput> {
        self.inner.jobs.poll(id)
    }

    async fn wait(&self, id: &str) -> Result<()> {
        self.inner.jobs.wait(id).await
    }

    async fn stop(&self, id: &str) -> Result<BackgroundOutput> {
        self.inner.jobs.stop(id).await
    }
}
