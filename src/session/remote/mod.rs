//! Logs on a server, which many machines may write: connections, leases that expire, and calls
//! that may be repeated.

mod keeper;
mod log;
mod options;
mod pool;
mod server;

pub(super) use log::Remote;
pub use options::ServerOptions;
pub(super) use server::{Contents, Failure, Held, Kept, Outcome, Server};
