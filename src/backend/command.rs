//! Commands and their results.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;

use crate::util::secret::{Cut, redact_cut};

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
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Command {
    /// The command line for the shell.
    pub command: String,
    /// The time limit; `None` means the backend's own limit.
    pub timeout: Option<Duration>,
    /// The working directory, a path as in [`Backend`](super::Backend); `None` means the root.
    pub cwd: Option<String>,
    /// Variables set for it, in addition to those the backend passes on.
    pub env: BTreeMap<String, String>,
    /// True if its standard error is merged into its standard output, in the order written.
    pub merge_stderr: bool,
}

impl Command {
    /// A command line, run in the root with the backend's own limit.
    pub fn new(command: impl Into<String>) -> Self {
        Self {
            command: command.into(),
            timeout: None,
            cwd: None,
            env: BTreeMap::new(),
            merge_stderr: false,
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

    /// The same command with a variable.
    #[must_use]
    pub fn with_env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// The same command, standard error among standard output.
    #[must_use]
    pub fn merged(mut self) -> Self {
        self.merge_stderr = true;
        self
    }
}

impl fmt::Debug for Command {
    /// Of the variables their names only: a value may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Command")
            .field("command", &self.command)
            .field("timeout", &self.timeout)
            .field("cwd", &self.cwd)
            .field("env", &self.env.keys())
            .field("merge_stderr", &self.merge_stderr)
            .finish()
    }
}

/// The limits that were set on a backend for commands that name none; `None` where its default
/// holds.
///
/// ```
/// use std::time::Duration;
///
/// use agentcore::backend::CommandLimits;
///
/// let limits = CommandLimits::default().with_timeout(Duration::from_secs(300));
/// assert_eq!((limits.timeout, limits.max_output), (Some(Duration::from_secs(300)), None));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommandLimits {
    /// The limit on the time a command may run.
    pub timeout: Option<Duration>,
    /// The limit on what is retained of each stream of a command, in bytes.
    pub max_output: Option<usize>,
}

impl CommandLimits {
    /// Sets the limit on the time a command may run.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets the limit on what is retained of each stream of a command, in bytes.
    #[must_use]
    pub fn with_max_output(mut self, bytes: usize) -> Self {
        self.max_output = Some(bytes);
        self
    }
}

/// The result of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommandOutput {
    /// The standard output, as far as the backend keeps it.
    pub stdout: Captured,
    /// The standard error, as far as the backend keeps it; empty when [`Command::merge_stderr`] is
    /// set.
    pub stderr: Captured,
    /// Its exit code; `None` when it was ended by a signal or by its time limit.
    pub exit_code: Option<i32>,
    /// The signal that ended it, if one did.
    pub signal: Option<i32>,
    /// True if its time limit ended it.
    pub timed_out: bool,
}

impl CommandOutput {
    /// The outcome of a command that ended by itself.
    pub fn new(exit_code: i32, stdout: impl Into<Captured>, stderr: impl Into<Captured>) -> Self {
        Self {
            stdout: stdout.into(),
            stderr: stderr.into(),
            exit_code: Some(exit_code),
            ..Self::default()
        }
    }

    /// Returns `true` if it ended by itself with exit code 0.
    pub fn is_success(&self) -> bool {
        self.exit_code == Some(0)
    }
}

/// The output of a background command since the last poll.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackgroundOutput {
    /// The output since then.
    pub output: CommandOutput,
    /// True if it still runs; the exit code and the other fields are known only when not.
    pub running: bool,
}

impl BackgroundOutput {
    /// New output of a command.
    pub fn new(output: CommandOutput, running: bool) -> Self {
        Self { output, running }
    }
}

/// A stream of bytes of which the start and the end were kept.
///
/// ```
/// use agentcore::backend::Captured;
///
/// let whole = Captured::from("hello");
/// assert_eq!((&*whole.text(), whole.total()), ("hello", 5));
/// let cut = Captured::new("he", "o", 2);
/// assert_eq!(cut.text(), "he\n\n... (2 bytes omitted) ...\n\no");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Captured {
    /// The first bytes; all of them when nothing was left out.
    pub head: Bytes,
    /// The last bytes, when a part was omitted.
    pub tail: Bytes,
    /// The number of bytes between them that were not kept.
    pub omitted: u64,
}

impl Captured {
    /// A stream with a gap.
    pub fn new(head: impl Into<Bytes>, tail: impl Into<Bytes>, omitted: u64) -> Self {
        Self {
            head: head.into(),
            tail: tail.into(),
            omitted,
        }
    }

    /// The number of bytes in all.
    pub fn total(&self) -> u64 {
        self.head.len() as u64 + self.omitted + self.tail.len() as u64
    }

    /// Returns `true` if there was no output.
    pub fn is_empty(&self) -> bool {
        self.total() == 0
    }

    /// Returns `true` if the kept part is UTF-8; a character cut by the gap does not count.
    pub fn is_utf8(&self) -> bool {
        if self.omitted == 0 {
            let mut bytes = self.head.to_vec();
            bytes.extend_from_slice(&self.tail);
            return std::str::from_utf8(&bytes).is_ok();
        }
        let head = match std::str::from_utf8(&self.head) {
            Ok(_) => true,
            Err(error) => error.error_len().is_none(),
        };
        let tail = skip_continuation(&self.tail);
        head && std::str::from_utf8(tail).is_ok()
    }

    /// The text, with a line about the omitted bytes where there are any, and `\u{FFFD}` for
    /// invalid UTF-8. A part of a [`Secret`](crate::Secret) that the gap has cut off is replaced as
    /// the secret itself is.
    pub fn text(&self) -> String {
        if self.omitted == 0 {
            let mut bytes = self.head.to_vec();
            bytes.extend_from_slice(&self.tail);
            return String::from_utf8_lossy(&bytes).into_owned();
        }

        let tail = skip_continuation(&self.tail);
        let head = match std::str::from_utf8(&self.head) {
            Err(error) if error.error_len().is_none() => &self.head[..error.valid_up_to()],
            _ => &self.head[..],
        };

        let mut head = String::from_utf8_lossy(head).into_owned();
        redact_cut(&mut head, Cut::End);
        let mut tail = String::from_utf8_lossy(tail).into_owned();
        redact_cut(&mut tail, Cut::Start);
        format!(
            "{head}\n\n... ({} bytes omitted) ...\n\n{tail}",
            self.omitted
        )
    }
}

/// `bytes` without the rest of a character whose start is not among them.
fn skip_continuation(bytes: &[u8]) -> &[u8] {
    let continuation = bytes
        .iter()
        .take(3)
        .take_while(|byte| **byte & 0xC0 == 0x80);
    &bytes[continuation.count()..]
}

impl From<Bytes> for Captured {
    fn from(bytes: Bytes) -> Self {
        Self::new(bytes, Bytes::new(), 0)
    }
}

impl From<Vec<u8>> for Captured {
    fn from(bytes: Vec<u8>) -> Self {
        Bytes::from(bytes).into()
    }
}

impl From<String> for Captured {
    fn from(text: String) -> Self {
        Bytes::from(text).into()
    }
}

impl From<&'static str> for Captured {
    fn from(text: &'static str) -> Self {
        Bytes::from(text).into()
    }
}
