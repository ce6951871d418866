//! Sessions on a Redis server.

mod address;
mod connection;
mod reply;
mod scripts;
mod server;
mod socket;
mod store;
#[cfg(feature = "tls")]
mod tls;

pub use store::RedisStore;
