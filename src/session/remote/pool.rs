//! A pool of connections, with retries.

use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind, Result};
use crate::util::sync::lock;

use super::options::ServerOptions;
use super::server::{Failure, Outcome, Server};

/// The time without use after which a connection may have been closed unnoticed.
const MAX_IDLE: Duration = Duration::from_secs(60);
/// The wait before the first retry; each further one is twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(50);
/// The maximum wait between two attempts.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// A server with a bounded number of connections.
pub(super) struct Pool<S: Server> {
    server: S,
    options: ServerOptions,
    connections: Mutex<Connections<S::Connection>>,
    freed: Condvar,
}

struct Connections<C> {
    used: usize,
    idle: Vec<(C, Instant)>,
}

/// The right to use a connection.
struct Permit<'a, S: Server>(&'a Pool<S>);

impl<S: Server> Drop for Permit<'_, S> {
    fn drop(&mut self) {
        lock(&self.0.connections).used -= 1;
        self.0.freed.notify_one();
    }
}

impl<S: Server> Pool<S> {
    pub(super) fn new(server: S, options: ServerOptions) -> Self {
        let connections = Mutex::new(Connections {
            used: 0,
            idle: Vec::new(),
        });
        Self {
            server,
            options,
            connections,
            freed: Condvar::new(),
        }
    }

    pub(super) fn server(&self) -> &S {
        &self.server
    }

    pub(super) fn options(&self) -> &ServerOptions {
        &self.options
    }

    /// Runs a call, and retries it while the server cannot be reached, for at most
    /// [`ServerOptions::max_retry_time`].
    pub(super) fn run<T>(&self, call: impl Fn(&S, &mut S::Connection) -> Outcome<T>) -> Result<T> {
        let _permit = self.permit()?;
        let start_time = Instant::now();
        let mut wait = FIRST_WAIT;
        let mut tries = 0_u32;
        loop {
            tries = tries.saturating_add(1);
            let was_idle = self.has_idle();
            let error = match self.once(&call) {
                Ok(value) => return Ok(value),
                Err(Failure::Refused(error)) => return Err(error),
                Err(Failure::Lost(error)) => error,
            };

            if was_idle && tries == 1 {
                // An idle connection may have been closed long ago.
                continue;
            }

            // A name that does not exist is unlikely to appear during the retries.
            let is_hopeless = error.kind() == ErrorKind::Dns && tries > 1;
            if is_hopeless || start_time.elapsed() + wait >= self.options.max_retry_time {
                return Err(self.unreachable_error(&error, tries, start_time.elapsed()));
            }

            sleep(wait);
            wait = (wait * 2).min(MAX_WAIT);
        }
    }

    /// Runs a call once, on a free or new connection.
    pub(super) fn once<T>(
        &self,
        call: impl Fn(&S, &mut S::Connection) -> Outcome<T>,
    ) -> Outcome<T> {
        let mut connection = match self.take_idle() {
            Some(connection) => connection,
            None => self.server.connect()?,
        };

        let outcome = call(&self.server, &mut connection);
        let mut connections = lock(&self.connections);
        match outcome {
            // If one connection is lost, the idle ones are probably lost as well.
            Err(Failure::Lost(_)) => connections.idle.clear(),
            _ if connections.idle.len() < self.options.max_connections
                && self.server.is_usable(&connection) =>
            {
                connections.idle.push((connection, Instant::now()));
            }
            _ => {}
        }

        outcome
    }

    fn has_idle(&self) -> bool {
        !lock(&self.connections).idle.is_empty()
    }

    fn take_idle(&self) -> Option<S::Connection> {
        let mut connections = lock(&self.connections);
        connections
            .idle
            .retain(|(_, since)| since.elapsed() < MAX_IDLE);
        connections.idle.pop().map(|(connection, _)| connection)
    }

    /// Waits until fewer connections than the maximum are in use.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Timeout`] if none is released within the time that a call may take.
    fn permit(&self) -> Result<Permit<'_, S>> {
        let ServerOptions {
            max_connections,
            timeout,
            max_retry_time,
            ..
        } = self.options;
        let max_wait = timeout + max_retry_time;
        let connections = lock(&self.connections);
        let (mut connections, wait_result) = self
            .freed
            .wait_timeout_while(connections, max_wait, |all| all.used >= max_connections)
            .unwrap_or_else(PoisonError::into_inner);
        if wait_result.timed_out() {
            let name = self.server.name();
            return Err(Error::new(
                ErrorKind::Timeout,
                format!(
                    "all {max_connections} connections to {name} were in use for {max_wait:?}; allow \
                     more, or run fewer sessions at once"
                ),
            ));
        }

        connections.used += 1;
        Ok(Permit(self))
    }

    fn unreachable_error(&self, error: &Error, tries: u32, after: Duration) -> Error {
        let times = match tries {
            1 => "once".to_owned(),
            _ => format!("{tries} times"),
        };

        let name = self.server.name();
        let seconds = after.as_secs_f64();
        Error::new(
            error.kind(),
            format!(
                "{name} does not answer: {error}; tried {times} in {seconds:.1} s. What was \
                 acknowledged is stored: run the session again when the server is back"
            ),
        )
    }
}
