//! The connections of a server that listens on its own.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use rustix::io::Errno;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::error::{Error, ErrorKind, Result};
use crate::util::Secret;
use crate::util::time::NEVER;

use super::handle::ServerHandle;
use super::limits::ServerLimits;
use super::silent_connections::{FirstRequestService, SilentConnection, SilentConnections};
use super::write_timeout::WriteTimeout;

/// The time that runs have to end in a shutdown. It and [`CONNECTIONS_TIME`] are within the 10
/// seconds of [`Listening::serve`].
const RUNS_TIME: Duration = Duration::from_secs(8);

/// The time that connections have to end after the runs.
const CONNECTIONS_TIME: Duration = Duration::from_millis(1_500);

/// The pause after a failure to accept a connection, such as for lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The size of a connection's buffer, unless heads may be larger.
const MIN_BUFFER_BYTES: usize = 16 * 1024;

/// The maximum of [`ServerLimits::headers`]: hyper allocates a list of this length.
const MAX_HEADERS: usize = 4_096;

/// A server that is bound to its address and serves once [`serve`](Listening::serve) is polled.
pub struct Listening {
    pub(super) listener: TcpListener,
    pub(super) router: Router,
    pub(super) limits: ServerLimits,
    pub(super) handle: ServerHandle,
    pub(super) address: SocketAddr,
    pub(super) token: Option<Secret>,
}

impl Listening {
    pub(super) async fn bind(
        address: SocketAddr,
        router: Router,
        limits: ServerLimits,
        handle: ServerHandle,
        token: Option<Secret>,
    ) -> Result<Self> {
        let failure = |error: io::Error| {
            let text =
                format!("cannot listen on {address}: {error}; choose another address or port");
            Error::new(ErrorKind::Io, text).with_source(error)
        };
        let listener = TcpListener::bind(address).await.map_err(failure)?;
        let address = listener.local_addr().map_err(failure)?;
        Ok(Self {
            listener,
            router,
            limits,
            handle,
            address,
            token,
        })
    }

    /// Returns the address that the server is bound to, with the port that the system chose for
    /// port 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns a handle of the server.
    pub fn handle(&self) -> ServerHandle {
        self.handle.clone()
    }

    /// Returns the address of the page with the token in its fragment, which browsers do not send.
    /// There is no token if the application has its own login.
    ///
    /// The address grants all rights of the server's user: print it, but do not log it.
    pub fn url_with_token(&self) -> String {
        let address = self.address;
        match &self.token {
            Some(token) => format!("http://{address}/#token={}", token.expose()),
            None => format!("http://{address}/"),
        }
    }

    /// Serves until `shutdown` completes, then ends all runs and connections within 10 seconds.
    /// Runs end as in [`ServerHandle::shutdown`].
    ///
    /// # Errors
    ///
    /// Currently never returns an error: the failure of a connection ends only that connection.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, all connections are closed at once. Runs then have no readers:
    /// they continue to their end unless [`on_disconnect`](super::Server::on_disconnect) interrupts
    /// them.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) -> Result<()> {
        let graceful = GracefulShutdown::new();
        let mut connections = JoinSet::new();
        let max_connections = self.limits.connections.clamp(1, Semaphore::MAX_PERMITS);
        let slots = Arc::new(Semaphore::new(max_connections));
        let silent_connections = SilentConnections::default();
        let mut shutdown = pin!(shutdown);
        loop {
            let (stream, slot) = tokio::select! {
                accepted = accept(&self.listener, &slots, &silent_connections) => accepted,
                () = &mut shutdown => break,
            };
            match stream {
                Ok((stream, _peer)) => {
                    let silent_connection = silent_connections.new_connection();
                    let connection = http_connection(
                        stream,
                        &self.router,
                        &self.limits,
                        silent_connection.clone(),
                    );
                    let connection = graceful.watch(connection);
                    silent_connection.add_task(|| {
                        connections.spawn(async move {
                            if let Err(error) = connection.await {
                                tracing::debug!(%error, "a connection failed");
                            }
                            drop(slot);
                        })
                    });
                    while connections.try_join_next().is_some() {}
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    if has_no_descriptors(&error) {
                        // Unused instances of agents keep folders open. Requests drop them, and
                        // none can arrive.
                        self.handle.registry().drop_unused();
                    }
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }

        drop(self.listener);
        self.handle.shutdown(RUNS_TIME).await;
        let is_clean = timeout(CONNECTIONS_TIME, graceful.shutdown()).await.is_ok();
        if !is_clean {
            let count = connections.len();
            tracing::debug!(count, "connections were open at the end of the shutdown");
        }
        Ok(())
    }
}

impl fmt::Debug for Listening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listening")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// Returns `true` if the process or the system has no file descriptors left.
fn has_no_descriptors(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::MFILE | Errno::NFILE)
    )
}

/// Accepts a connection, and waits for its slot. If no slot is free, the oldest connection without
/// a request is closed.
async fn accept(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
    silent_connections: &SilentConnections,
) -> (
    io::Result<(TcpStream, SocketAddr)>,
    Option<OwnedSemaphorePermit>,
) {
    let stream = listener.accept().await;
    if slots.available_permits() == 0 {
        silent_connections.close_oldest();
    }
    // The semaphore is never closed.
    (stream, slots.clone().acquire_owned().await.ok())
}

type HttpConnection = http1::Connection<TokioIo<WriteTimeout<TcpStream>>, FirstRequestService>;

/// Creates the connection of an accepted stream.
fn http_connection(
    stream: TcpStream,
    router: &Router,
    limits: &ServerLimits,
    silent_connection: SilentConnection,
) -> HttpConnection {
    // Events are small and must not wait for each other.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection keeps Nagle's algorithm");
    }
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout.min(NEVER))
        .max_headers(limits.headers.min(MAX_HEADERS))
        .max_header_size(limits.header_bytes)
        .max_buf_size(limits.header_bytes.max(MIN_BUFFER_BYTES))
        .serve_connection(
            TokioIo::new(WriteTimeout::new(stream)),
            FirstRequestService::new(router.clone(), silent_connection),
        )
}
