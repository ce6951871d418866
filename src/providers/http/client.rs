//! The HTTP clients every provider shares.

use std::sync::OnceLock;
use std::time::Duration;

use crate::util::http_client;

/// How long a connection may take to be made, unless an endpoint says otherwise.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an unused connection is kept.
const POOL_IDLE: Duration = Duration::from_secs(90);

/// A client, or why there is none.
pub(super) type Built = Result<reqwest::Client, String>;

/// A client for `https`, or for plain `http`.
///
/// With the default connect timeout it is the process's shared one, built at its first use:
/// the system's certificates are read only by programs that need them. Any other timeout makes
/// a client of its own, because the timeout belongs to the connection pool.
pub(super) fn client(secure: bool, connect_timeout: Duration) -> Built {
    static PLAIN: OnceLock<Built> = OnceLock::new();
    static SECURE: OnceLock<Built> = OnceLock::new();

    if connect_timeout != CONNECT_TIMEOUT {
        return build(secure, connect_timeout);
    }
    let slot = if secure { &SECURE } else { &PLAIN };
    slot.get_or_init(|| build(secure, connect_timeout)).clone()
}

/// No total timeout, because a healthy stream may take an hour.
fn build(secure: bool, connect_timeout: Duration) -> Built {
    http_client::builder(secure)
        .map_err(|error| error.to_string())?
        .connect_timeout(connect_timeout)
        .pool_idle_timeout(POOL_IDLE)
        .tcp_nodelay(true)
        .tcp_keepalive(Duration::from_secs(60))
        .build()
        .map_err(|error| format!("the HTTP client could not be set up: {error}"))
}
