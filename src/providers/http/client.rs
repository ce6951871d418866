//! The HTTP clients every provider shares.

use std::time::Duration;

use crate::util::http_client::{self, ClientResult, Clients, Scheme};

/// The default of the time limit for making a connection.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The time for which an unused connection is kept.
const POOL_IDLE: Duration = Duration::from_secs(90);

/// Returns the client for this scheme and connect timeout that all callers in one runtime share. It
/// is built at its first use, so that only programs that need the system's certificates read them.
/// Each connect timeout has its own client, because the timeout belongs to the connection pool.
pub(super) fn client(scheme: Scheme, connect_timeout: Duration) -> ClientResult {
    static SHARED: Clients<(Scheme, Duration)> = Clients::new();

    SHARED.get((scheme, connect_timeout), || {
        build(scheme, connect_timeout, usize::MAX)
    })
}

/// Returns a client like that of [`client`] that makes a new connection for each request.
pub(super) fn unpooled_client(scheme: Scheme, connect_timeout: Duration) -> ClientResult {
    static SHARED: Clients<(Scheme, Duration)> = Clients::new();

    SHARED.get((scheme, connect_timeout), || {
        build(scheme, connect_timeout, 0)
    })
}

/// Builds a client that keeps at most `max_idle` unused connections to a server. It has no total
/// timeout, because a healthy stream may take an hour.
fn build(scheme: Scheme, connect_timeout: Duration, max_idle: usize) -> ClientResult {
    http_client::builder(scheme)
        .map_err(|error| error.to_string())?
        .connect_timeout(connect_timeout)
        .pool_idle_timeout(POOL_IDLE)
        .pool_max_idle_per_host(max_idle)
        .tcp_nodelay(true)
        .tcp_keepalive(Duration::from_secs(60))
        .build()
        .map_err(|error| format!("the HTTP client could not be set up: {error}"))
}
