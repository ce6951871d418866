//! The limits of the server.

use std::time::Duration;

use super::runs::RunLimits;

/// The limits of requests, connections and runs.
///
/// Those of headers and connections apply in [`Server::serve`](super::Server::serve); in an
/// application that nests the router they are the application's.
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
    /// The size of a request's body in bytes. 1 MiB by default.
    pub body_bytes: usize,
    /// The size of the body of an upload in bytes. 32 MiB by default. Sixteen uploads are read at
    /// once, two of one user; further ones are a 429.
    pub upload_bytes: usize,
    /// The nesting of JSON in a body. 128 by default.
    pub json_depth: usize,
    /// The number of a request's headers. 64 by default.
    pub headers: usize,
    /// The size of a request's head in bytes. 16 KiB by default.
    pub header_bytes: usize,
    /// The time for a request's head to arrive, for a connection to begin the next request, and for
    /// each piece of a body. 10 seconds by default. A whole body has 60 seconds, and one more for
    /// each 64 KiB.
    pub header_timeout: Duration,
    /// The number of connections at once; further ones wait until one ends. 4,096 by default.
    pub connections: usize,
    /// The limits of runs, their logs and their readers.
    pub runs: RunLimits,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            body_bytes: 1024 * 1024,
            upload_bytes: 32 * 1024 * 1024,
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
    /// Sets the size of a request's body in bytes.
    #[must_use]
    pub fn with_body_bytes(mut self, bytes: usize) -> Self {
        self.body_bytes = bytes;
        self
    }

    /// Sets the size of the body of an upload in bytes.
    #[must_use]
    pub fn with_upload_bytes(mut self, bytes: usize) -> Self {
        self.upload_bytes = bytes;
        self
    }

    /// Sets the number of a request's headers, and the size of its head in bytes.
    #[must_use]
    pub fn with_headers(mut self, headers: usize, bytes: usize) -> Self {
        self.headers = headers;
        self.header_bytes = bytes;
        self
    }

    /// Sets the time for a request's head to arrive.
    #[must_use]
    pub fn with_header_timeout(mut self, time: Duration) -> Self {
        self.header_timeout = time;
        self
    }

    /// Sets the number of connections at once.
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
