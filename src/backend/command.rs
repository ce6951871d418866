//! Commands and their results.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;

#[cfg(all(feature = "process", unix))]
use crate::util::secret::partial_suffix_start;
use crate::util::secret::{Cut, redact_cut};

use super::denied::DeniedPath;
use super::shell::Shell;

/// The maximum number of bytes at the end of an output that are searched for the beginning of a
/// secret: more than the longest spelling of a key has.
#[cfg(all(feature = "process", unix))]
const MAX_OPEN: usize = 64 * 1024;

/// A command line for a backend's shell.
///
/// ```
/// use std::time::Duration;
///
/// use agentcore::backend::Command;
///
/// let limit = Duration::from_secs(60);
/// let command = Command::new("cargo test").with_cwd("crates/core").with_timeout(limit);
/// assert_eq!(command.cwd.as_deref(), Some("crates/core"));
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Command {
    /// The command line for the shell.
    pub command: String,
    /// The time limit; `None` means the backend's own limit.
    pub timeout: Option<Duration>,
    /// The maximum number of bytes that are captured of each stream; `None` means the backend's own
    /// limit.
    pub max_output: Option<usize>,
    /// The working directory, a path as in [`Backend`](super::Backend); `None` means the root.
    pub cwd: Option<String>,
    /// The variables of the environment, in addition to the variables that the backend passes on.
    pub env: BTreeMap<String, String>,
    /// True if the standard error is merged into the standard output, in the order written.
    pub merge_stderr: bool,
    /// The shell that the command was written and checked for; a backend with another shell refuses
    /// the command. `None` means the backend's own shell. Every shell runs a command for
    /// [`Shell::Posix`].
    pub shell: Option<Shell>,
    /// The paths that the command must not access. Most backends ignore them: see [`DeniedPath`].
    pub denied: Vec<DeniedPath>,
}

impl Command {
    /// Creates a command that runs in the root, with the backend's own time limit.
    pub fn new(command: impl Into<String>) -> Self {
        Self {
            command: command.into(),
            timeout: None,
            max_output: None,
            cwd: None,
            env: BTreeMap::new(),
            merge_stderr: false,
            shell: None,
            denied: Vec::new(),
        }
    }

    /// Sets the time limit.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets the maximum number of bytes that are captured of each stream.
    #[must_use]
    pub fn with_max_output(mut self, bytes: usize) -> Self {
        self.max_output = Some(bytes);
        self
    }

    /// Sets the working directory, a path as in [`Backend`](super::Backend).
    #[must_use]
    pub fn with_cwd(mut self, cwd: impl Into<String>) -> Self {
        self.cwd = Some(cwd.into());
        self
    }

    /// Sets a variable of the environment.
    #[must_use]
    pub fn with_env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Sets the shell that the command was written and checked for.
    #[must_use]
    pub fn with_shell(mut self, shell: Shell) -> Self {
        self.shell = Some(shell);
        self
    }

    /// Sets the paths that the command must not access.
    #[must_use]
    pub fn with_denied(mut self, paths: Vec<DeniedPath>) -> Self {
        self.denied = paths;
        self
    }

    /// Merges the standard error into the standard output, in the order written.
    #[must_use]
    pub fn merged(mut self) -> Self {
        self.merge_stderr = true;
        self
    }
}

impl fmt::Debug for Command {
    /// Prints only the names of the variables, because a value may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Command")
            .field("command", &self.command)
            .field("timeout", &self.timeout)
            .field("max_output", &self.max_output)
            .field("cwd", &self.cwd)
            .field("env", &self.env.keys())
            .field("merge_stderr", &self.merge_stderr)
            .field("shell", &self.shell)
            .field("denied", &self.denied)
            .finish()
    }
}

/// The limits that a backend sets for commands without limits of their own; `None` means the
/// backend's default.
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
    /// The maximum number of bytes that are captured of each stream of a command.
    pub max_output: Option<usize>,
}

impl CommandLimits {
    /// Sets the limit on the time a command may run.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets the maximum number of bytes that are captured of each stream of a command.
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
    /// The standard output, as far as the backend captures it.
    pub stdout: Captured,
    /// The standard error, as far as the backend captures it; empty when [`Command::merge_stderr`]
    /// is set.
    pub stderr: Captured,
    /// The exit code; `None` if a signal or the time limit ended the command.
    pub exit_code: Option<i32>,
    /// The signal that ended the command, if one did.
    pub signal: Option<i32>,
    /// True if the time limit ended the command.
    pub timed_out: bool,
}

impl CommandOutput {
    /// Creates the output of a command that exited on its own.
    pub fn new(exit_code: i32, stdout: impl Into<Captured>, stderr: impl Into<Captured>) -> Self {
        Self {
            stdout: stdout.into(),
            stderr: stderr.into(),
            exit_code: Some(exit_code),
            ..Self::default()
        }
    }

    /// Returns `true` if it exited on its own with exit code 0.
    pub fn is_success(&self) -> bool {
        self.exit_code == Some(0)
    }
}

/// The output of a background command since the last poll.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackgroundOutput {
    /// The output since the last poll.
    pub output: CommandOutput,
    /// True if the command is still running. Its exit code, signal and `timed_out` are set only
    /// when it has ended.
    pub running: bool,
}

impl BackgroundOutput {
    /// Creates the output since the last poll.
    pub fn new(output: CommandOutput, running: bool) -> Self {
        Self { output, running }
    }
}

/// The captured start and end of a stream of bytes.
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
    /// The first bytes. The others are in `tail`, even if none were omitted.
    pub head: Bytes,
    /// The last bytes: those after `head` and after the omitted ones. It may be empty.
    pub tail: Bytes,
    /// The number of bytes between them that were omitted.
    pub omitted: u64,
}

impl Captured {
    /// Creates a stream whose bytes between `head` and `tail` were omitted.
    pub fn new(head: impl Into<Bytes>, tail: impl Into<Bytes>, omitted: u64) -> Self {
        Self {
            head: head.into(),
            tail: tail.into(),
            omitted,
        }
    }

    /// Returns the number of bytes in all.
    pub fn total(&self) -> u64 {
        self.head.len() as u64 + self.omitted + self.tail.len() as u64
    }

    /// Returns `true` if there was no output.
    pub fn is_empty(&self) -> bool {
        self.total() == 0
    }

    /// Returns `true` if the kept part is UTF-8; a character cut by the gap does not count.
    #[cfg(feature = "tools")]
    pub(crate) fn is_utf8(&self) -> bool {
        match self.whole() {
            Some(bytes) => std::str::from_utf8(&bytes).is_ok(),
            None => {
                let tail = skip_continuation(&self.tail);
                std::str::from_utf8(self.whole_head()).is_ok() && std::str::from_utf8(tail).is_ok()
            }
        }
    }

    /// Splits off the end whose meaning later output decides: the first bytes of a character, and
    /// the possible beginning of a [`Secret`](crate::Secret).
    #[cfg(all(feature = "process", unix))]
    pub(super) fn split_open(mut self) -> (Self, Bytes) {
        let bytes = Bytes::from(self.whole().unwrap_or_else(|| self.tail.to_vec()));
        let first = bytes.len().saturating_sub(MAX_OPEN);
        let start = first + partial_suffix_start(&bytes[first..]);
        let open = bytes.slice(start.min(incomplete_char(&bytes))..);
        let tail_len = open.len().min(self.tail.len());
        let head_len = open.len() - tail_len;
        self.tail.truncate(self.tail.len() - tail_len);
        self.head.truncate(self.head.len() - head_len);
        (self, open)
    }

    /// Returns all bytes, if none were omitted.
    fn whole(&self) -> Option<Vec<u8>> {
        (self.omitted == 0).then(|| [&self.head[..], &self.tail[..]].concat())
    }

    /// The head without a character that the gap has cut.
    fn whole_head(&self) -> &[u8] {
        match std::str::from_utf8(&self.head) {
            Err(error) if error.error_len().is_none() => &self.head[..error.valid_up_to()],
            _ => &self.head,
        }
    }

    /// Returns the text, with a line about the omitted bytes where there are any, and `\u{FFFD}`
    /// for invalid UTF-8. A part of a [`Secret`](crate::Secret) that the gap has cut off is
    /// replaced as the secret itself is.
    pub fn text(&self) -> String {
        if let Some(bytes) = self.whole() {
            return String::from_utf8_lossy(&bytes).into_owned();
        }

        let tail = skip_continuation(&self.tail);
        let mut head = String::from_utf8_lossy(self.whole_head()).into_owned();
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

/// The start of a character at the end of `bytes` whose other bytes are missing; the length of
/// `bytes` if there is none.
#[cfg(all(feature = "process", unix))]
fn incomplete_char(bytes: &[u8]) -> usize {
    let mut candidates = (bytes.len().saturating_sub(3)..bytes.len()).rev();
    let start = candidates.find(|at| bytes[*at] & 0xC0 != 0x80);
    let is_incomplete = |at: &usize| {
        let char = std::str::from_utf8(&bytes[*at..]);
        char.is_err_and(|error| error.error_len().is_none())
    };
    start.filter(is_incomplete).unwrap_or(bytes.len())
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
