//! Agents from configuration files (feature `config`).
//!
//! A [`Config`] is an `agents.yaml`, or the same in JSON: a map of agents, with defaults for all of
//! them. [`AgentConfig::builder`] turns one into an [`AgentBuilder`](crate::AgentBuilder) with its
//! backend, its hooks and its tools.
//!
//! ```yaml
//! defaults:
//!   backend: { type: local, workdir: ./workspace, timeout: 120 }
//! agents:
//!   default:
//!     name: code-assistant
//!     model: anthropic:claude-sonnet-5
//!     system_prompt: You are a coding assistant.
//!     skills: { paths: [./skills] }
//!     memory: { paths: [./AGENTS.md], initial_content: "# Notes" }
//!     hooks: { todolist: off }
//!     permissions: { ask: [write_file], deny: ["Bash(git push:*)"] }
//!     limits: { max_turns: 25, max_duration: 600 }
//!     sessions: { type: jsonl, path: ./sessions }
//!   reader: { model: "ollama:llama3.1:8b", tools: [calculate] }
//! ```
//!
//! A file with the keys of one agent at its top level describes the agent `default`.
//!
//! # Errors
//!
//! An error names the file, the line and the column, and near names:
//! `agents.yaml:9:5: unknown key "sytem_prompt"; did you mean "system_prompt"?`. It quotes no line
//! of the file, because there may be a secret in it.
//!
//! # Features
//!
//! A name whose code is not part of the program is an error that names the cargo feature: the tool
//! `calculate` needs `calc`, a backend of the type `docker` needs `docker`, sessions of the type
//! `sqlite` need `sqlite`. So a program has the dependencies of what its files use, and no more.
//!
//! # Secrets
//!
//! Keys are written as references to environment variables, such as `"${TAVILY_API_KEY}"`. The
//! variables are read together with the file. A literal key, and a variable that is not set, are
//! errors.

mod agent;
mod backend;
mod build;
mod builtin;
mod check;
mod file;
mod files;
mod hook_choice;
mod limits;
mod narrow;
mod parts;
mod place;
mod prompt;
mod sessions;
mod shared_folders;
mod source;
mod started_backend;
mod subagent;

pub use agent::AgentConfig;
pub use backend::{BackendCfg, BackendType, SandboxCfg};
pub use builtin::BuiltinConfig;
pub use file::Config;
pub use hook_choice::HookChoice;
pub use limits::LimitsCfg;
pub use narrow::Untrusted;
pub use parts::Parts;
pub use prompt::{MemoryCfg, SkillsCfg};
pub use sessions::{SessionsCfg, SessionsType};
pub use subagent::SubAgentCfg;

pub(crate) use build::Equipment;
pub(crate) use builtin::{available_builtin_names, reserved_tool_names};
pub(crate) use check::check_agent_id;
pub(crate) use hook_choice::check_hook;
pub(crate) use sessions::StoreKey;
pub(crate) use started_backend::{Owner, StartedBackend};
