//! The memory of an agent beyond one conversation: [`MemoryStore`], long-term memory and daily
//! notes.

mod days;
mod memory_store;

pub use memory_store::MemoryStore;
