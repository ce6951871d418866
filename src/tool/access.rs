//! The effects of a tool and the resources it accesses.

use std::fmt;
use std::sync::Arc;

/// The kind of effect that calls of a tool have.
///
/// Only [`None`](Self::None) and [`ReadOnly`](Self::ReadOnly) are allowed in plan mode. For all
/// other kinds, the start of a call is stored before the tool runs: if the run ends before the
/// result is stored, the call may have had an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SideEffect {
    /// The tool computes and has no effect.
    None,
    /// The tool reads files or other local data.
    ReadOnly,
    /// The tool modifies state.
    Mutating,
    /// The tool uses the network. It counts as a change, even if it only downloads.
    Network,
    /// The tool waits for a person, such as the user. It counts as a change.
    Blocking,
}

impl SideEffect {
    /// Returns `true` for [`None`](Self::None) and [`ReadOnly`](Self::ReadOnly).
    pub fn is_read_only(self) -> bool {
        matches!(self, Self::None | Self::ReadOnly)
    }
}

/// The concurrency of a call with others of the same turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Concurrency {
    /// The call runs in parallel with the calls before and after it that allow this.
    #[default]
    Parallel,
    /// The call never runs in parallel with other calls of the turn.
    Exclusive,
}

/// An access of a call, which permission rules check.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Access {
    /// Runs a shell command.
    Command(Arc<str>),
    /// Reads a path.
    Read(Arc<str>),
    /// Writes a path.
    Write(Arc<str>),
    /// Fetches an address.
    Url(Arc<str>),
    /// Starts the agent of that name: a subagent, or an agent that takes over the conversation.
    Agent(Arc<str>),
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(command) => write!(f, "run `{command}`"),
            Self::Read(path) => write!(f, "read {path}"),
            Self::Write(path) => write!(f, "write {path}"),
            Self::Url(url) => write!(f, "fetch {url}"),
            Self::Agent(name) => write!(f, "start agent {name}"),
        }
    }
}
