//! Sessions as files: one a session, only ever added to.

mod disk;
mod file;
mod folder;
mod name;
mod sidecar;
mod store;

pub use store::JsonlStore;
