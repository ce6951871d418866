//! A connection to a server.

use std::io::{self, Read, Write};
use std::net::TcpStream;
#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::time::Duration;

use redis::{Cmd, ConnectionAddr, Parser, ServerError, Value, cmd};

use crate::error::{Error, ErrorKind};
#[cfg(unix)]
use crate::session::remote::with_timeout;
use crate::session::remote::{Failure, Outcome, connect_host, connection_lost, timeout_for};

use super::address::Address;

/// The number of bytes that are sent without extra time.
const SMALL: usize = 64 * 1024;

/// A connection. After a failure that lost it, nothing more must be asked of it.
pub(super) struct Connection {
    stream: Stream,
    parser: Parser,
    timeout: Duration,
    /// True if the server can be asked to wait for its disk.
    pub(super) waits_for_disk: bool,
}

enum Stream {
    Plain(TcpStream),
    #[cfg(feature = "tls")]
    Secure(Box<super::tls::Stream>),
    #[cfg(unix)]
    Local(UnixStream),
}

impl Connection {
    pub(super) fn open(address: &Address, timeout: Duration) -> Outcome<Self> {
        let mut connection = Self {
            stream: Stream::open(address, timeout)?,
            parser: Parser::new(),
            timeout,
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

        for answer in connection.ask(address, &greeting)? {
            checked(address, answer)?;
        }

        Ok(connection)
    }

    /// Sends one command.
    pub(super) fn ask_one(&mut self, address: &Address, command: Cmd) -> Outcome<Value> {
        let answer = self.ask(address, &[command])?.pop().unwrap_or_default();
        checked(address, answer)
    }

    /// Sends several commands at once. An answer may be an error.
    pub(super) fn ask(&mut self, address: &Address, commands: &[Cmd]) -> Outcome<Vec<Value>> {
        let mut packed = Vec::new();
        for command in commands {
            command.write_packed_command(&mut packed);
        }

        let outcome = self
            .stream
            .write_all(&packed)
            .and_then(|()| self.stream.flush());
        outcome.map_err(|error| connection_lost(&error))?;
        let is_large = packed.len() > SMALL;
        if is_large {
            // A part of the data may still be in transit.
            self.wait_for(timeout_for(self.timeout, packed.len()))?;
        }

        let answers = commands.iter().map(|_| self.answer(address)).collect();
        if is_large {
            self.wait_for(self.timeout)?;
        }

        answers
    }

    /// Sets how long the server may be silent.
    fn wait_for(&self, time: Duration) -> Outcome<()> {
        let time = Some(time);
        let outcome = match &self.stream {
            Stream::Plain(stream) => stream.set_read_timeout(time),
            #[cfg(feature = "tls")]
            Stream::Secure(stream) => stream.sock.set_read_timeout(time),
            #[cfg(unix)]
            Stream::Local(stream) => stream.set_read_timeout(time),
        };
        outcome.map_err(|error| connection_lost(&error))
    }

    fn answer(&mut self, address: &Address) -> Outcome<Value> {
        self.parser.parse_value(&mut self.stream).map_err(|error| {
            let kind = if error.is_timeout() {
                ErrorKind::Timeout
            } else {
                ErrorKind::Connect
            };
            Failure::Lost(Error::new(kind, address.scrub(&error.to_string())))
        })
    }
}

/// An answer, unless it is an error.
pub(super) fn checked(address: &Address, answer: Value) -> Outcome<Value> {
    match answer {
        Value::ServerError(error) => Err(refused(address, &error)),
        answer => Ok(answer),
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
        let limit = Some(timeout);
        match &address.place {
            #[cfg(unix)]
            ConnectionAddr::Unix(path) => {
                let path = path.clone();
                let open_stream = move || {
                    let stream = UnixStream::connect(path)?;
                    stream.set_read_timeout(limit)?;
                    stream.set_write_timeout(limit)?;
                    io::Result::Ok(stream)
                };

                let stream =
                    with_timeout(timeout, open_stream).map_err(|error| connection_lost(&error))?;
                Ok(Self::Local(stream))
            }
            ConnectionAddr::Tcp(host, port) => {
                let stream = connect_host(host, *port, timeout)?;
                stream
                    .set_nodelay(true)
                    .and_then(|()| stream.set_read_timeout(limit))
                    .and_then(|()| stream.set_write_timeout(limit))
                    .map_err(|error| connection_lost(&error))?;
                #[cfg(feature = "tls")]
                if address.is_secure {
                    let stream = super::tls::secure(host, stream)?;
                    return Ok(Self::Secure(Box::new(stream)));
                }

                Ok(Self::Plain(stream))
            }
            _ => unreachable!("an address is one of these when it was read"),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(buffer),
            #[cfg(feature = "tls")]
            Self::Secure(stream) => stream.read(buffer),
            #[cfg(unix)]
            Self::Local(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(bytes),
            #[cfg(feature = "tls")]
            Self::Secure(stream) => stream.write(bytes),
            #[cfg(unix)]
            Self::Local(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.flush(),
            #[cfg(feature = "tls")]
            Self::Secure(stream) => stream.flush(),
            #[cfg(unix)]
            Self::Local(stream) => stream.flush(),
        }
    }
}
