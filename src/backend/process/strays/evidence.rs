//! The evidence that a process was started by a command.

use std::os::fd::AsFd;

use rustix::fs::fstat;

use super::proc;
use super::process::{Environment, Process};

/// The variable whose value no two commands share.
pub(in super::super::super) const MARK: &str = "AGENTCORE_COMMAND";

/// One end of a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super::super) struct PipeEnd {
    pub(super) inode: u64,
    /// True if it is the end that is written to.
    pub(super) is_written: bool,
}

impl PipeEnd {
    /// The end that is written to, of a pipe that this process reads.
    pub(in super::super::super) fn writer(reader: &impl AsFd) -> Option<Self> {
        Self::other_of(reader, true)
    }

    /// The end that is read, of a pipe that this process writes to.
    pub(in super::super::super) fn reader(writer: &impl AsFd) -> Option<Self> {
        Self::other_of(writer, false)
    }

    fn other_of(end: &impl AsFd, is_written: bool) -> Option<Self> {
        let inode = fstat(end).ok()?.st_ino;
        Some(Self { inode, is_written })
    }
}

/// All by which the processes of one command are recognized.
#[derive(Debug)]
pub(in super::super::super) struct Evidence {
    /// The entry for [`MARK`] in the environment, with its end.
    needle: Vec<u8>,
    /// The id of this process.
    own: i32,
    leader: i32,
    /// The start time of the leader; older processes are not the command's.
    since: u64,
    pipes: Vec<PipeEnd>,
}

/// The relation of a process to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    /// It is in the command's process group.
    Member,
    /// It was started by the command and has left its group.
    Stray,
    /// It has no evidence of its own: it is a stray if its parent belongs to the command.
    DecidedByParent,
    /// It was starting a program, or about to end: it may have evidence when it is read again.
    Starting,
    /// It is this process, or it is older than the command.
    Unrelated,
}

impl Evidence {
    /// The evidence for the processes of a command whose group is led by `leader`, a child that
    /// has not been waited for. `None` where there is no process table.
    pub(in super::super::super) fn new(
        mark: &str,
        leader: u32,
        pipes: impl IntoIterator<Item = PipeEnd>,
    ) -> Option<Self> {
        let leader = i32::try_from(leader).ok()?;
        if !proc::is_there() {
            return None;
        }
        Some(Self {
            needle: format!("{MARK}={mark}\0").into_bytes(),
            own: i32::try_from(std::process::id()).ok()?,
            leader,
            since: proc::read(leader)?.started,
            pipes: pipes.into_iter().collect(),
        })
    }

    /// Returns `true` if another process has the leader's id, and with it the id of the group and
    /// session.
    pub(super) fn is_leader_replaced(&self) -> bool {
        proc::read(self.leader).is_some_and(|leader| leader.started != self.since)
    }

    pub(super) fn is_member(&self, process: &Process) -> bool {
        process.group == self.leader && process.started >= self.since
    }

    /// Returns the relation of a process by its own data. `is_session_valid` is true if the ids of
    /// the group and the session are still the command's.
    pub(super) fn relation(&self, process: &Process, is_session_valid: bool) -> Relation {
        if process.id == self.own || process.started < self.since {
            return Relation::Unrelated;
        }

        if is_session_valid && self.is_member(process) {
            return Relation::Member;
        }

        // A child of this process is the leader itself, or unrelated to the command.
        let is_of_session = process.session == self.leader && process.parent != self.own;
        if is_session_valid && is_of_session || proc::holds(process.id, &self.pipes) {
            return Relation::Stray;
        }

        match proc::environment(process.id, &self.needle) {
            Environment::Marked => Relation::Stray,
            Environment::Other => Relation::DecidedByParent,
            Environment::Missing => Relation::Starting,
        }
    }
}
