//! Logs on a server, which many machines may write: connections, leases that expire, and calls
//! that may be repeated.

#[cfg(feature = "redis")]
mod connect;
mod joined_log;
mod lease_keeper;
mod log;
mod lookup;
mod options;
mod pool;
mod server;

#[cfg(all(feature = "redis", unix))]
pub(super) use connect::with_timeout;
#[cfg(feature = "redis")]
pub(super) use connect::{connect_host, connection_lost};
#[cfg(feature = "postgres")]
pub(super) use joined_log::JoinedLog;
pub(super) use log::RemoteLog;
#[cfg(feature = "postgres")]
pub(super) use lookup::Lookup;
pub use options::ServerOptions;
#[cfg(feature = "postgres")]
pub(super) use server::{DamagedPiece, PIECE};
pub(super) use server::{
    Failure, IdPage, LeaseKey, Outcome, Removal, Server, ServerPiece, ServerRepair, ServerTail,
    scrub, timeout_for,
};
