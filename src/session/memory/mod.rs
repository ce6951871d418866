//! Sessions in memory.

mod thread_store;
mod threads;

pub use thread_store::ThreadStore;
