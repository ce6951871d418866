//! The limits of the server's runs.

use std::time::Duration;

/// The action on a run whose readers have all left.
///
/// ```
/// use agentcore::server::OnDisconnect;
///
/// assert_eq!(OnDisconnect::default(), OnDisconnect::Detach);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnDisconnect {
    /// The run continues, and readers may come back to it.
    #[default]
    Detach,
    /// The run is interrupted 5 seconds after its last reader left.
    Interrupt,
}

/// The limits of runs, their logs and their readers.
///
/// # Memory
///
/// A stream has one message in memory, and makes the bytes of the next one once the client has read
/// it; those of a user's streams are limited together. Runs take more. A run has the answer that it
/// receives, of up to 16 MiB ([`ResponseLimits`](crate::model::ResponseLimits)). When it has ended,
/// its last answer is in memory up to four times while its log is kept: in the history, as the last
/// response and in the output. Eight runs of a user whose model never stops take about 450 MB.
/// Where there is less, lower the limits of runs and of answers.
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
    /// The maximum number of runs in progress; a further one is a 429. 64 by default.
    pub runs: usize,
    /// The maximum number of runs of one user in progress; a further one is a 429. 8 by default.
    pub runs_per_user: usize,
    /// The maximum number of open streams of one user; a further one is a 429. 1,024 by default.
    pub readers_per_user: usize,
    /// The bytes that the open streams of one user may hold for clients that do not read them, in
    /// addition to 64 KiB of each stream. A stream waits for space; a longer message takes all of
    /// it. 64 MiB by default.
    pub reader_bytes_per_user: usize,
    /// The maximum number of messages in the log of a run; then older ones are removed. 10,000 by
    /// default.
    pub log_messages: usize,
    /// The size of the messages in the log of a run, as JSON, in bytes. 4 MiB by default.
    pub log_bytes: usize,
    /// The time that a log is kept after the end of its run, unless another run of the thread
    /// begins. 10 minutes by default.
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
    /// Sets the number of runs at once, in all and of one user.
    #[must_use]
    pub fn with_runs(mut self, runs: usize, runs_per_user: usize) -> Self {
        self.runs = runs;
        self.runs_per_user = runs_per_user;
        self
    }

    /// Sets the number of readers of one user at once.
    #[must_use]
    pub fn with_readers_per_user(mut self, readers: usize) -> Self {
        self.readers_per_user = readers;
        self
    }

    /// Sets the bytes that the streams of one user may hold for clients that do not read them.
    #[must_use]
    pub fn with_reader_bytes_per_user(mut self, bytes: usize) -> Self {
        self.reader_bytes_per_user = bytes;
        self
    }

    /// Sets the limits of the log of a run: the number of its messages, and their bytes as JSON.
    #[must_use]
    pub fn with_log(mut self, messages: usize, bytes: usize) -> Self {
        self.log_messages = messages;
        self.log_bytes = bytes;
        self
    }

    /// Sets the time that a log is kept after the end of its run.
    #[must_use]
    pub fn with_keep_log(mut self, time: Duration) -> Self {
        self.keep_log = time;
        self
    }
}
