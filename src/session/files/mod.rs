//! The parts shared by stores that keep files: names, locks.

mod lock;
mod name;

#[cfg(feature = "sqlite")]
pub(super) use lock::check_kind;
pub(super) use lock::{LockFile, failed};
#[cfg(feature = "jsonl")]
pub(super) use lock::{check_own, is_at, is_own};
pub(super) use name::file_name;
