//! Commands and what they come to.

use std::time::Duration;

use bytes::Bytes;

/// A command line for a backend's shell.
///
/// ```
/// use std::time::Duration;
///
/// use agentcore::backend::Command;
///
/// let command = Command::new("cargo test").with_cwd("crates/core").with_timeout(Duration::from_secs(60));
/// assert_eq!(command.cwd.as_deref(), Some("crates/core"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Command {
    /// What the shell is given.
    pub command: String,
    /// How long it may run; `None` means the backend's own limit.
    pub timeout: Option<Duration>,
    /// Where it runs, a path as in [`Backend`](super::Backend); `None` means the root.
    pub cwd: Option<String>,
}

impl Command {
    /// A command line, run in the root with the backend's own limit.
    pub fn new(command: impl Into<String>) -> Self {
        Self {
            command: command.into(),
            timeout: None,
            cwd: None,
        }
    }

    /// The same command with a limit.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// The same command in another folder.
    #[must_use]
    pub fn with_cwd(mut self, cwd: impl Into<String>) -> Self {
        self.cwd = Some(cwd.into());
        self
    }
}

/// What a command came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommandOutput {
    /// What it wrote to its standard output, as far as the backend keeps it.
    pub stdout: Bytes,
    /// What it wrote to its standard error, as far as the backend keeps it.
    pub stderr: Bytes,
    /// Its exit code; `None` when it was ended by a signal or by its time limit.
    pub exit_code: Option<i32>,
    /// Whether its time limit ended it.
    pub timed_out: bool,
}

impl CommandOutput {
    /// The outcome of a command that ended by itself.
    pub fn new(exit_code: i32, stdout: impl Into<Bytes>, stderr: impl Into<Bytes>) -> Self {
        Self {
            stdout: stdout.into(),
            stderr: stderr.into(),
            exit_code: Some(exit_code),
            timed_out: false,
        }
    }
}
