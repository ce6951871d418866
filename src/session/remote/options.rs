//! The options of a store on a server.

use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};

/// The maximum length of a prefix, in bytes: the name of a table may have 63.
const MAX_PREFIX: usize = 40;
/// The shortest lease. A shorter lease could expire while a busy machine pauses.
const MIN_LEASE: Duration = Duration::from_millis(100);
/// The maximum value of each duration.
const MAX_TIME: Duration = Duration::from_secs(24 * 60 * 60);

/// The options of a store on a server: the names of its data, its timeouts and its connections.
///
/// # Leases
///
/// A lease expires, by the clock of the server, if it is not renewed: 30 seconds after its process
/// has died, any machine can continue the session ([`lease_time`](Self::lease_time)). A thread of
/// the store renews leases until they are dropped, and then releases them. The release takes a
/// moment; another machine waits that long before it reports
/// [`SessionBusy`](ErrorKind::SessionBusy). Dropping the last clone of the store waits up to two
/// seconds until its leases are released. Inside a tokio runtime, no task waits for this, but the
/// drop of the runtime does, as at the end of `#[tokio::main]`. `std::process::exit` does not wait.
///
/// A process that was paused for longer can continue if the session was not leased by another one
/// since. Otherwise its writes are refused with [`Conflict`](ErrorKind::Conflict): every write has
/// the token of its lease, and is made only if the log ends where the writer expects.
///
/// # Retries
///
/// Every call is retried for some seconds ([`max_retry_time`](Self::max_retry_time)) and then
/// fails. If the reply to a write was lost, the store checks whether the write was made before it
/// repeats it, so that nothing is written twice. A call to a server that hangs ends after
/// [`timeout`](Self::timeout).
///
/// ```
/// use std::time::Duration;
/// use agentcore::session::ServerOptions;
///
/// let options = ServerOptions::default()
///     .prefix("shop")
///     .lease_time(Duration::from_secs(60))
///     .max_connections(16);
/// ```
#[derive(Clone, Debug)]
pub struct ServerOptions {
    pub(in crate::session) prefix: String,
    pub(in crate::session) lease_time: Duration,
    pub(in crate::session) timeout: Duration,
    pub(in crate::session) max_retry_time: Duration,
    pub(in crate::session) max_connections: usize,
    pub(in crate::session) max_session_bytes: u64,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            prefix: "agentcore".into(),
            lease_time: Duration::from_secs(30),
            timeout: Duration::from_secs(10),
            max_retry_time: Duration::from_secs(10),
            max_connections: 8,
            max_session_bytes: 256 * 1024 * 1024,
        }
    }
}

impl ServerOptions {
    /// Sets the prefix of the names of all tables or keys. Defaults to `agentcore`. Applications
    /// that share a server use different prefixes: `a` to `z`, digits and `_`, 40 at most, with a
    /// letter first.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Sets the time after which a lease expires that is not renewed, at least 100 milliseconds.
    /// Defaults to 30 seconds. The store renews leases after a third of that time, until they are
    /// dropped. The time should be at least three times the [`timeout`](Self::timeout), so that a
    /// renewal that hangs is repeated before the lease expires.
    #[must_use]
    pub fn lease_time(mut self, time: Duration) -> Self {
        self.lease_time = time;
        self
    }

    /// Sets the time limit of one call of the server, and the time limit for connecting. Beyond it,
    /// the connection is closed. Defaults to 10 seconds. The time for connecting includes TLS and
    /// the login, and all hosts and addresses share it. Calls that write or read have one more
    /// second for each 256 KiB.
    #[must_use]
    pub fn timeout(mut self, time: Duration) -> Self {
        self.timeout = time;
        self
    }

    /// Sets how long a call is retried, on new connections, when the server does not answer or
    /// cannot be reached. Defaults to 10 seconds. A name that is not found is looked up twice at
    /// most. No retry begins after that time, but each step of the last one may still take a
    /// [`timeout`](Self::timeout). Before the first try, a call waits for a free connection, at
    /// most for both times together.
    #[must_use]
    pub fn max_retry_time(mut self, time: Duration) -> Self {
        self.max_retry_time = time;
        self
    }

    /// Sets the number of connections that the sessions share. Defaults to 8. Leases are renewed on
    /// one more.
    #[must_use]
    pub fn max_connections(mut self, count: usize) -> Self {
        self.max_connections = count;
        self
    }

    /// Sets the limit of one session's log in bytes. Defaults to 256 MiB. A log has all records of
    /// its session, and snapshots, from the last of which on it is read. One is added when a run
    /// opens a log that has grown by the size of the last one, at least by 1 MiB (on a Redis server
    /// by 8 MiB).
    ///
    /// A session over the limit is neither read nor written; the [`Io`](ErrorKind::Io) error names
    /// its size and this option. A write that would exceed the limit is refused, and the session
    /// stays readable: [`fork`](crate::SessionStore::fork) copies it to a new id, whose log
    /// has only the present state and takes more writes. An
    /// [`export`](crate::SessionStore::export) that is [imported](crate::SessionStore::import)
    /// under a new id has the same effect.
    ///
    /// The memory of a session is limited, too: to a third of this limit, or to 16 MiB if that is
    /// more, as estimated from the text of its records before they are parsed. A log is read piece
    /// by piece. No record may exceed 64 MiB: a write of one is refused, and a longer line is
    /// damage.
    #[must_use]
    pub fn max_session_bytes(mut self, bytes: u64) -> Self {
        self.max_session_bytes = bytes;
        self
    }

    /// Checks the options.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Config`] if an option is not valid.
    pub(in crate::session) fn check(&self) -> Result<()> {
        let is_letter = |c: char| c.is_ascii_lowercase();
        let is_named = self.prefix.starts_with(is_letter)
            && self.prefix.len() <= MAX_PREFIX
            && self
                .prefix
                .chars()
                .all(|c| is_letter(c) || c.is_ascii_digit() || c == '_');
        let problem = if !is_named {
            format!(
                "the prefix {:?} is not valid: it takes a to z, digits and `_`, {MAX_PREFIX} at most, \
                 with a letter first",
                self.prefix
            )
        } else if self.lease_time < MIN_LEASE {
            format!(
                "leases must last at least {MIN_LEASE:?}, not {:?}",
                self.lease_time
            )
        } else if [self.lease_time, self.timeout, self.max_retry_time]
            .iter()
            .any(|time| *time > MAX_TIME)
        {
            format!("no time may be longer than {MAX_TIME:?}")
        } else if self.timeout.is_zero() {
            "the timeout must not be zero".into()
        } else if self.max_connections == 0 {
            "a store needs at least one connection".into()
        } else {
            return Ok(());
        };

        Err(Error::new(ErrorKind::Config, problem))
    }
}
