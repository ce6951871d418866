//! Sessions as files: one a session, only ever added to.

mod disk;
mod file;
mod folder;
mod sidecar;
mod store;
#[cfg(test)]
mod tests;

pub use store::JsonlStore;
