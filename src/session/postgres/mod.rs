//! Sessions in a PostgreSQL database.

mod address;
mod bounded;
mod connection;
mod failure;
mod hosts;
mod rows;
mod schema;
mod server;
mod socket;
mod store;
#[cfg(feature = "tls")]
mod tls;

pub use store::PostgresStore;
