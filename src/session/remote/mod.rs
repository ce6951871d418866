//! Logs on a server, which many machines may write: connections, leases that expire, and calls
//! that may be repeated.

mod keeper;
mod log;
mod options;
mod pool;
#[cfg(feature = "redis")]
mod reach;
mod server;

pub(super) use log::Remote;
pub use options::ServerOptions;
#[cfg(feature = "redis")]
pub(super) use reach::reach;
pub(super) use server::{Contents, Failure, Held, Kept, Outcome, Server};
