//! One command, from its start to its end.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use rustix::fs::{self, FileType};
use rustix::io::Errno;
use tokio::process::{Child, ChildStderr, ChildStdout};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::error::{Error, ErrorKind, Result};
use crate::util::Cancellation;

use super::super::super::command::{Command, CommandOutput};
use super::super::root::Root;
use super::capture::Capture;
use super::environment::environment;
use super::group::Group;

/// How long a command has after `SIGTERM`.
const GRACE: Duration = Duration::from_secs(2);
/// How long output is waited for after the shell has ended: whoever still holds the pipe may be
/// about to write, or may never do so.
const DRAIN: Duration = Duration::from_millis(250);
/// So long that it is for ever.
const NO_LIMIT: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The program that makes a session: a process cannot do so between `fork` and `exec` without
/// unsafe code here. Without it, commands get a process group only.
static SETSID: LazyLock<Option<PathBuf>> =
    LazyLock::new(|| find(&["/usr/bin/setsid", "/bin/setsid"]));
static SHELL: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    find(&[
        "/bin/bash",
        "/usr/bin/bash",
        "/usr/local/bin/bash",
        "/bin/sh",
    ])
});

/// How commands are run.
#[derive(Clone, Debug)]
pub(in super::super) struct Settings {
    pub(in super::super) timeout: Duration,
    pub(in super::super) max_output: usize,
    pub(in super::super) env: BTreeMap<String, String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(120),
            max_output: 256 * 1024,
            env: BTreeMap::new(),
        }
    }
}

/// A command under way. Dropping it kills it, and all it started.
#[derive(Debug)]
pub(in super::super) struct Shell {
    pub(super) group: Arc<Group>,
    child: Child,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    pub(super) out: Capture,
    pub(super) err: Capture,
    pub(super) stop: Cancellation,
}

impl Shell {
    pub(in super::super) fn start(
        root: &Root,
        settings: &Settings,
        command: &Command,
    ) -> Result<Self> {
        if Handle::try_current().is_err() {
            let text = "a command needs a tokio runtime";
            return Err(Error::new(ErrorKind::Config, text));
        }
        let cwd = command.cwd.as_deref().unwrap_or("");
        let folder = open_cwd(root, cwd)?;
        let failed = |error: io::Error| {
            let text = format!("the command could not be started: {error}");
            Error::new(ErrorKind::Io, text).with_source(error)
        };
        let shell = SHELL.as_deref().unwrap_or(Path::new("sh"));
        let mut process = match SETSID.as_deref() {
            Some(setsid) => {
                let mut process = std::process::Command::new(setsid);
                process.arg(shell);
                process
            }
            None => {
                let mut process = std::process::Command::new(shell);
                std::os::unix::process::CommandExt::process_group(&mut process, 0);
                process
            }
        };
        process
            .args(["-c", &command.command])
            .current_dir(&folder.path)
            .env_clear()
            .envs(environment(
                std::env::vars_os(),
                &[&settings.env, &command.env],
            ))
            .stdin(Stdio::null());
        let mut merged = None;
        if command.merge_stderr {
            let (reader, writer) = io::pipe().map_err(failed)?;
            process.stdout(writer.try_clone().map_err(failed)?);
            process.stderr(writer);
            merged = Some(reader);
        } else {
            process.stdout(Stdio::piped()).stderr(Stdio::piped());
        }
        let mut process = tokio::process::Command::from(process);
        let mut child = process.kill_on_drop(true).spawn().map_err(failed)?;
        // The writing ends in here would keep the pipe open.
        drop(process);
        let group = Group::new(child.id().unwrap_or_default());
        let stdout = match merged {
            None => child.stdout.take(),
            Some(reader) => {
                let reader = std::process::ChildStdout::from(std::os::fd::OwnedFd::from(reader));
                Some(ChildStdout::from_std(reader).map_err(failed)?)
            }
        };
        Ok(Self {
            group: Arc::new(group),
            stdout,
            stderr: child.stderr.take(),
            child,
            out: Capture::new(settings.max_output),
            err: Capture::new(settings.max_output),
            stop: Cancellation::default(),
        })
    }

    /// Waits until it ends, its time is up or it is told to stop.
    pub(in super::super) async fn wait(self, limit: Option<Duration>) -> CommandOutput {
        let Self {
            group,
            mut child,
            stdout,
            stderr,
            out,
            err,
            stop,
        } = self;
        // Killed even when the group outlives this future in a list of commands.
        let killed = KillOnDrop(&group);
        let mut reading = pin!(async {
            tokio::join!(out.read(stdout), err.read(stderr));
        });
        let mut is_read = false;
        let ended = end(&mut child, &group, &stop, limit);
        let (status, timed_out) = while_reading(ended, reading.as_mut(), &mut is_read).await;
        if !is_read {
            is_read = timeout(DRAIN, reading.as_mut()).await.is_ok();
        }
        drop(killed);
        if !is_read {
            // Who left the group and holds the pipe is not waited for.
            drop(timeout(DRAIN, reading.as_mut()).await);
        }
        let status = status.ok();
        let mut output = CommandOutput {
            stdout: out.take(),
            stderr: err.take(),
            ..CommandOutput::default()
        };
        output.timed_out = timed_out;
        output.signal = status.and_then(|status| status.signal());
        output.exit_code = status.and_then(|s| s.code()).filter(|_| !timed_out);
        output
    }
}

struct KillOnDrop<'a>(&'a Group);

impl Drop for KillOnDrop<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Waits for the shell and ends it when it must end; says whether its time was up.
async fn end(
    child: &mut Child,
    group: &Group,
    stop: &Cancellation,
    limit: Option<Duration>,
) -> (io::Result<ExitStatus>, bool) {
    let deadline = sleep_until(Instant::now() + limit.unwrap_or(NO_LIMIT).min(NO_LIMIT));
    let timed_out = tokio::select! {
        biased;
        status = child.wait() => return (status, false),
        () = stop.cancelled() => false,
        () = deadline => true,
    };
    group.terminate();
    tokio::select! {
        biased;
        status = child.wait() => return (status, timed_out),
        () = sleep(GRACE) => {}
    }
    group.end();
    (child.wait().await, timed_out)
}

async fn while_reading<T>(
    work: impl Future<Output = T>,
    mut reading: std::pin::Pin<&mut impl Future<Output = ()>>,
    is_read: &mut bool,
) -> T {
    let mut work = pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            () = &mut reading, if !*is_read => *is_read = true,
        }
    }
}

/// A folder to start a command in, held open until it has been started.
struct Cwd {
    path: PathBuf,
    _held: std::os::fd::OwnedFd,
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
    // Where there is `/proc`, the child changes to the very folder that was opened.
    let by_handle = PathBuf::from(format!(
        "/proc/self/fd/{}",
        std::os::fd::AsRawFd::as_raw_fd(&handle)
    ));
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
