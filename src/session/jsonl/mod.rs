//! Sessions as files: one file for each session, which is only appended to.

mod disk;
mod file;
mod folder;
mod sidecar;
mod store;
#[cfg(test)]
mod tests;

pub use store::JsonlStore;
