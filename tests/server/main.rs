//! Configuration files, the registry of agents, and the HTTP server.
#![allow(clippy::unwrap_used, unreachable_pub)]

#[path = "../kit/mod.rs"]
mod kit;

mod config;
mod registry;
#[cfg(feature = "server")]
mod streams;
