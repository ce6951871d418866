//! The hooks that ship.
//!
//! | hook | what it does | |
//! |---|---|---|
//! | [`TodoListHook`] | a task list the model keeps with `write_todos` | |
//! | [`FilesystemHook`] | the seven tools for files, search and the shell; tracks what was written, moves long results into files | feature `tools` |
//! | [`SkillsHook`] | tells the model which `SKILL.md` files there are | feature `yaml` |
//! | [`MemoryHook`] | puts `AGENTS.md` files into the system prompt | |
//! | [`PermissionHook`] | holds a run to permission rules | |
//!
//! # Order
//!
//! The first hook added is the outermost, and texts stand in the system prompt in the order of
//! the hooks. Add them as: tracing, todo list, file system, skills, memory, summarization.
//!
//! # Prompt caching
//!
//! What these hooks put into the system prompt is read once a run and is stable: as long as
//! tools and files do not change, the beginning of each request has the same bytes as that of the
//! one before, also in the next run.

#[cfg(feature = "tools")]
mod eviction;
#[cfg(feature = "tools")]
mod filesystem;
mod memory;
mod permission;
mod place;
mod prompt;
#[cfg(feature = "yaml")]
mod skills;
mod todolist;

#[cfg(feature = "tools")]
pub use filesystem::FilesystemHook;
pub use memory::MemoryHook;
pub use permission::PermissionHook;
#[cfg(feature = "yaml")]
pub use skills::SkillsHook;
pub use todolist::TodoListHook;
