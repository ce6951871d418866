//! Sessions in a PostgreSQL database.

mod address;
mod connection;
mod hosts;
mod schema;
mod server;
mod store;
#[cfg(feature = "tls")]
mod tls;

pub use store::PostgresStore;
