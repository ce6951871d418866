//! File checkpoints: the states of files before each user message.
//!
//! For each session an append-only list of [`ChangeRecord`](record::ChangeRecord)s is stored
//! (`storage`): the state of a file before its first change after a message, and the fingerprint of
//! each new content, which distinguishes the session's own changes from changes by others. `index`
//! is the list in memory, `capture` adds to it, `backend` calls it before every change, `hook` and
//! `active_runs` know the current message, `rewind` restores.

mod active_runs;
mod backend;
mod cached_index;
mod capture;
mod file_checkpoints;
#[cfg(unix)]
mod file_name;
#[cfg(unix)]
mod folder;
#[cfg(unix)]
mod folder_storage;
mod hook;
mod index;
mod limits;
mod memory_storage;
mod own_states;
mod record;
mod report;
mod rewind;
mod storage;

#[cfg(feature = "tools")]
pub(super) use active_runs::unrecorded;
pub use file_checkpoints::FileCheckpoints;
pub use report::{Checkpoint, FileAction, FileChange, Rewind, RewindMode, RewindOutcome};
