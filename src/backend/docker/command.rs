//! The start of a command in a container.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Child;
use tokio::time::timeout;

use crate::error::{Error, ErrorKind, Result};

use super::super::command::Command;
use super::super::process::{Ending, Group, MAX_OUTPUT, Running};
use super::super::shell::Shell;
use super::builder::{DockerBuilder, check_variable};
use super::cli::{Called, MAX_ERROR, read, refused, wait_for_exit, wait_for_pipes};
use super::container::Container;
use super::reply;

/// The time limit of the engine for starting a command.
const LIMIT: Duration = Duration::from_secs(120);
/// The maximum length of the line with which the script answers, in bytes.
const MAX_LINE: usize = 4 * 1024;

/// Commands that make git refuse bare repositories, which a checkout may contain in any folder. The
/// setting is added to those that the environment has. If their count is not a number, it stays as
/// it is, and git fails.
const SAFE_REPOSITORIES: &str = "set -- \"${GIT_CONFIG_COUNT:-0}\"
case $1 in
*[!0-9]* | 0?*) ;;
*)
export \"GIT_CONFIG_KEY_$1=safe.bareRepository\" \"GIT_CONFIG_VALUE_$1=explicit\"
export \"GIT_CONFIG_COUNT=$(($1 + 1))\"
esac
";

/// Starts a command in `container`, where `arguments` call the script in the workspace `root`.
pub(super) async fn start(
    container: &Container,
    settings: &DockerBuilder,
    root: &str,
    mut arguments: Vec<String>,
    command: &Command,
) -> Result<Running> {
    let cwd = command.cwd.as_deref().unwrap_or("");
    if command.command.contains('\0') || cwd.contains('\0') {
        let text = "a command must not have a NUL in it";
        return Err(Error::new(ErrorKind::InvalidRequest, text));
    }

    let end = format!("end-{}", uuid::Uuid::new_v4().simple());
    let work = work(settings, command, &end)?;
    let stderr_mode = if command.merge_stderr { "merged" } else { "-" };
    let shell = match command.shell {
        Some(Shell::Bash) => "bash",
        Some(Shell::Posix) | None => "-",
    };
    arguments.extend([cwd, stderr_mode, &end, shell].map(str::to_owned));
    let (mut child, group) = container.cli.spawn(&arguments)?;
    let begin = async {
        let line = first_line(&mut child, &group, &work).await?;
        match reply::first_line(&line, cwd, root) {
            Some(outcome) => outcome,
            None => {
                let output = output_of_failure(&mut child, &group).await?;
                Err(refused("the container", &output))
            }
        }
    };
    timeout(LIMIT, begin).await.map_err(|_| too_long())??;

    let max = command
        .max_output
        .or(settings.limits.max_output)
        .unwrap_or(MAX_OUTPUT);
    Ok(Running::new(child, group, Ending::Message, max))
}

/// Sends `work`, the input of the script, to the client, and returns the first line of its output,
/// or its output if it ends before that.
async fn first_line(child: &mut Child, group: &Group, work: &str) -> Result<String> {
    let (mut stdin, mut stdout) = (child.stdin.take(), child.stdout.take());
    let mut line = Vec::new();
    let exchange = async {
        if let Some(stdin) = &mut stdin {
            // If the client does not read its input, its exit status gives the reason.
            drop(stdin.write_all(work.as_bytes()).await);
        }
        while let Some(stdout) = &mut stdout {
            match stdout.read_u8().await {
                Ok(byte) if byte != b'\n' && line.len() < MAX_LINE => line.push(byte),
                _ => break,
            }
        }
        Ok(())
    };
    wait_for_pipes(child, group, exchange).await?;
    (child.stdin, child.stdout) = (stdin, stdout);
    Ok(String::from_utf8_lossy(&line).into_owned())
}

/// Waits for the end of a client that did not start the script.
async fn output_of_failure(child: &mut Child, group: &Group) -> Result<Called> {
    drop((child.stdin.take(), child.stdout.take()));
    let mut errors = Vec::new();
    let stderr = read(child.stderr.take(), MAX_ERROR, &mut errors);
    let status = wait_for_exit(child, group, stderr).await?;
    Ok(Called::new(status, Vec::new(), &errors))
}

fn too_long() -> Error {
    let text = "the engine took too long to start a command";
    Error::new(ErrorKind::Timeout, text)
}

/// Returns the input of the script: the variables, the setting of git, the command, and the line
/// `end`.
fn work(settings: &DockerBuilder, command: &Command, end: &str) -> Result<String> {
    let mut work = String::new();
    for (name, value) in settings.env.iter().chain(&command.env) {
        check_variable(name)?;
        if value.contains('\0') {
            let text = format!("the variable {name} must not have a NUL in it");
            return Err(Error::new(ErrorKind::InvalidRequest, text));
        }

        work.push_str(&format!("export {name}={}\n", quoted(value)));
    }

    work.push_str(SAFE_REPOSITORIES);
    work.push_str(&format!(
        "exec \"$0\" -c -- {}\n{end}\n",
        quoted(&command.command)
    ));
    Ok(work)
}

/// Quotes a text of any content as one word for a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}
