//! The HTTP server: its streams.
#![allow(clippy::unwrap_used, unreachable_pub)]

mod streams;
