//! Sessions and their stores.
#![allow(clippy::unwrap_used, unreachable_pub)]

#[path = "../kit/mod.rs"]
mod kit;

#[cfg(all(feature = "nats", feature = "postgres", feature = "redis", unix))]
mod killed_gateways;
#[cfg(feature = "nats")]
mod nats_bus;
mod session_owners;
mod session_pages;
mod session_stores;
mod sessions;
mod store_default;
