//! The options of a bus.

use std::fmt;
use std::time::Duration;

use crate::error::Result;
use crate::util::Secret;

use super::failure::invalid;

const MAX_PREFIX: usize = 64;
const MIN_ACK_WAIT: Duration = Duration::from_secs(1);
const MAX_ACK_WAIT: Duration = Duration::from_secs(60 * 60);

/// The options of a [`NatsBus`](super::NatsBus).
///
/// ```
/// use std::time::Duration;
/// use agentcore::gateway::NatsOptions;
///
/// let options = NatsOptions::default()
///     .prefix("shop")
///     .ack_wait(Duration::from_secs(60));
/// # let _ = options;
/// ```
#[derive(Clone)]
pub struct NatsOptions {
    pub(super) prefix: String,
    pub(super) ack_wait: Duration,
    pub(super) max_bytes: u64,
    pub(super) replicas: usize,
    pub(super) credentials: Option<Secret>,
    pub(super) max_retry_time: Duration,
}

impl Default for NatsOptions {
    fn default() -> Self {
        Self {
            prefix: "agentcore".to_owned(),
            ack_wait: Duration::from_secs(30),
            max_bytes: 1 << 30,
            replicas: 1,
            credentials: None,
            max_retry_time: Duration::from_secs(30),
        }
    }
}

impl NatsOptions {
    /// Sets the prefix of the names of streams and subjects. Defaults to `agentcore`. Applications
    /// that share a server use different prefixes: 1 to 64 of letters, digits, `_` and `-`.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Sets the time after which a message is delivered again when its receiver is gone, from one
    /// second to an hour. Defaults to 30 seconds. A receiver reports at intervals of a third of
    /// this time that it is at work. If it was killed, its lease of the session must expire as well
    /// before the message is processed; see the
    /// [lease time](crate::session::ServerOptions::lease_time) of the session's store.
    #[must_use]
    pub fn ack_wait(mut self, time: Duration) -> Self {
        self.ack_wait = time;
        self
    }

    /// Sets the maximum bytes of messages that the server stores for each direction, at least 1.
    /// Defaults to 1 GiB. Publishing waits for space. Streams that exist already keep their limits.
    #[must_use]
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Sets the number of servers of a cluster that store each message, at most 5. Defaults to 1.
    /// Streams that exist already keep theirs.
    #[must_use]
    pub fn replicas(mut self, count: usize) -> Self {
        self.replicas = count;
        self
    }

    /// Sets the content of a credentials file, with a JWT and the seed of an NKey.
    #[must_use]
    pub fn credentials(mut self, credentials: Secret) -> Self {
        self.credentials = Some(credentials);
        self
    }

    /// Sets the time for which a request is repeated when the server does not answer; after that it
    /// fails. Defaults to 30 seconds. A gateway spends at most 5 minutes on publishing a message in
    /// a turn, even if this time is longer.
    #[must_use]
    pub fn max_retry_time(mut self, time: Duration) -> Self {
        self.max_retry_time = time;
        self
    }

    /// Checks the options.
    ///
    /// # Errors
    ///
    /// Returns [`Config`](crate::ErrorKind::Config) if an option is not valid.
    pub(super) fn check(&self) -> Result<()> {
        let prefix = &self.prefix;
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if !(1..=MAX_PREFIX).contains(&prefix.len()) || !prefix.bytes().all(is_allowed) {
            let prefix: String = prefix.chars().take(MAX_PREFIX + 1).collect();
            let text = format!(
                "{prefix:?} is not a prefix of a NATS bus; use 1 to {MAX_PREFIX} of A-Z a-z 0-9 _ -"
            );
            return Err(invalid(text));
        }
        if !(MIN_ACK_WAIT..=MAX_ACK_WAIT).contains(&self.ack_wait) {
            let time = self.ack_wait;
            let text = format!("the ack_wait of a NATS bus cannot be {time:?}; use 1 s to 1 h");
            return Err(invalid(text));
        }
        if self.max_bytes == 0 {
            // The server would take it for no limit.
            let text = "the max_bytes of a NATS bus cannot be 0; use at least 1";
            return Err(invalid(text.to_owned()));
        }
        if !(1..=5).contains(&self.replicas) {
            let count = self.replicas;
            return Err(invalid(format!(
                "a NATS bus cannot have {count} replicas; use 1 to 5"
            )));
        }
        Ok(())
    }
}

impl fmt::Debug for NatsOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsOptions")
            .field("prefix", &self.prefix)
            .field("ack_wait", &self.ack_wait)
            .field("max_bytes", &self.max_bytes)
            .field("replicas", &self.replicas)
            .field("max_retry_time", &self.max_retry_time)
            .finish_non_exhaustive()
    }
}
