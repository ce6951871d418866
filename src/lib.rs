//! agentcore is a library for running LLM agents inside a program. An agent is a model with tools,
//! hooks and limits. Each run of an agent is a stream of messages that advances while it is polled.
//!
//! ```
//! use agentcore::testing::ScriptedModel;
//! use agentcore::{Agent, FuncTool};
//! use serde_json::json;
//!
//! # async fn example() -> Result<(), agentcore::Error> {
//! // Or a real model: `agentcore::providers::resolve("anthropic:claude-sonnet-5")?`.
//! let model = ScriptedModel::new().call("clock", json!({})).say("It is noon.");
//! let clock = FuncTool::new("clock", "The time", json!({"type": "object"}), |_cx, _args| async {
//!     "12:00"
//! });
//! let agent = Agent::builder(model).system_prompt("Be brief.").tool(clock).build()?;
//!
//! let mut run = agent.run("What time is it?");
//! while let Some(message) = run.next().await {
//!     if let Some(text) = message.text() {
//!         println!("{text}");
//!     }
//! }
//! assert_eq!(run.into_output()?.text, "It is noon.");
//! # Ok(())
//! # }
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
//! ```
//!
//! # The loop
//!
//! [`Agent::run`] returns a [`Run`]: a stream of [`SdkMessage`]s or, when awaited, a [`RunOutput`].
//! Both drive the same loop. Each turn calls the model ([`Model`]), stores its response, runs the
//! tool calls in it ([`Tool`]) and stores their results, until a response has no calls or a limit
//! is reached.
//!
//! However a run ends, the stream begins with `system/init` and ends with exactly one `result`, and
//! the stored history can be sent to any provider, once the calls that wait for approval have their
//! results. Messages of subagents have a `parent_tool_use_id`; their runs begin with a
//! `task_started` and end with a `task_notification`.
//!
//! * `providers`: models over HTTP (feature `http`); [`Model`]: a model of your own.
//! * [`FuncTool`] and [`Tool`]: your own tools; [`tools`]: those of this crate, for files, search,
//!   the shell and the web.
//! * [`permission`]: rules that allow or deny calls, or ask about them. Without
//!   [`AgentBuilder::permissions`], every call runs.
//! * [`hook`]: hooks around the run, the request, the model call, its tokens and every tool call.
//! * [`hooks`]: the hooks of this crate: files, their checkpoints, skills, memory, task lists,
//!   summaries, spans, sessions.
//! * [`subagent`] and [`tools::task`]: subagents by their type; [`Agent::as_tool`]: an agent as a
//!   tool; [`subagent::Handoffs`]: agents that hand the conversation over to each other.
//! * [`Session`]: a conversation that lasts longer than one run; [`session`]: the stores that keep
//!   it.
//! * [`backend`]: the files and commands that tools and hooks work on.
//! * [`RunHandle`] interrupts and steers a run, [`Responder`] answers its questions.
//! * [`testing`]: models that follow a script, for tests and examples without a network.
//!
//! # Errors
//!
//! There is one [`Error`], with a [`kind`](Error::kind) to act on. A run returns an `Err` only if
//! it ends with [`ExitReason::Error`], and [`Error::partial`] has its partial output. After a
//! limit on turns, money, tokens or time, an interrupt or a refusal it returns an `Ok` whose
//! [`RunOutput::end`] is the reason; if a response, a history or a request is too large, it returns
//! an `Err`. A [`TypedRun`](run::TypedRun) returns an `Err` whenever there is no value. A tool that
//! fails, panics or times out does not end the run: the model receives an error result. Secrets
//! ([`Secret`]) of at least twelve bytes are redacted in errors and log lines while they exist.
//!
//! # Cancel safety
//!
//! Dropping a [`Run`] cancels everything in it: the request, the tools, the subagents. What was
//! stored before stays, and calls without a result receive one when the session is loaded again.
//! Dropping the future of `run.next()` loses no message. Code in a hook after `next.run(..).await`
//! does not run if the run is dropped.
//!
//! # Runtime
//!
//! A run needs a tokio context with its timer, and providers its I/O driver; a current-thread
//! runtime is enough. The loop spawns no async task: it shares the task that polls it, so a tool
//! that computes for a long time belongs in `tokio::task::spawn_blocking`. The loop processes long
//! histories and results there as well, and stores and backends access files there; such work is
//! completed even if the run is dropped.
//!
//! # Features
//!
//! * `http` (default): `providers` and `HttpTool`.
//! * `tls` (default): https with rustls, ring and the system's certificates. It turns on reqwest's
//!   feature `rustls-no-provider` for the whole program, with which a reqwest client of your own
//!   panics when it is created. To create one, depend on reqwest with its feature `rustls`, or call
//!   `rustls::crypto::ring::default_provider().install_default()` at the start of the program. The
//!   clients of this crate need neither.
//! * `schema` (default): typed tools and typed output, with schemas derived by schemars.
//! * `tokens`: an exact token counter, with its vocabularies compiled in.
//! * `fs`: `backend::LocalBackend`, the files below one folder (Unix).
//! * `search`: finding files by path and by content in any backend.
//! * `process`: commands in a `LocalBackend`.
//! * `yaml`: permission rules in YAML, `hooks::SkillsHook`, and types of subagents in Markdown
//!   files (`SubagentRegistry::load_dir`).
//! * `sandbox`: `backend::Sandbox`, limits that the kernel enforces on the commands of a
//!   `LocalBackend` (Linux; on other systems, commands with a sandbox are refused).
//! * `tools`: tools for files, search and the shell, `hooks::FilesystemHook`, and questions at the
//!   terminal (`tools::ask`); it turns on `fs`, `search` and `process`.
//! * `web`: the tools `web_fetch` and `internet_search`, and the guard that keeps them out of
//!   private networks; it turns on `tls`.
//! * `calc`: the tool `calculate`.
//! * `time`: the tool `current_datetime`, and the module `prompt`: an agent's memory in files and,
//!   with `yaml`, `prompt::ContextBuilder`.
//! * `jsonl`: `session::JsonlStore`, sessions that outlive the process (Unix).
//! * `sqlite`: `session::SqliteStore`, such sessions in one database file (Unix).
//! * `postgres`, `redis`: `session::PostgresStore` and `session::RedisStore`, sessions on a server,
//!   which any machine can continue; over TLS with `tls`.
//! * `session-log`: `session::LogStore`, a durable store on top of your own storage.
//! * `otel`: `trace::OtelRecorder`, spans for OpenTelemetry.
//! * `gateway`: the module `gateway`, which connects chat channels with sessions; it turns on
//!   `tools`, `yaml` and `time`.
//! * `nats`: `gateway::NatsBus`, a bus that gateways on several machines share.
//! * `config`: the module `config`, agents from YAML and JSON files, and the module `registry`, one
//!   instance of each agent per user; it turns on `tools`, `yaml`, `schema` and `http`.
//! * `docker`: `backend::DockerBackend`, files and commands in a container (Unix).
//! * `server`: the module `server`, agents over HTTP with a page; it turns on `config` and `web`.
//! * `testing`: more of [`testing`], for `[dev-dependencies]`: recorded models, conformance suites
//!   and, with `http`, a server that injects faults.
//!
//! # Stability
//!
//! Before 1.0 a minor version may contain breaking changes, which `CHANGELOG.md` lists. Enums and
//! structs that follow a provider or a wire format are `#[non_exhaustive]`. The concrete type that
//! [`source`](std::error::Error::source) of an error returns is not part of the API. The wire form
//! of [`SdkMessage`] only gains fields and types.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod agent;
pub mod backend;
#[cfg(feature = "config")]
pub mod config;
mod engine;
mod error;
#[cfg(feature = "gateway")]
pub mod gateway;
pub mod hook;
pub mod hooks;
pub mod message;
pub mod model;
#[cfg(feature = "http")]
pub mod net;
pub mod permission;
#[cfg(any(feature = "time", feature = "yaml"))]
pub mod prompt;
#[cfg(feature = "http")]
pub mod providers;
#[cfg(feature = "config")]
pub mod registry;
pub mod run;
pub mod sdk;
#[cfg(feature = "server")]
pub mod server;
pub mod session;
pub mod subagent;
pub mod testing;
pub mod tool;
pub mod tools;
pub mod trace;
mod usage;
mod util;

pub use agent::{Agent, AgentBuilder, Decision, OnUnanswered, Session, UnfinishedTasks};
pub use async_trait::async_trait;
pub use error::{BoxError, Error, ErrorKind, Result};
pub use hook::{FnHook, Hook, Next, StopDecision};
pub use message::{
    AssistantMessage, Content, Message, Messages, Part, Role, Todo, TodoStatus, ToolCall,
    ToolResult,
};
pub use model::{Model, ModelEvent, ModelRequest, ModelResponse, ModelStream, StopReason};
pub use run::{ExitReason, Responder, Run, RunContext, RunHandle, RunOutput};
/// The crate that derives the schemas of arguments. The derive needs the name `schemars` in scope
/// (`use agentcore::schemars`), or `#[schemars(crate = "agentcore::schemars")]` on the type.
#[cfg(feature = "schema")]
pub use schemars;
pub use sdk::{PermissionRequest, SdkMessage, StreamEvent};
pub use serde_json;
pub use session::{AgentState, SessionStore, ThreadStore};
#[cfg(feature = "http")]
pub use tool::HttpTool;
pub use tool::{
    Answer, FuncTool, IntoToolResult, Json, PermissionMode, Tool, ToolContext, ToolDecision,
    ToolError, ToolOutput, ToolRegistry,
};
pub use usage::Usage;
pub use util::{Cancellation, Secret, Values, text};
/// The type of the ids in the stream.
pub use uuid::Uuid;

/// The code in the README, compiled and run.
#[cfg(all(doctest, feature = "schema"))]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
