//! Sessions and their stores.
#![allow(clippy::unwrap_used, unreachable_pub)]

#[path = "../kit/mod.rs"]
mod kit;

mod session_owners;
mod session_pages;
mod session_stores;
mod sessions;
mod store_default;
