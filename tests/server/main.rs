//! Configuration files, the registry of agents, and the HTTP server.
#![allow(clippy::unwrap_used, unreachable_pub)]

#[path = "../kit/mod.rs"]
mod kit;

mod agents;
mod config;
mod http;
mod limits;
mod nesting;
mod processes;
mod programs;
mod registry;
mod routes;
mod security;
mod shutdown;
mod streams;
