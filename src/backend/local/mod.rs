//! A folder of this machine as a workspace.

mod backend;
mod beneath;
mod files;
mod real;
mod replace;
mod root;
#[cfg(feature = "search")]
mod search;
#[cfg(feature = "process")]
mod shell;
mod sweep;

pub use backend::LocalBackend;
