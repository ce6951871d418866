//! The connections on which no request has arrived yet.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use tokio::task::AbortHandle;

use crate::util::sync::lock;

/// The connections that have not sent the head of a request. A server that is full closes the
/// oldest of them for a new connection, so that connections which only wait keep no client out.
#[derive(Clone, Default)]
pub(super) struct SilentConnections(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    next_number: u64,
    /// The tasks of the connections, in the order in which they began.
    tasks: BTreeMap<u64, AbortHandle>,
}

/// A handle of a connection's entry in the list. The entry is removed at the first request, and
/// when the last handle is dropped.
#[derive(Clone)]
pub(super) struct SilentConnection(Arc<ConnectionEntry>);

/// The entry of a connection in the list.
struct ConnectionEntry {
    connections: SilentConnections,
    number: u64,
}

impl SilentConnections {
    /// Creates the entry of the next connection.
    pub(super) fn new_connection(&self) -> SilentConnection {
        let mut inner = lock(&self.0);
        inner.next_number += 1;
        SilentConnection(Arc::new(ConnectionEntry {
            connections: self.clone(),
            number: inner.next_number,
        }))
    }

    /// Closes the connection that has been silent for the longest time, if there is one.
    pub(super) fn close_oldest(&self) {
        let oldest = lock(&self.0).tasks.pop_first();
        if let Some((_, task)) = oldest {
            task.abort();
        }
    }
}

impl SilentConnection {
    /// Adds the connection to the list, with the task that `spawn` starts.
    pub(super) fn add_task(&self, spawn: impl FnOnce() -> AbortHandle) {
        // Under the lock: the task may run at once, and removes only an entry that was added.
        let mut inner = lock(&self.0.connections.0);
        inner.tasks.insert(self.0.number, spawn());
    }
}

impl ConnectionEntry {
    fn leave(&self) {
        lock(&self.connections.0).tasks.remove(&self.number);
    }
}

impl Drop for ConnectionEntry {
    fn drop(&mut self) {
        self.leave();
    }
}

/// The routes, as the service of one connection that removes its entry at the first request.
pub(super) struct FirstRequestService {
    routes: TowerToHyperService<Router>,
    connection: SilentConnection,
}

impl FirstRequestService {
    pub(super) fn new(router: Router, connection: SilentConnection) -> Self {
        Self {
            routes: TowerToHyperService::new(router),
            connection,
        }
    }
}

impl Service<Request<Incoming>> for FirstRequestService {
    type Response = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Response;
    type Error = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Error;
    type Future = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Future;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        self.connection.0.leave();
        self.routes.call(request)
    }
}
