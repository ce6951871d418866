//! Sessions in memory.

mod dropped;
mod thread_store;
mod threads;

pub use thread_store::ThreadStore;
