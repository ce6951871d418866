//! The parts shared by stores that keep files: names, locks.

mod lock;
mod name;

#[cfg(feature = "sqlite")]
pub(super) use lock::check_kind;
pub(super) use lock::{LockFile, check_session_file, file_error};
#[cfg(feature = "jsonl")]
pub(super) use lock::{check_regular_file, is_same_file};
pub(super) use name::file_name;
