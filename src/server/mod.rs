//! Agents over HTTP (feature `server`): routes, streams and a page.
//!
//! [`Server`] makes a router of axum 0.8 for an application, or serves by itself:
//!
//! ```no_run
//! use agentcore::{Secret, server::Server};
//! use axum::{Router, routing::get};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let token = Secret::new(std::env::var("AGENTS_TOKEN")?);
//! let agents = Server::new().config("agents.yaml")?.token(token);
//! let handle = agents.handle();
//! let app = Router::new().route("/", get(|| async { "home" })).nest("/ai", agents.router()?);
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:8000").await?;
//! let stop = async move {
//!     // Or a signal.
//!     std::future::pending::<()>().await;
//!     handle.shutdown(std::time::Duration::from_secs(10)).await
//! };
//! axum::serve(listener, app).with_graceful_shutdown(stop).await?;
//! # Ok(())
//! # }
//! ```
//!
//! A *thread* is a [session](crate::Session) of an agent and a user. A *client* sends requests; a
//! *reader* is a connection that follows a run.
//!
//! A run is one task that appends every message to a bounded log. Each connection reads the log
//! with a cursor and an encoder of its own, in one of the formats of [`StreamFormat`]. So a run
//! continues when its reader leaves, and a reader that returns with `Last-Event-ID` continues after
//! that event.
//!
//! # Routes
//!
//! A part in brackets may be left out: without `{id}/` the agent is `default`. Bodies are
//! `application/json`, errors are `{"error": text}`. `/openapi.json` describes all routes.
//!
//! | route | method | |
//! |---|---|---|
//! | `/agents/`, `/agents/{id}` | GET, POST, DELETE | the agents; adding and removing is for admins |
//! | `/agents/[{id}/]invoke` | POST | runs an agent and returns its output |
//! | `/agents/[{id}/]stream` | POST | runs an agent and streams its messages |
//! | `/agents/[{id}/]resume` | POST | decides about calls that wait |
//! | `/agents/hitl/{id}` | POST | answers a question while its run waits |
//! | `/agents/{id}/threads` | GET | the user's threads |
//! | `/agents/{id}/threads/{t}` | GET, DELETE | a thread |
//! | `/agents/{id}/threads/{t}/events` | GET | the stream of its run, from `Last-Event-ID` on |
//! | `/agents/{id}/threads/{t}/{interrupt, steer, compact, mode, model}` | POST | controls its run |
//! | `/agents/{id}/threads/{t}/{fork, title}` | POST | copies or names it |
//! | `/agents/{tools, skills, hooks}/available` | GET | the tools, skills and hooks of agents |
//! | `/agents/tools/{register, deregister/{name}}` | POST, DELETE | tools that the server calls over HTTP |
//! | `/agents/{id}/{flow, hooks, backend, container}` | GET, PATCH, POST | an agent's parts |
//! | `/agents/{id}/files/{list, read}`, `/agents/files/{download, upload}` | GET, POST | its workspace |
//! | `/agents/traces[/{id}]`, `/agents/messages/test`, `/agents/events` | GET | traces, a check, events |
//! | `/healthz`, `/openapi.json`, `/` | GET | health, description, page |
//!
//! # Approvals
//!
//! For a call that needs approval, the stream has a `permission_request`, and the run waits for
//! [`Server::ask_wait`]. Until then, `POST /agents/hitl/{id}` answers it. Afterwards, or at once in
//! the formats of AG-UI and the AI SDK, the call is stored and the run ends; `POST /agents/resume`
//! decides about the call within 24 hours, also after a restart.
//!
//! # Security
//!
//! * Every request except those for the page and `/healthz` needs the token ([`Server::token`]) or
//!   a user of the application's login ([`Server::users`]). A request reaches only the threads,
//!   runs, questions, traces, files and tools of its own user; those of others are a 404.
//! * Requests to a foreign host, or from a page of a foreign origin, are a 403, so that no other
//!   site reaches the server through a browser ([`Server::allow_host`], [`Server::allow_origin`]).
//! * Bodies, headers, connections, runs and streams are limited ([`ServerLimits`]).
//! * Tools that clients register are called only at public addresses ([`Server::callbacks`]).
//!
#![doc = include_str!("../../docs/replicas.md")]

mod api;
mod app;
mod auth;
mod error;
mod handle;
mod json;
mod limits;
mod openapi;
mod origin;
mod page;
mod random;
mod router;
mod routes;
mod runs;
mod serve;
#[expect(clippy::module_inception, reason = "the type has the module's name")]
mod server;
mod stream;
mod stream_reply;
mod traces;
mod uploads;
mod users;
mod write_timeout;

pub use handle::ServerHandle;
pub use limits::ServerLimits;
pub use runs::{OnDisconnect, RunLimits};
pub use serve::Listening;
pub use server::Server;
pub use stream::{Encoder, EncoderOptions, SseEvent, StreamFormat};
pub use users::User;
