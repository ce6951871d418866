//! Files as they were before each message of the user.
//!
//! Records are only ever added: what a file was before its first change since a message, and what
//! each change was to make of it. The latter distinguishes the session's own work from that of
//! others.

mod book;
mod file_checkpoints;
#[cfg(unix)]
mod folder;
mod hook;
mod keep;
mod record;
mod report;
mod rewind;
mod runs;
mod shelf;
mod watched;

pub use file_checkpoints::FileCheckpoints;
pub use report::{Checkpoint, FileAction, FileChange, Rewind, RewindMode, RewindOutcome};
