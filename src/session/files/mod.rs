//! What stores that keep files share: names, folders, locks.

mod folder;
mod lock;
mod name;

pub(super) use folder::{make_folder, sync_folder};
pub(super) use lock::{LockFile, check_kind, failed};
pub(super) use name::file_name;
