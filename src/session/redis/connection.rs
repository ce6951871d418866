//! A connection to a server.

use std::io::{self, Read, Write};
use std::net::TcpStream;
#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::time::Duration;

use redis::{Cmd, ConnectionAddr, Parser, ServerError, Value, cmd};

use crate::error::{Error, ErrorKind};
use crate::session::remote::{Failure, Outcome, reach};

use super::address::Address;

/// A connection. After a failure that lost it, nothing more must be asked of it.
pub(super) struct Connection {
    stream: Stream,
    parser: Parser,
    /// Whether the server can be asked to wait for its disk.
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

    /// Asks one thing.
    pub(super) fn ask_one(&mut self, address: &Address, command: Cmd) -> Outcome<Value> {
        let answer = self.ask(address, &[command])?.pop().unwrap_or_default();
        checked(address, answer)
    }

    /// Asks several things at once. An answer may be an error.
    pub(super) fn ask(&mut self, address: &Address, commands: &[Cmd]) -> Outcome<Vec<Value>> {
        let mut packed = Vec::new();
        for command in commands {
            command.write_packed_command(&mut packed);
        }
        let sent = self
            .stream
            .write_all(&packed)
            .and_then(|()| self.stream.flush());
        sent.map_err(|error| lost(&error))?;
        commands.iter().map(|_| self.answer(address)).collect()
    }

    fn answer(&mut self, address: &Address) -> Outcome<Value> {
        self.parser.parse_value(&mut self.stream).map_err(|error| {
            let kind = match error.is_timeout() {
                true => ErrorKind::Timeout,
                false => ErrorKind::Connect,
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

/// What an error of the server means for the next try.
fn refused(address: &Address, error: &ServerError) -> Failure {
    let code = error.code();
    let details = error.details().unwrap_or_default();
    let told = |kind| Error::new(kind, address.scrub(format!("{code} {details}").trim_end()));
    match code {
        "WRONGPASS" | "NOAUTH" => Failure::Refused(told(ErrorKind::Auth)),
        "NOPERM" => Failure::Refused(told(ErrorKind::PermissionDenied)),
        // Starting, busy, full, or a copy that will be told to take over.
        "LOADING" | "BUSY" | "READONLY" | "MASTERDOWN" | "TRYAGAIN" | "NOREPLICAS" => {
            Failure::Lost(told(ErrorKind::Connect))
        }
        _ if details.contains("max number of clients") => Failure::Lost(told(ErrorKind::Connect)),
        _ if details.contains("password") => Failure::Refused(told(ErrorKind::Auth)),
        _ => Failure::Refused(told(ErrorKind::Io)),
    }
}

fn lost(error: &io::Error) -> Failure {
    let kind = match error.kind() {
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => ErrorKind::Timeout,
        _ => ErrorKind::Connect,
    };
    Failure::Lost(Error::new(kind, error.to_string()))
}

impl Stream {
    fn open(address: &Address, timeout: Duration) -> Outcome<Self> {
        let limit = Some(timeout);
        match &address.place {
            #[cfg(unix)]
            ConnectionAddr::Unix(path) => {
                let open = || {
                    let stream = UnixStream::connect(path)?;
                    stream.set_read_timeout(limit)?;
                    stream.set_write_timeout(limit)?;
                    io::Result::Ok(stream)
                };
                open().map(Self::Local).map_err(|error| lost(&error))
            }
            ConnectionAddr::Tcp(host, port) => {
                let open = || {
                    let stream = reach(host, *port, timeout)?;
                    stream.set_nodelay(true)?;
                    stream.set_read_timeout(limit)?;
                    stream.set_write_timeout(limit)?;
                    io::Result::Ok(stream)
                };
                let stream = open().map_err(|error| lost(&error))?;
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
