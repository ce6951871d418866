//! Configuration files and the registry of agents.
#![allow(clippy::unwrap_used, unreachable_pub)]

#[path = "../kit/mod.rs"]
mod kit;

mod config;
mod registry;
