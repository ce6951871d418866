//! The hooks that ship.
//!
//! | hook | what it does | feature |
//! |---|---|---|
//! | [`TracingHook`] | spans of model and tool calls | |
//! | [`TodoListHook`] | a task list the model keeps with `write_todos` | |
//! | [`FilesystemHook`] | the seven tools for files, search and the shell; tracks what was written, moves long results into files | `tools` |
//! | [`FileCheckpoints`] | keeps files as they were before each message, to rewind them | |
//! | [`SkillsHook`] | tells the model which `SKILL.md` files there are | `yaml` |
//! | [`MemoryHook`] | puts `AGENTS.md` files into the system prompt | |
//! | [`SummarizationHook`] | puts a summary in place of what is old when the window fills up | |
//! | [`ClearToolResults`] | sends old, long tool results shortened | |
//! | [`CompactionHook`] | calls a function of yours when the history has grown too long | |
//! | [`PermissionHook`] | holds a run to permission rules | |
//! | [`inject_context`] | puts a message first in every request | |
//! | [`session_hooks`] | loads and saves sessions by hand | |
//! | [`UsageLogger`] | logs what a run has used | |
//!
//! They are ordinary hooks: each could be written outside this crate.
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

mod checkpoints;
mod clear_tool_results;
mod compaction;
#[cfg(feature = "tools")]
mod eviction;
#[cfg(feature = "tools")]
mod filesystem;
mod inject_context;
mod memory;
#[cfg(feature = "tools")]
mod moved;
mod permission;
mod place;
mod prompt;
mod session;
#[cfg(feature = "yaml")]
mod skills;
mod spans;
mod summarization;
mod tag;
mod todolist;
mod usage_logger;

pub use checkpoints::{
    Checkpoint, FileAction, FileChange, FileCheckpoints, Rewind, RewindMode, RewindOutcome,
};
pub use clear_tool_results::ClearToolResults;
pub use compaction::CompactionHook;
#[cfg(feature = "tools")]
pub use filesystem::FilesystemHook;
pub use inject_context::inject_context;
pub use memory::MemoryHook;
pub use permission::PermissionHook;
pub use session::{SessionHooks, session_hooks};
#[cfg(feature = "yaml")]
pub use skills::SkillsHook;
pub use spans::TracingHook;
pub use summarization::{SummarizationHook, extract_summary, split_index};
pub use todolist::TodoListHook;
pub use usage_logger::UsageLogger;
