//! Sessions in memory.

mod size;
mod thread_store;
mod threads;

pub use thread_store::ThreadStore;
