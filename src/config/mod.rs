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
//! # Tools
//!
//! An agent has the tools of its hooks, the tools of this crate that its list `tools` names, and
//! all tools that the program registers in Rust, which `permissions` restrict. They are registered
//! with [`Parts::tool`], with [`ToolStore::register`](crate::registry::ToolStore::register) or with
//! `Server::tool`, whose docs (feature `server`) show a program with a file and a tool.
//!
//! ```
//! use agentcore::FuncTool;
//! use agentcore::config::{Config, Parts};
//! use agentcore::testing::ScriptedModel;
//! use serde_json::json;
//!
//! # async fn example() -> Result<(), agentcore::Error> {
//! // Or `Config::load("agents.yaml")?`.
//! let config = Config::from_yaml("model: any-model\ntools: [lookup_order]")?;
//! let any = json!({"type": "object"});
//! let lookup = FuncTool::new("lookup_order", "Looks up", any, |_cx, _args| async { "shipped" });
//! // In a program: `Parts::new().tool(lookup)`, with the models of the file.
//! let model = ScriptedModel::new().call("lookup_order", json!({})).say("It is on its way.");
//! let parts = Parts::new().models(move |_name| Ok(model.clone())).tool(lookup);
//!
//! let default = config.agent("default").expect("it is in the file");
//! let agent = default.builder(&parts).await?.build()?;
//! assert_eq!(agent.run("Where is my order?").await?.text, "It is on its way.");
//! # Ok(())
//! # }
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
//! ```
//!
//! # Errors
//!
//! An error names the file, the line and the column, and suggests similar names:
//! `agents.yaml:9:5: unknown key "sytem_prompt"; did you mean "system_prompt"?`. It never quotes a
//! line of the file, which may contain a secret.
//!
//! # Features
//!
//! A configuration can only name parts whose cargo feature is enabled: the tool `calculate` needs
//! `calc`, a backend of the type `docker` needs `docker`, and sessions of the type `sqlite` need
//! `sqlite`. A part whose feature is disabled is an error that names the feature.
//!
//! # Secrets
//!
//! Keys are written as references to environment variables, such as `"${TAVILY_API_KEY}"`. The
//! variables are read when the file is read. A literal key and an unset variable are errors.

mod agent;
mod agent_nodes;
mod backend;
mod build;
mod builtin;
mod check;
mod file;
mod hook_choice;
mod limits;
mod open_folders;
mod origin;
mod parts;
mod prompt;
mod prompt_files;
mod sessions;
mod shared_folders;
mod source;
mod started_backend;
mod subagent;
mod tool_names;
mod untrusted;

pub use agent::AgentConfig;
pub use backend::{BackendCfg, BackendType, SandboxCfg};
pub use builtin::BuiltinConfig;
pub use file::Config;
pub use hook_choice::HookChoice;
pub use limits::LimitsCfg;
pub use parts::Parts;
pub use prompt::{MemoryCfg, SkillsCfg};
pub use sessions::{SessionsCfg, SessionsType};
pub use subagent::SubAgentCfg;
pub use untrusted::Untrusted;

pub(crate) use build::{Workspace, WorkspaceOwner};
pub(crate) use builtin::{available_builtin_names, reserved_tool_names};
pub(crate) use check::check_agent_id;
pub(crate) use hook_choice::{PERMISSIONS, check_hook};
pub(crate) use sessions::StoreKey;
pub(crate) use started_backend::{Owner, StartedBackend};
