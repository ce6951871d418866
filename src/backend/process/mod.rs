//! Running commands, from any backend: their output, their end, and the removal of all their
//! processes.

mod capture;
mod cgroup;
mod environment;
mod group;
mod jobs;
mod running;
mod strays;

pub(super) use cgroup::Cgroup;
pub(super) use environment::environment;
pub(super) use group::Group;
pub(super) use jobs::Jobs;
#[cfg(feature = "docker")]
pub(super) use running::DRAIN;
pub(super) use running::{Ending, MAX_OUTPUT, Running, TIMEOUT};
pub(super) use strays::{Evidence, MARK, PipeEnd, Strays, Sweeper};
