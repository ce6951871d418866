//! The limits of the server.

use std::time::Duration;

use super::runs::RunLimits;

/// The limits of requests, connections and runs.
///
/// The limits of headers and connections apply only to a server that listens on its own
/// ([`Listening::serve`](super::Listening::serve)). An application that nests the router sets its
/// own limits.
///
/// ```
/// use agentcore::server::{RunLimits, ServerLimits};
///
/// let limits = ServerLimits::default()
///     .with_body_bytes(64 * 1024)
///     .with_runs(RunLimits::default().with_runs(16, 2));
/// assert_eq!((limits.body_bytes, limits.runs.runs), (64 * 1024, 16));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerLimits {
    /// The maximum size of a request's body, in bytes. Defaults to 1 MiB.
    pub body_bytes: usize,
    /// The maximum size of the body of an upload, in bytes. Defaults to 32 MiB. At most sixteen
    /// uploads are read at once, and two of one user; further uploads get a 429.
    pub upload_bytes: usize,
    /// The maximum size of the files that one user uploads within 24 hours, in bytes. Defaults to
    /// 1 GiB. A further upload gets a 429 with the time to wait. The count is that of this process.
    /// A file counts its path and 4 KiB in addition.
    pub upload_bytes_per_day: u64,
    /// The maximum nesting depth of JSON in a body. In any case, the parser reads at most 127
    /// levels. Defaults to 128, which adds no limit to that.
    pub json_depth: usize,
    /// The maximum number of headers of a request. Defaults to 64. A number over 4,096 counts as
    /// 4,096.
    pub headers: usize,
    /// The maximum size of a request's head, in bytes. Defaults to 16 KiB.
    pub header_bytes: usize,
    /// The timeout for the head of a request to arrive, for a connection to begin its next request,
    /// and for each piece of a body. Defaults to 10 seconds. A whole body has 60 seconds, and one
    /// more second for each 64 KiB.
    pub header_timeout: Duration,
    /// The maximum number of concurrent connections. A further connection replaces the connection
    /// that has waited longest without sending the head of a request, or waits until one ends.
    /// Defaults to 4,096.
    pub connections: usize,
    /// The limits of runs, their logs and their readers.
    pub runs: RunLimits,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            body_bytes: 1024 * 1024,
            upload_bytes: 32 * 1024 * 1024,
            upload_bytes_per_day: 1024 * 1024 * 1024,
            json_depth: 128,
            headers: 64,
            header_bytes: 16 * 1024,
            header_timeout: Duration::from_secs(10),
            connections: 4_096,
            runs: RunLimits::default(),
        }
    }
}

impl ServerLimits {
    /// Sets the maximum size of a request's body, in bytes.
    #[must_use]
    pub fn with_body_bytes(mut self, bytes: usize) -> Self {
        self.body_bytes = bytes;
        self
    }

    /// Sets the maximum size of the body of an upload, in bytes.
    #[must_use]
    pub fn with_upload_bytes(mut self, bytes: usize) -> Self {
        self.upload_bytes = bytes;
        self
    }

    /// Sets the maximum size of the files that one user uploads within 24 hours, in bytes.
    #[must_use]
    pub fn with_upload_bytes_per_day(mut self, bytes: u64) -> Self {
        self.upload_bytes_per_day = bytes;
        self
    }

    /// Sets the maximum number of headers of a request, and the maximum size of its head in bytes.
    #[must_use]
    pub fn with_headers(mut self, headers: usize, bytes: usize) -> Self {
        self.headers = headers;
        self.header_bytes = bytes;
        self
    }

    /// Sets the timeout for the head of a request to arrive, for a connection to begin its next
    /// request, and for each piece of a body.
    #[must_use]
    pub fn with_header_timeout(mut self, time: Duration) -> Self {
        self.header_timeout = time;
        self
    }

    /// Sets the maximum number of concurrent connections.
    #[must_use]
    pub fn with_connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    /// Sets the limits of runs, their logs and their readers.
    #[must_use]
    pub fn with_runs(mut self, runs: RunLimits) -> Self {
        self.runs = runs;
        self
    }
}
