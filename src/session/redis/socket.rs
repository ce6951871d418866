//! The socket of a connection, with a deadline.

use std::io::{self, Read, Write};
use std::net::TcpStream;
#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::session::remote::timeout_for;

/// A socket whose reads and writes fail after the deadline of the call that they belong to.
///
/// The deadline is here and not above, because a layer such as TLS reads until it has a whole
/// record: each of its reads may take less than a time limit, and all of them together any time.
#[derive(Debug)]
pub(super) struct Socket {
    stream: Stream,
    start_time: Instant,
    /// The time of the call without the bytes that it receives.
    timeout: Duration,
    received: usize,
    /// The maximum number of received bytes that extend the deadline.
    max_received: usize,
}

#[derive(Debug)]
pub(super) enum Stream {
    Tcp(TcpStream),
    #[cfg(unix)]
    Local(UnixStream),
}

impl Socket {
    /// Creates the socket of a connection whose setup began at `start_time` and may take `timeout`.
    pub(super) fn new(stream: Stream, start_time: Instant, timeout: Duration) -> Self {
        Self {
            stream,
            start_time,
            timeout,
            received: 0,
            max_received: 0,
        }
    }

    /// Begins a call, which has `timeout` and the time that the bytes of its replies take at the
    /// lowest rate, up to `max_received` of them.
    pub(super) fn begin_call(&mut self, timeout: Duration, max_received: usize) {
        self.start_time = Instant::now();
        self.timeout = timeout;
        self.received = 0;
        self.max_received = max_received;
    }

    /// Returns the time that the call has left.
    ///
    /// # Errors
    ///
    /// Returns [`io::ErrorKind::TimedOut`] if the time is over.
    fn time_left(&self) -> io::Result<Duration> {
        let time = timeout_for(self.timeout, self.received.min(self.max_received));
        let time_left = time.saturating_sub(self.start_time.elapsed());
        if time_left.is_zero() {
            let text = format!("the call took longer than {time:?}");
            return Err(io::Error::new(io::ErrorKind::TimedOut, text));
        }
        Ok(time_left)
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let limit = Some(self.time_left()?);
        let count = match &mut self.stream {
            Stream::Tcp(stream) => {
                stream.set_read_timeout(limit)?;
                stream.read(buffer)?
            }
            #[cfg(unix)]
            Stream::Local(stream) => {
                stream.set_read_timeout(limit)?;
                stream.read(buffer)?
            }
        };
        self.received = self.received.saturating_add(count);
        Ok(count)
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let limit = Some(self.time_left()?);
        match &mut self.stream {
            Stream::Tcp(stream) => {
                stream.set_write_timeout(limit)?;
                stream.write(bytes)
            }
            #[cfg(unix)]
            Stream::Local(stream) => {
                stream.set_write_timeout(limit)?;
                stream.write(bytes)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.stream {
            Stream::Tcp(stream) => stream.flush(),
            #[cfg(unix)]
            Stream::Local(stream) => stream.flush(),
        }
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a socket of a call with this time, and its peer, which has sent a reply.
    fn socket(timeout: Duration) -> (Socket, UnixStream) {
        let (stream, mut peer) = UnixStream::pair().unwrap();
        peer.write_all(b"replies").unwrap();
        (
            Socket::new(Stream::Local(stream), Instant::now(), timeout),
            peer,
        )
    }

    fn read(socket: &mut Socket) -> io::Result<usize> {
        socket.read(&mut [0; 8])
    }

    #[test]
    fn socket_after_its_deadline_neither_reads_nor_writes() {
        let (mut socket, _peer) = socket(Duration::ZERO);
        let errors = [read(&mut socket), socket.write(b"PING")].map(Result::unwrap_err);
        for error in errors {
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            assert!(error.to_string().contains("longer than 0ns"), "{error}");
        }

        socket.begin_call(Duration::from_secs(60), 0);
        assert_eq!(read(&mut socket).unwrap(), 7);
        assert_eq!(socket.write(b"PING").unwrap(), 4);
    }

    #[test]
    fn received_bytes_extend_a_call_as_far_as_its_replies_may_be_long() {
        let (mut socket, _peer) = socket(Duration::ZERO);
        socket.received = 64 << 20;
        assert!(read(&mut socket).is_err());
        socket.max_received = 16 << 20;
        let time_left = socket.time_left().unwrap();
        assert!(time_left <= Duration::from_secs(64), "{time_left:?}");
        assert_eq!(read(&mut socket).unwrap(), 7);

        socket.begin_call(Duration::ZERO, 16 << 20);
        assert!(read(&mut socket).is_err());
    }

    #[test]
    fn silent_peer_is_waited_for_until_the_deadline() {
        let (mut socket, _peer) = socket(Duration::from_secs(60));
        assert_eq!(read(&mut socket).unwrap(), 7);
        socket.begin_call(Duration::from_millis(20), 0);
        let error = read(&mut socket).unwrap_err();
        let kinds = [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut];
        assert!(kinds.contains(&error.kind()), "{error}");
    }
}
