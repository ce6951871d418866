//! The built-in hooks.
//!
//! | hook | purpose | feature |
//! |---|---|---|
//! | [`TracingHook`] | records spans of model and tool calls | |
//! | [`BackgroundTasksHook`] | puts the state of background tasks into the system prompt | |
//! | [`TodoListHook`] | adds a task list that the model writes with `write_todos` | |
//! | [`FilesystemHook`] | adds seven tools for files, search and the shell; records written files, moves long results into files | `tools` |
//! | [`FileCheckpoints`] | stores files as they were before each message, to rewind them | |
//! | [`SkillsHook`] | lists the skills (`SKILL.md` files) for the model | `yaml` |
//! | [`MemoryHook`] | puts `AGENTS.md` files into the system prompt | |
//! | [`SummarizationHook`] | replaces old messages with a summary when the context window fills up | |
//! | [`ClearToolResults`] | shortens old, long tool results in requests | |
//! | [`CompactionHook`] | calls your function when the history has grown too long | |
//! | [`PermissionHook`] | applies permission rules to a run | |
//! | [`inject_context`] | puts a message first in every request | |
//! | [`session_hooks`] | loads and saves sessions in a second store | |
//! | [`UsageLogger`] | logs the tokens and the cost of each run | |
//!
//! All of them implement the public trait [`Hook`](crate::Hook). Some also use parts of this crate
//! that are not public.
//!
//! # Order
//!
//! The first hook added is the outermost, and the texts in the system prompt follow the order of
//! the hooks. Add them in this order:
//!
//! ```text
//!                            request    response
//!                               |          ^
//! +- tracing -------------------|----------|-+
//! | +- todo list ---------------|----------|-|
//! | | +- file system -----------|----------|-|
//! | | | +- skills --------------|----------|-|
//! | | | | +- memory ------------|----------|-|
//! | | | | | +- summarization ---|----------|-|
//! | | | | | |                   v          | |
//! | | | | | |                 the model call |
//! ```
//!
//! * Tracing is the outermost hook, so that its spans include the time of all other hooks, and have
//!   the response with their changes. A span has the request as it is before the hooks inside wrap
//!   the call.
//! * The todo list and the file system add the same to the prompt of every workspace; skills change
//!   seldom, memory often. A provider's prompt cache reuses a prompt up to the first change, so the
//!   section that changes most is the last.
//! * Summarization is the innermost hook, so that it measures the request that is sent, with the
//!   changes of all other hooks.
//! * [`session_hooks`] and [`CompactionHook`] replace the history at the beginning of a run. Add
//!   them before [`FileCheckpoints`], which counts the messages of the new history.
//! * [`ClearToolResults`], [`inject_context`] and [`BackgroundTasksHook`] change the request before
//!   any hook wraps the call, and [`PermissionHook`] and [`UsageLogger`] wrap no calls: their place
//!   among the hooks above does not matter.
//!
//! # Prompt caching
//!
//! The sections of these hooks in the system prompt are read once per run and are stable: as long
//! as tools and files do not change, each request begins with the same bytes as the previous
//! request, even across runs.

mod background_tasks;
mod checkpoints;
mod clear_tool_results;
mod compaction;
#[cfg(feature = "tools")]
mod evicted_files;
#[cfg(feature = "tools")]
mod eviction;
#[cfg(feature = "tools")]
mod filesystem;
mod inject_context;
mod memory;
#[cfg(feature = "tools")]
mod moved_results;
mod permission;
mod prompt;
#[cfg(feature = "tools")]
mod result_mover;
mod session;
#[cfg(feature = "yaml")]
mod skills;
mod spans;
mod summarization;
mod tag;
mod text;
mod todolist;
mod usage_logger;

pub use background_tasks::BackgroundTasksHook;
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
#[cfg(feature = "gateway")]
pub(crate) use summarization::{Keep, Summarizer, cut};
pub use summarization::{SummarizationHook, extract_summary, split_index};
pub use todolist::TodoListHook;
pub use usage_logger::UsageLogger;
