//! Agents over HTTP (feature `server`): routes, streams and a page.
//!
//! [`Server`] builds an axum 0.8 router for an application, or serves on its own:
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
//! with its own cursor and encoder, in one of the formats of [`StreamFormat`]. A run therefore
//! continues when its reader leaves, and a reader that reconnects with `Last-Event-ID` continues
//! after that event.
//!
//! # Routes
//!
//! Parts in brackets are optional: without `{id}/` the agent is `default`. Bodies are
//! `application/json`, errors are `{"error": text}`. An unknown key in a body is a 400, except in
//! the bodies of AG-UI and the AI SDK. `/openapi.json` describes all routes.
//!
//! | route | method | |
//! |---|---|---|
//! | `/agents/`, `/agents/{id}` | GET, POST, DELETE | the agents; adding and removing is for admins |
//! | `/agents/[{id}/]invoke` | POST | runs an agent and returns its output |
//! | `/agents/[{id}/]stream` | POST | runs an agent and streams its messages |
//! | `/agents/[{id}/]resume` | POST | decides pending calls |
//! | `/agents/hitl/{id}` | POST | answers a question while its run waits |
//! | `/agents/{id}/threads` | GET | the user's threads |
//! | `/agents/{id}/threads/{t}` | GET, DELETE | a thread |
//! | `/agents/{id}/threads/{t}/events` | GET | the stream of its run, from `Last-Event-ID` on |
//! | `/agents/{id}/threads/{t}/{interrupt, steer, compact, mode, model}` | POST | stops or controls its run |
//! | `/agents/{id}/threads/{t}/{fork, title}` | POST | copies or names it |
//! | `/agents/{tools, skills, hooks}/available` | GET | the tools, skills and hooks of agents |
//! | `/agents/tools/{register, deregister/{name}}` | POST, DELETE | tools that the server calls over HTTP |
//! | `/agents/{id}/{flow, hooks, backend, container}` | GET, PATCH, POST | an agent's parts |
//! | `/agents/{id}/files/{list, read}`, `/agents/files/{download, upload}` | GET, POST | its workspace |
//! | `/agents/traces[/{id}]`, `/agents/messages/test`, `/agents/events` | GET | traces, a check, events |
//! | `/healthz`, `/openapi.json`, `/` | GET | health, description, page |
//!
//! # Running an agent
//!
//! In the application above, the routes begin with `/ai`. This streams a run of the agent
//! `default`:
//!
//! ```sh
//! curl -N http://127.0.0.1:8000/ai/agents/default/stream -H "Authorization: Bearer $AGENTS_TOKEN" \
//!   -H 'Content-Type: application/json' \
//!   -d '{"messages": [{"role": "user", "content": "Hi"}], "thread_id": "th_1", "input_id": "1"}'
//! ```
//!
//! `invoke` takes the same body and replies when the run has ended. Only `messages` is required. An
//! input that is sent again with the same `input_id` is processed once, and has the stored response
//! as its reply or in its stream. `"trace": false` records no trace. These are bodies of `steer`,
//! `mode`, `model`, `fork` and `title`:
//!
//! ```json
//! {"content": "Look in src, too.", "input_id": "2"}
//! {"mode": "plan"}
//! {"model": "anthropic:claude-sonnet-5"}
//! {"at": 4}
//! {"title": "Release notes"}
//! ```
//!
//! `interrupt` and `compact` need no body, and `fork` without one copies all messages.
//!
//! # Threads
//!
//! `thread_id` in the body of a run continues a thread. Without one, the server creates a thread
//! with an unguessable id: it is in the header `x-thread-id` of a stream, in the first event of the
//! format `events` and in `done`, as `session_id` in `sdk`, and in the reply to `invoke`. A client
//! may choose the id of a new thread, but all users of a store share one set of ids: the id of
//! another user's thread is a 404.
//!
//! Threads belong to a user, not to an agent: agents that share a store ([`Server::store`],
//! `sessions` of a configuration) share the threads of each user, and the list of each agent
//! includes all threads. A run of another agent continues the same conversation with its own tools
//! and permissions. A run in progress is shown, streamed and controlled through each of these
//! agents. Only the agent that asked about a call can resume it; any other answers 409.
//!
//! # Stopping and reconnecting
//!
//! `POST /agents/{id}/threads/{t}/interrupt` stops the run of a thread; closing its stream does not
//! ([`OnDisconnect`]). The stream then ends with an `error` whose `reason` is `aborted_streaming`
//! or `aborted_tools`; any other `reason` means that the run failed or reached a limit.
//!
//! `GET /agents/{id}/threads/{t}/events` opens the stream of the run again. With `Last-Event-ID`,
//! the id of the last event that was received, the stream continues there. If the log no longer has
//! that event, or the value is not an id, the stream begins with the event `state` (in AG-UI:
//! snapshots), which replaces everything received so far; the events of the run follow. The reply
//! is a 204 if no run is in progress and the log of the last one was removed
//! ([`RunLimits::keep_log`]) or is in another process. In the format of the AI SDK, a request
//! without an id also gets a 204 once the run has ended.
//!
//! # Approvals
//!
//! For a call that needs approval, the stream emits an `on_permission_request` (`sdk`:
//! `permission_request`), and the run waits for [`Server::ask_wait`]. Meanwhile,
//! `POST /agents/hitl/{id}` with the `id` of the question answers it:
//!
//! ```json
//! {"answer": "allow"}
//! {"answer": "allow_for_session"}
//! {"answer": "edit", "args": {"path": "b.txt"}}
//! {"answer": "deny", "message": "Not on a Friday."}
//! {"picked": [0], "text": "or in one's own words"}
//! ```
//!
//! After that time, or at once in the formats of AG-UI and the AI SDK, the call is stored and the
//! run ends. `POST /agents/resume` decides the call within 24 hours, or within the agent's shorter
//! [`approval_expiry`](crate::AgentBuilder::approval_expiry), even after a restart, with the `id`
//! and the `args_hash` from `pending` of the thread or of the run's reply:
//!
//! ```json
//! {"thread_id": "th_1", "decisions": [{"id": "pending_1", "args_hash": "9f0a", "decision": "allow"}]}
//! ```
//!
//! The other keys of a decision are the keys of an answer; a `reply` has `text` or `picked`. Both
//! routes accept `answer` and `decision` alike. In a list of threads, `pending` is the number of
//! pending calls. `interrupted` is true in the reply of a run that ended because calls are pending,
//! and in a thread only if its last run ended without a response, or with a partial one: it was
//! stopped, its process ended, it failed, or it reached a limit.
//!
//! # Security
//!
//! * Every request except for the page and `/healthz` needs the token ([`Server::token`]) or a user
//!   of the application's login ([`Server::users`]). A request reaches only the threads, runs,
//!   questions, traces, files and tools of its own user; the server answers 404 for objects of
//!   other users.
//! * Requests to a foreign host, or from a page of a foreign origin, are a 403, so that no other
//!   site reaches the server through a browser ([`Server::allow_host`], [`Server::allow_origin`]).
//! * Bodies, headers, connections, runs and streams are limited ([`ServerLimits`]).
//! * Tools registered by clients are called only at public addresses ([`Server::callbacks`]).
//!
#![doc = include_str!("../../docs/clients.md")]
//!
#![doc = include_str!("../../docs/replicas.md")]

mod api;
mod app;
mod auth;
mod bounded_recorder;
mod error;
mod handle;
mod json;
mod large_reply;
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
mod silent_connections;
mod stream;
mod stream_reply;
mod traces;
mod uploads;
mod users;
mod values;
mod write_timeout;

pub use handle::ServerHandle;
pub use limits::ServerLimits;
pub use runs::{OnDisconnect, RunLimits};
pub use serve::Listening;
pub use server::Server;
pub use stream::{Encoder, EncoderOptions, SseEvent, StreamFormat};
pub use users::User;
