//! Logs on a server, which many machines may write: connections, leases that expire, and calls
//! that may be repeated.

mod keeper;
mod log;
mod names;
mod options;
mod pool;
#[cfg(feature = "redis")]
mod reach;
mod server;

pub(super) use log::Remote;
#[cfg(feature = "postgres")]
pub(super) use names::LookUp;
pub use options::ServerOptions;
#[cfg(all(feature = "redis", unix))]
pub(super) use reach::within;
#[cfg(feature = "redis")]
pub(super) use reach::{lost, reach};
pub(super) use server::{Contents, Failure, Held, Kept, Outcome, Removal, Server, time_for};
