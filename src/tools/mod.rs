//! The built-in tools.
//!
//! The tools for files, search and the shell work on a [`Backend`](crate::backend::Backend). They
//! come in three sets, which differ in names and in details of arguments and output (feature
//! `tools`): `coding` has the names of Claude Code, and `wick` and `picoclaw` have the names of the
//! agents `wick` and `picoclaw`, for prompts written for these agents.
//!
//! | work | `coding` | `wick` | `picoclaw` |
//! |---|---|---|---|
//! | list a folder | | `ls` | `list_dir` |
//! | read a file | `Read` | `read_file` | `read_file` |
//! | write a file | `Write` | `write_file` | `write_file` |
//! | replace text in a file | `Edit` | `edit_file` | `edit_file` |
//! | add to a file | | | `append_file` |
//! | find files | `Glob` | `glob` | |
//! | search in files | `Grep` | `grep` | |
//! | run a command | `Bash` | `execute` | `exec` |
//!
//! The other tools need no backend. If their feature is enabled, they are part of the named set:
//!
//! | work | tool | feature | part of |
//! |---|---|---|---|
//! | fetch a page | `web_fetch` | `web` | `picoclaw` |
//! | search the internet | `internet_search`, `web_search` | `web` | none, because it needs a provider |
//! | calculate | `calculate` | `calc` | `wick` |
//! | return the time | `current_datetime` | `time` | `wick` |
//!
//! `preset` returns each set as a registry, ready for an agent:
//!
//! ```
//! # #[cfg(feature = "tools")] {
//! use agentcore::AgentBuilder;
//! use agentcore::backend::MemoryBackend;
//! use agentcore::testing::ScriptedModel;
//! use agentcore::tools::preset;
//!
//! # let build = || {
//! let tools = preset::coding(MemoryBackend::new());
//! assert_eq!(tools.names(), ["Bash", "Edit", "Glob", "Grep", "Read", "Write"]);
//! let agent = AgentBuilder::new(ScriptedModel::new()).registry(&tools).build()?;
//! # Ok::<_, agentcore::Error>(agent)
//! # };
//! # build().unwrap();
//! # }
//! ```
//!
//! [`task`] returns the tools that start subagents, `Task`, `TaskOutput` and `TaskStop`;
//! [`delegate`] returns tools for the same purpose with the names of the agent `wick`.
//!
//! [`ask`] has the tool `AskUserQuestion`, and a confirmer that asks the user permission questions.
//! [`request_user_input`] and [`request_user_approval`] are tools that ask a run's confirmer or
//! responder. `memory` returns the tools with which the model reads and writes a `MemoryStore`
//! (feature `time`).
//!
//! In listings and search results, a path with control characters or invisible characters, or with
//! a quote as its first character, is a JSON string; all other paths are unchanged.
//!
//! Paths are absolute, or relative to the backend's root. A tool that changes files or runs
//! commands runs alone; tools that only read run concurrently.
//!
//! An edit fails if the file has changed since it was read for this edit. This is certain within
//! one process only: if two processes edit a file at the same moment, the later edit may overwrite
//! the earlier one.

#[cfg(feature = "tools")]
mod args;
#[cfg(feature = "tools")]
pub mod ask;
#[cfg(feature = "tools")]
mod background;
#[cfg(feature = "calc")]
mod calculate;
#[cfg(feature = "tools")]
pub mod coding;
#[cfg(any(feature = "calc", feature = "web"))]
mod compute;
#[cfg(feature = "time")]
mod datetime;
mod delegate;
#[cfg(feature = "tools")]
mod diff;
#[cfg(feature = "tools")]
mod edit;
#[cfg(feature = "tools")]
mod files;
#[cfg(feature = "tools")]
mod find;
#[cfg(feature = "calc")]
mod formula;
#[cfg(feature = "calc")]
mod fraction;
mod human;
#[cfg(feature = "time")]
mod memory;
#[cfg(feature = "calc")]
mod parser_work;
#[cfg(feature = "tools")]
pub mod picoclaw;
#[cfg(feature = "tools")]
pub mod preset;
#[cfg(feature = "tools")]
mod read;
#[cfg(feature = "tools")]
mod run;
#[cfg(feature = "tools")]
mod schema;
mod task;
#[cfg(feature = "web")]
pub mod web;
#[cfg(feature = "tools")]
pub mod wick;

#[cfg(feature = "calc")]
pub use calculate::calculate;
#[cfg(feature = "time")]
pub use datetime::{current_datetime, current_datetime_by};
pub use delegate::delegate;
pub(crate) use delegate::task_line;
#[cfg(feature = "tools")]
pub use edit::EditPolicy;
pub use human::{request_user_approval, request_user_input};
#[cfg(feature = "time")]
pub use memory::memory;
pub use task::{ChildHooks, SubagentTools, task};
