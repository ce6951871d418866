//! Commands under way, whoever started them: their output, their end, and that nothing of them
//! stays.

mod cage;
mod capture;
mod environment;
mod group;
mod jobs;
mod running;
mod strays;

use std::time::Duration;

pub(super) use cage::Cage;
pub(super) use environment::environment;
pub(super) use group::Group;
pub(super) use jobs::Jobs;
pub(super) use running::{Ending, Running};
pub(super) use strays::{Evidence, MARK, PipeEnd, Strays, Sweeper};

/// The time that a command may run, unless the command or the backend sets another.
pub(super) const TIMEOUT: Duration = Duration::from_secs(120);
/// What is retained of each stream of a command, in bytes, unless the backend sets another limit.
pub(super) const MAX_OUTPUT: usize = 256 * 1024;
