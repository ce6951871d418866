//! A folder of this machine as a workspace.

mod backend;
mod beneath;
mod files;
#[cfg(feature = "process")]
mod process;
mod replace;
mod root;
#[cfg(feature = "search")]
mod search;
mod sweep;

pub use backend::LocalBackend;
