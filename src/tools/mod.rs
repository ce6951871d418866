//! The tools that ship: files, search and the shell, over a [`Backend`](crate::backend::Backend).
//!
//! The same work under three sets of names:
//!
//! | work | [`coding`] | [`wick`] | [`picoclaw`] |
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
//! [`preset`] has each set as a registry, ready for an agent:
//!
//! ```
//! use agentcore::backend::MemoryBackend;
//! use agentcore::tools::preset;
//!
//! let tools = preset::coding(MemoryBackend::new());
//! assert_eq!(tools.names(), ["Bash", "Edit", "Glob", "Grep", "Read", "Write"]);
//! ```
//!
//! [`ask`] has what asks the user: `AskUserQuestion`, and answers to permission questions.
//!
//! Paths are absolute or relative to the backend's root. A tool that changes files or runs
//! commands runs alone; those that read run side by side.

mod args;
pub mod ask;
pub mod coding;
mod edit;
mod files;
mod find;
pub mod picoclaw;
pub mod preset;
mod read;
mod run;
pub mod wick;

pub use edit::EditPolicy;
