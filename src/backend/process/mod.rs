//! Commands under way, whoever started them: their output, their end, and that nothing of them
//! stays.

mod cage;
mod capture;
mod environment;
mod group;
mod jobs;
mod running;
mod strays;

pub(super) use cage::Cage;
pub(super) use environment::environment;
pub(super) use group::Group;
pub(super) use jobs::Jobs;
pub(super) use running::{Ending, MAX_OUTPUT, Running, TIMEOUT};
pub(super) use strays::{Evidence, MARK, PipeEnd, Strays, Sweeper};
