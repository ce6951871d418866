//! Commands under way, whoever started them: their output, their end, and that nothing of them
//! stays.

mod capture;
mod environment;
mod group;
mod jobs;
mod running;
mod strays;

pub(super) use environment::environment;
pub(super) use group::Group;
pub(super) use jobs::Jobs;
pub(super) use running::{Ending, Running};
pub(super) use strays::{Evidence, MARK, PipeEnd, Strays, Sweeper};
