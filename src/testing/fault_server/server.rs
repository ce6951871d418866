//! The listener and its state.

use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use crate::error::Result;
use crate::util::sync::lock;

use super::connection;
use super::received::Received;
use super::reply::Reply;

/// A server on a free loopback port that gives scripted [`Reply`]s, in order, one per request.
///
/// When none is left, a request gets the reply of the [`respond`](Self::respond) function, else the
/// [`fallback`](Self::fallback), or without one a status 500 with a message about it. Every request
/// is recorded. The server runs on the runtime it was started on and ends, with all its
/// connections, when it is dropped.
pub struct FaultServer {
    addr: SocketAddr,
    shared: Arc<FaultServerShared>,
    listener: AbortHandle,
}

pub(super) struct FaultServerShared {
    state: Mutex<FaultServerState>,
    counts: watch::Sender<Counts>,
}

type Responder = Arc<dyn Fn(&Received) -> Reply + Send + Sync>;

#[derive(Default)]
struct FaultServerState {
    replies: VecDeque<Reply>,
    responder: Option<Responder>,
    fallback: Option<Reply>,
    requests: Vec<Received>,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    requests: usize,
    accepted: usize,
    open: usize,
}

impl FaultServer {
    /// Starts a server without replies.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Io`](crate::ErrorKind::Io) if no loopback port can be opened.
    ///
    /// # Panics
    ///
    /// Panics if called outside of a tokio runtime.
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let addr = listener.local_addr()?;
        let shared = Arc::new(FaultServerShared {
            state: Mutex::default(),
            counts: watch::Sender::default(),
        });

        let task = tokio::spawn(accept(listener, shared.clone()));
        Ok(Self {
            addr,
            shared,
            listener: task.abort_handle(),
        })
    }

    /// Returns the server's address.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns the server's base URL, without a trailing slash.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Adds a reply at the end of the script.
    pub fn reply(&self, reply: Reply) {
        lock(&self.shared.state).replies.push_back(reply);
    }

    /// Sets the reply to every request after the end of the script.
    pub fn fallback(&self, reply: Reply) {
        lock(&self.shared.state).fallback = Some(reply);
    }

    /// Sets a function that replies to every request after the end of the script, instead of the
    /// [`fallback`](Self::fallback). It may use the server. If it panics, the connection closes
    /// without a reply.
    ///
    /// ```
    /// use agentcore::testing::{FaultServer, Reply};
    ///
    /// # async fn example() -> agentcore::Result<()> {
    /// let server = FaultServer::start().await?;
    /// server.respond(|request| match &*request.path {
    ///     "/v1/models" => Reply::json(200, r#"{"data":[]}"#),
    ///     _ => Reply::new(404),
    /// });
    /// # Ok(())
    /// # }
    /// ```
    pub fn respond(&self, responder: impl Fn(&Received) -> Reply + Send + Sync + 'static) {
        lock(&self.shared.state).responder = Some(Arc::new(responder));
    }

    /// Adds a well-formed Messages API stream with this text at the end of the script.
    pub fn anthropic_text(&self, text: &str) {
        self.reply(Reply::anthropic_text(text));
    }

    /// Adds a well-formed Chat Completions stream with this text at the end of the script.
    pub fn openai_text(&self, text: &str) {
        self.reply(Reply::openai_text(text));
    }

    /// Returns the number of scripted replies that are left.
    pub fn remaining(&self) -> usize {
        lock(&self.shared.state).replies.len()
    }

    /// Returns every request so far, in order of arrival.
    pub fn requests(&self) -> Vec<Received> {
        lock(&self.shared.state).requests.clone()
    }

    /// Returns the number of connections accepted so far.
    pub fn connections(&self) -> usize {
        self.shared.counts.borrow().accepted
    }

    /// Returns the number of connections that are open now.
    pub fn open_connections(&self) -> usize {
        self.shared.counts.borrow().open
    }

    /// Waits until `count` requests have arrived.
    pub async fn received(&self, count: usize) {
        self.until(|counts| counts.requests >= count).await;
    }

    /// Waits until no connection is open: clients and replies are done.
    pub async fn all_closed(&self) {
        self.until(|counts| counts.open == 0).await;
    }

    async fn until(&self, done: impl Fn(&Counts) -> bool) {
        // `shared` holds the sender, so the channel stays open while `self` exists.
        drop(self.shared.counts.subscribe().wait_for(done).await);
    }
}

impl Drop for FaultServer {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

impl fmt::Debug for FaultServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultServer")
            .field("addr", &self.addr)
            .finish_non_exhaustive()
    }
}

impl FaultServerShared {
    /// Stores a request and returns the reply to it.
    pub(super) fn next(&self, request: &Received) -> Reply {
        let mut state = lock(&self.state);
        state.requests.push(request.clone());
        let scripted = state.replies.pop_front();
        let responder = state.responder.clone().filter(|_| scripted.is_none());
        let fallback = state.fallback.clone();

        // The responder may use the server.
        drop(state);
        self.counts.send_modify(|counts| counts.requests += 1);
        scripted
            .or_else(|| responder.map(|respond| respond(request)))
            .or(fallback)
            .unwrap_or_else(|| Reply::json(500, r#"{"error":"no reply is scripted"}"#))
    }

    /// Counts a connection as open until the guard is dropped.
    pub(super) fn opened(self: &Arc<Self>) -> OpenConnection {
        self.counts.send_modify(|counts| counts.open += 1);
        OpenConnection(self.clone())
    }
}

pub(super) struct OpenConnection(Arc<FaultServerShared>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.counts.send_modify(|counts| counts.open -= 1);
    }
}

/// Dropping this future drops the set, which ends every connection's task.
async fn accept(listener: TcpListener, shared: Arc<FaultServerShared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                // A client that disconnected before the accept does not stop the server.
                let Ok((socket, _)) = accepted else { continue };
                let mut number = 0;
                shared.counts.send_modify(|counts| {
                    number = counts.accepted;
                    counts.accepted += 1;
                });

                connections.spawn(connection::serve(socket, number, shared.clone()));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}
