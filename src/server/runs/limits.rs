//! The limits of the server's runs.

use std::time::Duration;

/// The action for a run whose readers have all left.
///
/// ```
/// use agentcore::server::OnDisconnect;
///
/// assert_eq!(OnDisconnect::default(), OnDisconnect::Detach);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnDisconnect {
    /// The run continues, and readers may reconnect to it.
    #[default]
    Detach,
    /// The run is interrupted 5 seconds after its last reader left.
    Interrupt,
}

/// The limits of runs, their logs and their readers.
///
/// # Memory
///
/// Readers need little memory: a stream buffers one message, whose bytes are limited for each user,
/// and makes the next message once the client has read it. Runs need more. A run buffers the
/// response that it receives, of up to 16 MiB ([`ResponseLimits`](crate::model::ResponseLimits)).
/// After the end of the run, its last response is in memory up to four times until its log is
/// removed. Eight runs of a user whose model never stops take about 450 MB. A server with little
/// memory needs lower limits of runs and responses.
///
/// ```
/// use agentcore::server::RunLimits;
///
/// let limits = RunLimits::default().with_runs(16, 2);
/// assert_eq!((limits.runs, limits.runs_per_user), (16, 2));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunLimits {
    /// The maximum number of runs in progress; a further run gets a 429. Defaults to 64.
    pub runs: usize,
    /// The maximum number of runs in progress of one user; a further run gets a 429. Defaults to 8.
    pub runs_per_user: usize,
    /// The maximum number of open streams of one user; a further stream gets a 429. Defaults to
    /// 1,024.
    pub readers_per_user: usize,
    /// The maximum size of the bytes that are written for one user and not sent yet, of the open
    /// streams and of the replies with files and threads. Each stream has 64 KiB in addition. A
    /// stream waits for space; a message or the state of a thread that is larger than the limit
    /// takes all of it. A reply waits for at most 30 seconds and is a 429 then. Defaults to 64 MiB.
    /// A value over 512 MiB counts as 512 MiB.
    pub reader_bytes_per_user: usize,
    /// The maximum number of messages in the log of a run; beyond it, the oldest messages are
    /// removed. Defaults to 10,000.
    pub log_messages: usize,
    /// The maximum size of the messages in the log of a run, as JSON, in bytes; beyond it, the
    /// oldest messages are removed. Defaults to 4 MiB.
    pub log_bytes: usize,
    /// The time after the end of a run until its log is removed. It is removed earlier if another
    /// run of the thread begins, or if there are more logs of ended runs than [`runs`](Self::runs),
    /// or if these take more than 256 MiB with the states of their threads: then the oldest log of
    /// the user with the most. A shutdown of the server removes all. Defaults to 10 minutes.
    pub keep_log: Duration,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self {
            runs: 64,
            runs_per_user: 8,
            readers_per_user: 1_024,
            reader_bytes_per_user: 64 * 1024 * 1024,
            log_messages: 10_000,
            log_bytes: 4 * 1024 * 1024,
            keep_log: Duration::from_secs(600),
        }
    }
}

impl RunLimits {
    /// Sets the maximum number of runs in progress, in all and of one user.
    #[must_use]
    pub fn with_runs(mut self, runs: usize, runs_per_user: usize) -> Self {
        self.runs = runs;
        self.runs_per_user = runs_per_user;
        self
    }

    /// Sets the maximum number of open streams of one user.
    #[must_use]
    pub fn with_readers_per_user(mut self, readers: usize) -> Self {
        self.readers_per_user = readers;
        self
    }

    /// Sets the maximum size of the bytes that the streams and large replies of one user have
    /// written and not sent.
    #[must_use]
    pub fn with_reader_bytes_per_user(mut self, bytes: usize) -> Self {
        self.reader_bytes_per_user = bytes;
        self
    }

    /// Sets the limits of a run's log: the number of messages, and their size as JSON in bytes.
    #[must_use]
    pub fn with_log(mut self, messages: usize, bytes: usize) -> Self {
        self.log_messages = messages;
        self.log_bytes = bytes;
        self
    }

    /// Sets the time after the end of a run until its log is removed.
    #[must_use]
    pub fn with_keep_log(mut self, time: Duration) -> Self {
        self.keep_log = time;
        self
    }
}
