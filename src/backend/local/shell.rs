//! The start of a command in a local workspace.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, PipeReader};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, LazyLock};

use rustix::fs::{self, FileType};
use rustix::io::Errno;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdout};
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

use crate::error::{Error, ErrorKind, Result};

use super::super::command::{Command, CommandLimits};
use super::super::denied::DeniedPath;
use super::super::failure::no_bash;
use super::super::process::{
    Cgroup, Ending, Evidence, Group, MARK, MAX_OUTPUT, PipeEnd, Running, Strays, Sweeper,
    environment,
};
#[cfg(feature = "sandbox")]
use super::super::sandbox::Confined;
use super::super::shell::Shell;
use super::root::Root;

/// The program that makes a session: a process cannot do so between `fork` and `exec` without
/// unsafe code here. Without it, commands get a process group only.
static SETSID: LazyLock<Option<PathBuf>> =
    LazyLock::new(|| find(&["/usr/bin/setsid", "/bin/setsid"]));
static BASH: LazyLock<Option<PathBuf>> =
    LazyLock::new(|| find(&["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"]));

/// Returns the shell that runs commands.
pub(super) fn shell() -> Shell {
    match *BASH {
        Some(_) => Shell::Bash,
        None => Shell::Posix,
    }
}

/// The script that starts a command. It becomes the shell `$0`, which runs `$1`, and leaves a
/// watcher in its process group: an orphan, so that no process of the group waits for it.
///
/// Standard input is a pipe from this process, the *lifeline*. When this process ends, in any way,
/// the watcher reads the end of the pipe and kills the group. The shell and the processes that it
/// starts hold the pipe as well, by which they are recognized. Its descriptor is 9 there, which
/// programs hardly use.
///
/// `$2` is the path of the command's cgroup, or empty. This process moves the shell there and then
/// writes a line to the lifeline.
const START: &str = "exec 3<&0 </dev/null
[ -z \"$2\" ] || read -r _ <&3 || exit 125
( (trap '' HUP INT QUIT TERM; read -r _ <&3
[ -z \"$2\" ] || echo 1 >\"$2/cgroup.kill\"
kill -KILL 0) >/dev/null 2>&1 & )
exec 9<&3 3<&-
exec \"$0\" -c -- \"$1\"";

/// The settings of commands.
#[derive(Clone)]
pub(super) struct Settings {
    pub(super) limits: CommandLimits,
    pub(super) env: BTreeMap<String, String>,
    pub(super) sweeper: Arc<Sweeper>,
    /// True if commands get a cgroup where this process may make one.
    pub(super) cgroups: bool,
    #[cfg(feature = "sandbox")]
    pub(super) sandbox: Option<Confined>,
}

impl fmt::Debug for Settings {
    /// Prints only the names of the variables, because a value may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Settings");
        debug
            .field("limits", &self.limits)
            .field("env", &self.env.keys())
            .field("sweeper", &self.sweeper)
            .field("cgroups", &self.cgroups);
        #[cfg(feature = "sandbox")]
        debug.field("sandbox", &self.sandbox);
        debug.finish()
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            limits: CommandLimits::default(),
            env: BTreeMap::new(),
            sweeper: Arc::default(),
            cgroups: true,
            #[cfg(feature = "sandbox")]
            sandbox: None,
        }
    }
}

#[cfg(feature = "sandbox")]
impl Settings {
    /// Returns the environment variables that the sandbox sets for commands.
    fn sandbox_environment(&self) -> Result<BTreeMap<String, String>> {
        let environment = self.sandbox.as_ref().map(Confined::environment);
        environment.transpose().map(Option::unwrap_or_default)
    }

    /// Runs `start`, under the sandbox if there is one.
    async fn confine<T: Send + 'static>(
        &self,
        denied: &[DeniedPath],
        start: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        match &self.sandbox {
            None => start(),
            Some(confined) => confined.run(denied.to_vec(), start).await,
        }
    }
}

#[cfg(not(feature = "sandbox"))]
impl Settings {
    fn sandbox_environment(&self) -> Result<BTreeMap<String, String>> {
        Ok(BTreeMap::new())
    }

    async fn confine<T>(
        &self,
        _denied: &[DeniedPath],
        start: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        start()
    }
}

/// Starts a command.
pub(super) async fn start(root: &Root, settings: &Settings, command: &Command) -> Result<Running> {
    if Handle::try_current().is_err() {
        let text = "a command needs a tokio runtime";
        return Err(Error::new(ErrorKind::Config, text));
    }

    if command.shell == Some(Shell::Bash) && BASH.is_none() {
        return Err(no_bash("this machine"));
    }

    let folder = open_cwd(root, command.cwd.as_deref().unwrap_or(""))?;
    let start = CommandStart::new(&folder, settings, command)?;
    let running = start.spawn(settings, command).await?;
    drop(folder);
    Ok(running)
}

/// A command whose process has not been spawned.
struct CommandStart {
    process: std::process::Command,
    /// The pipe of both streams, if they are merged.
    output_pipe: Option<PipeReader>,
    /// The value of [`MARK`] by which its processes are recognized.
    mark: String,
    cgroup: Option<Cgroup>,
}

impl CommandStart {
    fn new(folder: &Cwd, settings: &Settings, command: &Command) -> Result<Self> {
        let shell = BASH.as_deref().unwrap_or(Path::new("/bin/sh"));
        let sandbox_environment = settings.sandbox_environment()?;
        let cgroup = settings.cgroups.then(Cgroup::new).flatten();
        let mut process = starter();
        let mark = uuid::Uuid::new_v4().simple().to_string();
        process
            .args(["-c", START])
            .arg(shell)
            .arg(&command.command)
            .arg(cgroup.as_ref().map_or(Path::new(""), Cgroup::path))
            .current_dir(&folder.path)
            .env_clear()
            .envs(environment(
                std::env::vars_os(),
                &[&sandbox_environment, &settings.env, &command.env],
            ))
            .env(MARK, &mark)
            .stdin(Stdio::piped());
        let output_pipe = pipe_output(&mut process, command).map_err(start_error)?;
        Ok(Self {
            process,
            output_pipe,
            mark,
            cgroup,
        })
    }

    /// Spawns the process, under the sandbox if there is one, and prepares the end of its strays.
    async fn spawn(self, settings: &Settings, command: &Command) -> Result<Running> {
        let pipe = self.output_pipe.as_ref().and_then(PipeEnd::writer);
        let mut process = tokio::process::Command::from(self.process);
        process.kill_on_drop(true);

        // `process` holds write ends of the pipes, which would keep them open; the closure drops
        // it.
        let spawn = move || process.spawn().map_err(start_error);
        let mut child = settings.confine(&command.denied, spawn).await?;

        // Collected outside the sandbox, which hides the process table.
        let evidence = evidence(&child, &self.mark, pipe);
        let has_cgroup = self.cgroup.is_some();
        let mut strays = Strays::new(evidence, self.cgroup, settings.sweeper.clone());
        if has_cgroup {
            (child, strays) = admit(child, strays).await?;
        }

        let group = Group::new(child.id().unwrap_or_default(), Some(strays));
        let max_output = command
            .max_output
            .or(settings.limits.max_output)
            .unwrap_or(MAX_OUTPUT);
        let running = Running::new(child, group, Ending::Signal, max_output);
        Ok(match self.output_pipe {
            None => running,
            Some(reader) => {
                let reader = std::process::ChildStdout::from(OwnedFd::from(reader));
                running.with_stdout(ChildStdout::from_std(reader).map_err(start_error)?)
            }
        })
    }
}

/// Returns a shell in its own session, or at least in a process group.
fn starter() -> std::process::Command {
    if let Some(setsid) = SETSID.as_deref() {
        let mut process = std::process::Command::new(setsid);
        process.arg("/bin/sh");
        return process;
    }
    let mut process = std::process::Command::new("/bin/sh");
    std::os::unix::process::CommandExt::process_group(&mut process, 0);
    process
}

/// Pipes what the process writes; one pipe for both streams is returned.
fn pipe_output(
    process: &mut std::process::Command,
    command: &Command,
) -> io::Result<Option<PipeReader>> {
    if !command.merge_stderr {
        process.stdout(Stdio::piped()).stderr(Stdio::piped());
        return Ok(None);
    }
    let (reader, writer) = io::pipe()?;
    process.stdout(writer.try_clone()?).stderr(writer);
    Ok(Some(reader))
}

/// Returns the evidence by which the processes of a just started command are recognized. `pipe` is
/// a pipe that the command writes to in addition to the pipes of the child.
fn evidence(child: &Child, mark: &str, pipe: Option<PipeEnd>) -> Option<Evidence> {
    let pipes = [
        child.stdin.as_ref().and_then(PipeEnd::reader),
        child.stdout.as_ref().and_then(PipeEnd::writer),
        child.stderr.as_ref().and_then(PipeEnd::writer),
        pipe,
    ];
    Evidence::new(mark, child.id()?, pipes.into_iter().flatten())
}

/// Moves the shell to its cgroup; the shell waits for the line that this writes. If the move fails,
/// the shell runs in the cgroup of this process.
async fn admit(child: Child, mut strays: Strays) -> Result<(Child, Strays)> {
    // The child is held until the move is done, so that its id is not reused by another process.
    let admitted = spawn_blocking(move || {
        strays.admit(child.id());
        (child, strays)
    });
    let (mut child, strays) = admitted.await.map_err(|error| start_error(error.into()))?;
    if let Some(lifeline) = &mut child.stdin {
        // A child that has ended already reports its own exit status.
        drop(lifeline.write_all(b"\n").await);
    }
    Ok((child, strays))
}

fn start_error(error: io::Error) -> Error {
    let text = format!("the command could not be started: {error}");
    Error::new(ErrorKind::Io, text).with_source(error)
}

/// A folder to start a command in, held open until it has been started.
struct Cwd {
    path: PathBuf,
    _held: OwnedFd,
}

fn open_cwd(root: &Root, cwd: &str) -> Result<Cwd> {
    let handle = root.open_handle(cwd)?;
    let stat = fs::fstat(&handle).map_err(|error| root.error(cwd, error.into()))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return Err(root.error(cwd, Errno::NOTDIR.into()));
    }

    if stat.st_nlink == 0 {
        return Err(root.error(cwd, Errno::NOENT.into()));
    }

    // With `/proc`, the child changes to exactly the folder that was opened.
    let by_handle = PathBuf::from(format!("/proc/self/fd/{}", handle.as_raw_fd()));
    let path = if by_handle.exists() {
        by_handle
    } else {
        root.real().join(root.relative(cwd)?)
    };

    Ok(Cwd {
        path,
        _held: handle,
    })
}

fn find(places: &[&str]) -> Option<PathBuf> {
    let mut places = places.iter().map(PathBuf::from);
    places.find(|place| place.is_file())
}
