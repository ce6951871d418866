//! One command, from its start to its end.

use std::future::Future;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::pin::{Pin, pin};
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::util::Cancellation;

use super::super::command::CommandOutput;
use super::capture::Capture;
use super::group::Group;

/// The time that a command may run, unless the command or the backend sets another.
pub(in super::super) const TIMEOUT: Duration = Duration::from_secs(120);
/// The default maximum number of bytes kept of each stream of a command.
pub(in super::super) const MAX_OUTPUT: usize = 256 * 1024;
/// The time that all processes of a command have to end after they were asked to.
const GRACE: Duration = Duration::from_secs(2);
/// The time to wait for output after a shell or program has ended: a process that still holds the
/// pipe may be about to write, or may never do so.
pub(in super::super) const DRAIN: Duration = Duration::from_millis(250);
/// A duration that acts as no limit.
const NO_LIMIT: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The way a command is asked to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Ending {
    /// By a signal to the command's group.
    Signal,
    /// By a message on its lifeline: its processes are elsewhere, and the watcher there ends them,
    /// gently after the message and at once when the lifeline is closed.
    #[cfg_attr(not(feature = "docker"), expect(dead_code))]
    Message,
}

/// A running command. Dropping it kills the command and everything it started.
#[derive(Debug)]
pub(in super::super) struct Running {
    pub(super) group: Arc<Group>,
    child: Child,
    ending: Ending,
    /// The child's standard input. It is closed when this process no longer manages the command, or
    /// has ended in any way. The watcher of the command then kills what still runs.
    lifeline: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    pub(super) out: Capture,
    pub(super) err: Capture,
    pub(super) stop: Cancellation,
}

impl Running {
    /// Creates a running command from its child, whose standard input is the lifeline. At most
    /// `max_output` bytes of each stream are kept.
    pub(in super::super) fn new(
        mut child: Child,
        group: Group,
        ending: Ending,
        max_output: usize,
    ) -> Self {
        Self {
            group: Arc::new(group),
            ending,
            lifeline: child.stdin.take(),
            stdout: child.stdout.take(),
            stderr: child.stderr.take(),
            child,
            out: Capture::new(max_output),
            err: Capture::new(max_output),
            stop: Cancellation::default(),
        }
    }

    /// Sets the standard output.
    pub(in super::super) fn with_stdout(mut self, stdout: ChildStdout) -> Self {
        self.stdout = Some(stdout);
        self
    }

    /// Waits until it ends, its time is up or it is stopped.
    pub(in super::super) async fn wait(self, limit: Option<Duration>) -> CommandOutput {
        let Self {
            group,
            mut child,
            ending,
            mut lifeline,
            stdout,
            stderr,
            out,
            err,
            stop,
        } = self;

        // Kills the group even if the list of commands still holds it when this future is dropped.
        let kill_guard = KillOnDrop(&group);
        let mut reader = pin!(async {
            tokio::join!(out.read(stdout), err.read(stderr));
        });

        let mut is_read = false;
        let cutoff = async {
            let deadline = sleep_until(Instant::now() + limit.unwrap_or(NO_LIMIT).min(NO_LIMIT));
            tokio::select! {
                biased;
                () = stop.cancelled() => false,
                () = deadline => true,
            }
        };

        let exit = end(&mut child, &group, ending, &mut lifeline, cutoff);
        let (status, timed_out) = while_reading(exit, reader.as_mut(), &mut is_read).await;
        if !is_read {
            is_read = timeout(DRAIN, reader.as_mut()).await.is_ok();
        }

        group.end_all().await;
        drop(kill_guard);
        drop(lifeline);
        if !is_read {
            // A process that holds the pipe and was not found is waited for only this long.
            drop(timeout(DRAIN, reader.as_mut()).await);
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
        self.0.abandon();
    }
}

/// Waits for the child, and ends it once `cutoff` completes. Processes that outlive the child then
/// have the rest of its [`GRACE`]. Returns its status, and the value of `cutoff`: `true` if its
/// time was up.
async fn end(
    child: &mut Child,
    group: &Group,
    ending: Ending,
    lifeline: &mut Option<ChildStdin>,
    cutoff: impl Future<Output = bool>,
) -> (io::Result<ExitStatus>, bool) {
    let timed_out = tokio::select! {
        biased;
        status = wait(child, group) => return (status, false),
        timed_out = cutoff => timed_out,
    };

    match (ending, &mut *lifeline) {
        (Ending::Message, Some(lifeline)) => {
            // A child that does not read has ended or will be killed.
            let message = lifeline.write_all(b"stop\n");
            drop(timeout(GRACE, message).await);
        }
        _ => group.terminate().await,
    }

    let deadline = Instant::now() + GRACE;
    for _ in 0..2 {
        tokio::select! {
            biased;
            status = wait(child, group) => {
                // The watcher elsewhere ends with the last process.
                if ending == Ending::Signal {
                    group.wait_until_empty(deadline).await;
                }
                return (status, timed_out);
            }
            () = sleep(GRACE) => {}
        }

        // Closing the lifeline is the last request to end; the child needs a moment to react.
        if lifeline.take().is_none() || ending == Ending::Signal {
            break;
        }
    }

    group.end();
    // A process that the signal does not end, such as one of another user, is not waited for.
    let status = timeout(GRACE, wait(child, group)).await;
    (
        status.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())),
        timed_out,
    )
}

async fn wait(child: &mut Child, group: &Group) -> io::Result<ExitStatus> {
    let status = child.wait().await;
    group.record_reaped_leader();
    status
}

async fn while_reading<T>(
    work: impl Future<Output = T>,
    mut reading: Pin<&mut impl Future<Output = ()>>,
    is_read: &mut bool,
) -> T {
    let mut work = pin!(work);
    loop {
        tokio::select! {
            output = &mut work => return output,
            () = &mut reading, if !*is_read => *is_read = true,
        }
    }
}
