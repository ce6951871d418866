//! Processes that left the process group of the command that started them.
//!
//! A process that calls `setsid`, or a daemon, is no longer in the group. Making this process the
//! reaper of such orphans would do so for the whole program around this crate, which may wait for
//! children of its own. So the process table is searched for them, by what a process inherits: its
//! session, its pipes and a variable of its environment.

mod evidence;
#[cfg(not(target_os = "linux"))]
#[path = "absent.rs"]
mod proc;
#[cfg(target_os = "linux")]
mod proc;
mod process;
mod sweep;
mod sweeper;

pub(in super::super) use evidence::{Evidence, MARK, PipeEnd};
pub(in super::super) use sweeper::{Strays, Sweeper};
