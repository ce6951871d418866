//! How a store on a server goes about it.

use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};

/// The longest prefix; names of tables may have 63 bytes.
const MAX_PREFIX: usize = 40;
/// Leases that are shorter end while a busy machine takes a breath.
const MIN_LEASE: Duration = Duration::from_millis(100);
/// The longest of all times.
const MAX_TIME: Duration = Duration::from_secs(24 * 60 * 60);

/// How a store on a server names its data, waits and gives up.
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
    pub(in crate::session) patience: Duration,
    pub(in crate::session) max_connections: usize,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            prefix: "agentcore".into(),
            lease_time: Duration::from_secs(30),
            timeout: Duration::from_secs(10),
            patience: Duration::from_secs(10),
            max_connections: 8,
        }
    }
}

impl ServerOptions {
    /// What the names of all tables or keys begin with: applications that share a server use
    /// different ones. `a` to `z`, digits and `_`, at most 40, a letter first. `agentcore` unless
    /// set.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// How long a session stays leased to a machine that is gone. The store renews its leases
    /// three times as often while they are held. 30 seconds unless set, 100 milliseconds at least.
    #[must_use]
    pub fn lease_time(mut self, time: Duration) -> Self {
        self.lease_time = time;
        self
    }

    /// How long the server may be silent, and a connection take to come up, before the connection
    /// is given up. 10 seconds unless set.
    #[must_use]
    pub fn timeout(mut self, time: Duration) -> Self {
        self.timeout = time;
        self
    }

    /// How long a call is tried again, on new connections, when the server does not answer or is
    /// not reached. No try begins after that; each step of the last one may still take a
    /// [`timeout`](Self::timeout), and before the first a call waits as long for a free connection.
    /// 10 seconds unless set.
    #[must_use]
    pub fn patience(mut self, time: Duration) -> Self {
        self.patience = time;
        self
    }

    /// How many connections sessions share; leases are renewed on one more. 8 unless set.
    #[must_use]
    pub fn max_connections(mut self, count: usize) -> Self {
        self.max_connections = count;
        self
    }

    /// # Errors
    ///
    /// [`ErrorKind::Config`] when this cannot work.
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
                "the prefix {:?} is not made of a to z, digits and `_`, {MAX_PREFIX} at most, a \
                 letter first",
                self.prefix
            )
        } else if self.lease_time < MIN_LEASE {
            format!(
                "leases must last {MIN_LEASE:?} at least, not {:?}",
                self.lease_time
            )
        } else if [self.lease_time, self.timeout, self.patience]
            .iter()
            .any(|time| *time > MAX_TIME)
        {
            format!("no time may be longer than {MAX_TIME:?}")
        } else if self.timeout.is_zero() {
            "the timeout must not be zero".into()
        } else if self.max_connections == 0 {
            "a store needs a connection at least".into()
        } else {
            return Ok(());
        };
        Err(Error::new(ErrorKind::Config, problem))
    }
}
