//! Configuration files, the registry of agents, and the HTTP server.
#![allow(clippy::unwrap_used, unreachable_pub)]

#[path = "../kit/mod.rs"]
mod kit;

#[cfg(feature = "server")]
mod agents;
mod config;
#[cfg(feature = "server")]
mod http;
#[cfg(feature = "server")]
mod limits;
#[cfg(feature = "server")]
mod nesting;
mod registry;
#[cfg(feature = "server")]
mod routes;
#[cfg(feature = "server")]
mod security;
#[cfg(feature = "server")]
mod shutdown;
#[cfg(feature = "server")]
mod streams;
