//! A connection to a server.

use std::io::{self, BufReader, Read, Write};
#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use redis::{Cmd, ConnectionAddr, ServerError, Value, cmd};

use crate::error::{Error, ErrorKind};
#[cfg(unix)]
use crate::session::remote::with_timeout;
use crate::session::remote::{Failure, Outcome, connect_host, connection_lost, timeout_for};

use super::address::Address;
use super::reply::{ReplyReader, Unread};
use super::socket::{self, Socket};

/// The number of bytes that are read at once.
const BUFFER: usize = 64 * 1024;

/// The maximum size of the replies to a call in bytes, in addition to parts of logs.
pub(super) const MAX_REPLY: u64 = 1024 * 1024;

/// A connection to a server. It must not be used after [`Failure::Lost`].
pub(super) struct Connection {
    stream: BufReader<Stream>,
    timeout: Duration,
    state: ConnectionState,
    /// True if the server can be asked to wait for its disk.
    pub(super) waits_for_disk: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ConnectionState {
    /// The connection is being made, which is one call with one deadline.
    Opening,
    /// Each call has its own deadline.
    Open,
    /// A reply was left unread, so that nothing more can be asked.
    Broken,
}

enum Stream {
    Plain(Socket),
    #[cfg(feature = "tls")]
    Secure(Box<super::tls::Stream>),
}

impl Connection {
    /// Returns `true` after a reply that was not read to its end.
    pub(super) fn is_broken(&self) -> bool {
        self.state == ConnectionState::Broken
    }

    /// Connects and sends the password. All calls until [`finish_opening`](Self::finish_opening)
    /// share the `timeout`.
    pub(super) fn open(address: &Address, timeout: Duration) -> Outcome<Self> {
        let mut connection = Self {
            stream: BufReader::with_capacity(BUFFER, Stream::open(address, timeout)?),
            timeout,
            state: ConnectionState::Opening,
            waits_for_disk: true,
        };

        let mut greeting = Vec::new();
        if let Some(password) = &address.password {
            let mut auth = cmd("AUTH");
            if let Some(user) = &address.user {
                auth.arg(user);
            }

            auth.arg(password.expose());
            greeting.push(auth);
        }

        if address.database != 0 {
            let mut select = cmd("SELECT");
            select.arg(address.database);
            greeting.push(select);
        }

        for reply in connection.ask(address, &greeting)? {
            checked(address, reply)?;
        }

        Ok(connection)
    }

    /// Gives each further call its own deadline.
    pub(super) fn finish_opening(&mut self) {
        if self.state == ConnectionState::Opening {
            self.state = ConnectionState::Open;
        }
    }

    /// Sends one command with a short reply.
    pub(super) fn ask_one(&mut self, address: &Address, command: Cmd) -> Outcome<Value> {
        self.ask_log(address, command, 0)
    }

    /// Sends one command whose reply has at most `log_bytes` of a log.
    pub(super) fn ask_log(
        &mut self,
        address: &Address,
        command: Cmd,
        log_bytes: u64,
    ) -> Outcome<Value> {
        let replies = self.ask_logs(address, &[command], log_bytes)?;
        checked(address, replies.into_iter().next().unwrap_or_default())
    }

    /// Sends several commands with short replies at once. A reply may be an error.
    pub(super) fn ask(&mut self, address: &Address, commands: &[Cmd]) -> Outcome<Vec<Value>> {
        self.ask_logs(address, commands, 0)
    }

    /// Sends several commands at once. Their replies have at most `log_bytes` of logs together. A
    /// reply may be an error.
    pub(super) fn ask_logs(
        &mut self,
        address: &Address,
        commands: &[Cmd],
        log_bytes: u64,
    ) -> Outcome<Vec<Value>> {
        if self.is_broken() {
            let text = "an earlier reply on this connection was not read";
            return Err(Failure::Lost(Error::new(ErrorKind::Connect, text)));
        }

        let mut packed = Vec::new();
        for command in commands {
            command.write_packed_command(&mut packed);
        }

        let max_bytes = log_bytes.saturating_add(MAX_REPLY);
        let mut max_bytes = usize::try_from(max_bytes).unwrap_or(usize::MAX);
        let stream = self.stream.get_mut();
        if self.state == ConnectionState::Open {
            let timeout = timeout_for(self.timeout, packed.len());
            stream.socket().begin_call(timeout, max_bytes);
        }

        let outcome = stream.write_all(&packed).and_then(|()| stream.flush());
        outcome.map_err(|error| connection_lost(&error))?;
        commands
            .iter()
            .map(|_| self.reply(address, &mut max_bytes))
            .collect()
    }

    /// Returns the next reply, which takes its bytes from `max_bytes`.
    fn reply(&mut self, address: &Address, max_bytes: &mut usize) -> Outcome<Value> {
        let mut reader = ReplyReader::new(&mut self.stream, *max_bytes);
        let outcome = reader.read();
        *max_bytes = max_bytes.saturating_sub(reader.received());
        outcome.map_err(|unread| {
            self.state = ConnectionState::Broken;
            match unread {
                Unread::Lost(error) => connection_lost(&error),
                Unread::Refused(problem) => {
                    let text = format!("{} {problem}", address.name);
                    Failure::Refused(Error::new(ErrorKind::Protocol, text))
                }
            }
        })
    }
}

/// Returns a reply, unless it is an error.
pub(super) fn checked(address: &Address, reply: Value) -> Outcome<Value> {
    match reply {
        Value::ServerError(error) => Err(refused(address, &error)),
        reply => Ok(reply),
    }
}

/// Classifies an error of the server for the next attempt.
fn refused(address: &Address, error: &ServerError) -> Failure {
    let code = error.code();
    let details = error.details().unwrap_or_default();
    let make_error = |kind| Error::new(kind, address.scrub(format!("{code} {details}").trim_end()));
    match code {
        "WRONGPASS" | "NOAUTH" => Failure::Refused(make_error(ErrorKind::Auth)),
        "NOPERM" => Failure::Refused(make_error(ErrorKind::PermissionDenied)),
        // The server is starting, busy or full, or this is a replica that will be promoted.
        "LOADING" | "BUSY" | "READONLY" | "MASTERDOWN" | "TRYAGAIN" | "NOREPLICAS" => {
            Failure::Lost(make_error(ErrorKind::Connect))
        }
        _ if details.contains("max number of clients") => {
            Failure::Lost(make_error(ErrorKind::Connect))
        }
        // Before Redis 7, this code is inside the error of the script.
        _ if details.contains("-READONLY") => Failure::Lost(make_error(ErrorKind::Connect)),
        _ if details.contains("password") => Failure::Refused(make_error(ErrorKind::Auth)),
        _ => Failure::Refused(make_error(ErrorKind::Io)),
    }
}

impl Stream {
    fn open(address: &Address, timeout: Duration) -> Outcome<Self> {
        let start_time = Instant::now();
        let make_socket = |stream| Socket::new(stream, start_time, timeout);
        match &address.place {
            #[cfg(unix)]
            ConnectionAddr::Unix(path) => {
                let path = path.clone();
                let stream = with_timeout(timeout, move || UnixStream::connect(path))
                    .map_err(|error| connection_lost(&error))?;
                Ok(Self::Plain(make_socket(socket::Stream::Local(stream))))
            }
            ConnectionAddr::Tcp(host, port) => {
                let stream = connect_host(host, *port, timeout)?;
                stream
                    .set_nodelay(true)
                    .map_err(|error| connection_lost(&error))?;
                let socket = make_socket(socket::Stream::Tcp(stream));
                #[cfg(feature = "tls")]
                if address.is_secure {
                    let stream = super::tls::secure(host, socket)?;
                    return Ok(Self::Secure(Box::new(stream)));
                }

                Ok(Self::Plain(socket))
            }
            // `Address::read` accepts no other kind.
            _ => {
                let text = format!("{} has an address of an unknown kind", address.name);
                Err(Failure::Refused(Error::new(ErrorKind::Config, text)))
            }
        }
    }

    fn socket(&mut self) -> &mut Socket {
        match self {
            Self::Plain(socket) => socket,
            #[cfg(feature = "tls")]
            Self::Secure(stream) => &mut stream.sock,
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(buffer),
            #[cfg(feature = "tls")]
            Self::Secure(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            #[cfg(feature = "tls")]
            Self::Secure(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.flush(),
            #[cfg(feature = "tls")]
            Self::Secure(stream) => stream.flush(),
        }
    }
}
