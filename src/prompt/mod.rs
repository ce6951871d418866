//! The system prompt of an agent with a workspace: [`ContextBuilder`], which also builds requests
//! that no agent makes, and the agent's memory beyond one conversation, [`MemoryStore`].

#[cfg(all(feature = "time", feature = "yaml"))]
mod bootstrap;
#[cfg(all(feature = "time", feature = "yaml"))]
mod context_builder;
#[cfg(all(feature = "time", feature = "yaml"))]
mod context_hook;
#[cfg(all(feature = "time", feature = "yaml"))]
mod conversation;
#[cfg(all(feature = "time", feature = "yaml"))]
mod identity;
#[cfg(feature = "time")]
mod local_clock;
#[cfg(feature = "time")]
mod memory_store;
#[cfg(feature = "yaml")]
pub(crate) mod skills;

#[cfg(all(feature = "time", feature = "yaml"))]
pub use context_builder::{ContextBuilder, SkillsInfo};
#[cfg(all(feature = "time", feature = "yaml"))]
pub use conversation::Conversation;
#[cfg(feature = "gateway")]
pub(crate) use local_clock::LocalClock;
#[cfg(feature = "time")]
pub use memory_store::MemoryStore;
#[cfg(feature = "time")]
pub(crate) use memory_store::{MemoryContext, MemoryVersion};
#[cfg(feature = "yaml")]
pub use skills::Skill;
