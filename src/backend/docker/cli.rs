//! The calls of the `docker` program.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Child;
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::error::{Error, ErrorKind, Result};
use crate::util::secret::{Cut, redact_cut};

use super::super::process::{DRAIN, Group, environment};

/// The variables with which the program finds the engine and its credentials.
const PASSED_ON: [&str; 9] = [
    "DOCKER_API_VERSION",
    "DOCKER_CERT_PATH",
    "DOCKER_CONFIG",
    "DOCKER_CONTEXT",
    "DOCKER_HOST",
    "DOCKER_TLS",
    "DOCKER_TLS_VERIFY",
    "SSH_AUTH_SOCK",
    "XDG_RUNTIME_DIR",
];

/// The maximum length of the program's error text, in bytes; a longer text is cut.
pub(super) const MAX_ERROR: u64 = 8 * 1024;

/// The maximum number of bytes to read after the last byte that is kept, such as the progress
/// report of a pulled image. Without a maximum, a program that never stops writing would be read
/// until the call times out.
const MAX_IGNORED: u64 = 1024 * 1024;

/// The program, and the engine it connects to.
#[derive(Clone, Debug)]
pub(super) struct Cli {
    pub(super) program: PathBuf,
    pub(super) host: Option<String>,
}

/// The result of a call of the program.
#[derive(Debug)]
pub(super) struct Called {
    pub(super) status: ExitStatus,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: String,
}

impl Called {
    pub(super) fn new(status: ExitStatus, stdout: Vec<u8>, stderr: &[u8]) -> Self {
        Self {
            status,
            stdout,
            stderr: error_text(stderr).trim().to_owned(),
        }
    }
}

/// Returns the text of an error stream, of which at most [`MAX_ERROR`] bytes were kept.
fn error_text(stderr: &[u8]) -> String {
    let mut text = String::from_utf8_lossy(stderr).into_owned();
    if stderr.len() as u64 >= MAX_ERROR {
        // Later, the part of a secret at the cut could not be recognized.
        redact_cut(&mut text, Cut::End);
    }
    text
}

impl Cli {
    /// The call with these arguments, which no shell ever sees.
    pub(super) fn command<S: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = S>,
    ) -> std::process::Command {
        let mut command = std::process::Command::new(&self.program);
        if let Some(host) = &self.host {
            command.arg("--host").arg(host);
        }

        let variables = PASSED_ON.iter().filter_map(|name| {
            let value = std::env::var_os(name)?;
            Some((OsString::from(name), value))
        });

        command
            .args(arguments)
            .env_clear()
            .envs(environment(std::env::vars_os(), &[&BTreeMap::new()]))
            .envs(variables);

        // Signals of the terminal, such as Ctrl-C, must not reach the client.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command
    }

    /// Starts a call with pipes at all three ends.
    pub(super) fn spawn<S: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = S>,
    ) -> Result<(Child, Group)> {
        if Handle::try_current().is_err() {
            let text = "a container needs a tokio runtime";
            return Err(Error::new(ErrorKind::Config, text));
        }

        let mut command = self.command(arguments);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut command = tokio::process::Command::from(command);
        let child = command
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| not_started(&self.program, error))?;
        let group = Group::new(child.id().unwrap_or_default(), None);
        Ok((child, group))
    }

    /// Calls the program, writes `input` to it and reads at most `max` bytes of its output.
    pub(super) async fn call<S: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = S>,
        input: &[u8],
        max: u64,
        limit: Duration,
    ) -> Result<Called> {
        let (mut child, group) = self.spawn(arguments)?;
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (mut output, mut errors) = (Vec::new(), Vec::new());
        let pipes = async {
            let write = async {
                if let Some(mut stdin) = stdin {
                    // If the client does not read its input, its exit status gives the reason.
                    drop(stdin.write_all(input).await);
                }
                Ok(())
            };
            let stdout = read(stdout, max, &mut output);
            let stderr = read(stderr, MAX_ERROR, &mut errors);
            tokio::try_join!(write, stdout, stderr).map(drop)
        };
        let result = timeout(limit, wait_for_exit(&mut child, &group, pipes)).await;
        drop(group);
        match result {
            Ok(Ok(status)) => Ok(Called::new(status, output, &errors)),
            Ok(Err(error)) => Err(Error::from(error).context(format!("{:?}", self.program))),
            Err(_) => Err(Error::new(
                ErrorKind::Timeout,
                format!(
                    "{:?} did not answer within {} seconds; is the engine overloaded or gone?",
                    self.program,
                    limit.as_secs()
                ),
            )),
        }
    }
}

/// Waits for the exit of the program while `pipes` completes. After the exit, the pipes are awaited
/// only for a short time: a process that the program started may hold them open.
pub(super) async fn wait_for_exit(
    child: &mut Child,
    group: &Group,
    pipes: impl Future<Output = io::Result<()>>,
) -> io::Result<ExitStatus> {
    wait_for_pipes(child, group, pipes).await?;
    let status = child.wait().await?;
    group.record_reaped_leader();
    Ok(status)
}

/// Waits until `pipes` completes, and for a short time after the exit of the program.
pub(super) async fn wait_for_pipes(
    child: &mut Child,
    group: &Group,
    pipes: impl Future<Output = io::Result<()>>,
) -> io::Result<()> {
    let mut pipes = pin!(pipes);
    tokio::select! {
        biased;
        result = &mut pipes => return result,
        status = child.wait() => status?,
    };
    group.record_reaped_leader();
    timeout(DRAIN, pipes).await.unwrap_or(Ok(()))
}

/// Reads to the end, and keeps at most `max` bytes in `content`.
///
/// # Errors
///
/// Returns an error if more than [`MAX_IGNORED`] bytes follow those, or if the stream cannot be
/// read.
pub(super) async fn read(
    stream: Option<impl AsyncRead + Unpin>,
    max: u64,
    content: &mut Vec<u8>,
) -> io::Result<()> {
    if let Some(mut stream) = stream {
        (&mut stream).take(max).read_to_end(content).await?;
        let mut ignored = stream.take(MAX_IGNORED + 1);
        let count = tokio::io::copy(&mut ignored, &mut tokio::io::sink()).await?;
        if count > MAX_IGNORED {
            let text = format!(
                "it wrote more than {} bytes in answer to one call, and was ended; is it Docker?",
                max.saturating_add(MAX_IGNORED)
            );
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
        }
    }
    Ok(())
}

fn not_started(program: &Path, error: io::Error) -> Error {
    let text = match error.kind() {
        io::ErrorKind::NotFound => format!(
            "the program {program:?} was not found; install Docker, or set its path with \
             `DockerBuilder::program`"
        ),
        _ => format!("the program {program:?} could not be started: {error}"),
    };
    Error::new(ErrorKind::Config, text).with_source(error)
}

/// Returns the error for a failed call about `subject`: the message of the engine, and its kind and
/// advice if the message is known.
pub(super) fn refused(subject: &str, called: &Called) -> Error {
    let message = match called.stderr.as_str() {
        "" => called.status.to_string(),
        text => text.to_owned(),
    };

    let lower = message.to_ascii_lowercase();
    let contains_any = |texts: &[&str]| texts.iter().any(|text| lower.contains(text));
    let (kind, advice) = if contains_any(&["permission denied while trying to connect"]) {
        let advice = "; may this user speak to the engine?";
        (ErrorKind::PermissionDenied, advice)
    } else if contains_any(&[
        "cannot connect to the docker daemon",
        "error during connect",
    ]) {
        let advice = "; start the engine, or name another with `DockerBuilder::host`";
        (ErrorKind::Connect, advice)
    } else if contains_any(&["no such container", "no such object"]) {
        (ErrorKind::NotFound, "; was it removed?")
    } else if contains_any(&["is not running", "is paused"]) {
        (ErrorKind::Conflict, "; start it with `restart_container`")
    } else if contains_any(&["is already in use"]) {
        let advice = "; attach to that container, or choose another name";
        (ErrorKind::Conflict, advice)
    } else {
        (ErrorKind::Other, "")
    };

    Error::new(kind, format!("{subject}: {message}{advice}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::util::Secret;

    #[test]
    fn cut_error_text_shows_no_part_of_a_secret() {
        const KEY: &str = "jkzgwvqhxqzwvjxqyzkwzxqgjkvqwzhxjvqzkbwtpd";
        let _known = Secret::new(KEY);
        let limit = usize::try_from(MAX_ERROR).unwrap();
        for shown in 4..KEY.len() {
            let text = format!("{}{}", "x".repeat(limit - shown), &KEY[..shown]);
            let error = error_text(text.as_bytes());
            assert!(error.ends_with("x[redacted]"), "{shown}");
        }
        assert_eq!(error_text(b"failed: jkzg"), "failed: jkzg");
    }
}
