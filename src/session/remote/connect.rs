//! The connection to a host in bounded time.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
#[cfg(unix)]
use std::sync::mpsc::{self, RecvTimeoutError};
#[cfg(unix)]
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind};

use super::lookup::Lookup;
use super::server::{Failure, Outcome};

/// The minimum time for one address.
const MIN_SHARE: Duration = Duration::from_millis(1);

/// Connects to the first of a host's addresses that answers.
pub(in crate::session) fn connect_host(
    host: &str,
    port: u16,
    limit: Duration,
) -> Outcome<TcpStream> {
    let deadline = Instant::now() + limit;
    let mut addresses = match host.parse::<IpAddr>() {
        Ok(ip) => vec![(ip, port).into()],
        Err(_) => Lookup::begin(host).wait(deadline)?.ok_or_else(|| {
            let text = format!("its name was not found within {limit:?}");
            Failure::Lost(Error::new(ErrorKind::Timeout, text))
        })?,
    };

    for address in &mut addresses {
        address.set_port(port);
    }

    connect(&addresses, deadline).map_err(|error| connection_lost(&error))
}

/// Classifies the failure of a connection.
pub(in crate::session) fn connection_lost(error: &io::Error) -> Failure {
    let kind = match error.kind() {
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => ErrorKind::Timeout,
        _ => ErrorKind::Connect,
    };
    Failure::Lost(Error::new(kind, error.to_string()))
}

/// Runs blocking work on its own thread, which is abandoned after the time limit.
#[cfg(unix)]
pub(in crate::session) fn with_timeout<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let thread = thread::Builder::new().name("agentcore-connect".into());
    thread.spawn(move || {
        // The receiver is gone after the time limit.
        let _ = sender.send(work());
    })?;
    receiver.recv_timeout(limit).unwrap_or_else(|error| {
        Err(match error {
            RecvTimeoutError::Timeout => {
                let text = format!("it did not answer within {limit:?}");
                io::Error::new(io::ErrorKind::TimedOut, text)
            }
            RecvTimeoutError::Disconnected => io::Error::other("the thread that connects panicked"),
        })
    })
}

/// Connects to the first address that accepts a connection.
///
/// Each address has an equal share of the remaining time, so that a silent address takes no time
/// from the next one.
fn connect(addresses: &[SocketAddr], until: Instant) -> io::Result<TcpStream> {
    let mut failure = io::Error::from(io::ErrorKind::NotFound);
    for (address, remaining) in addresses.iter().zip((1..=addresses.len() as u32).rev()) {
        let time_left = until.saturating_duration_since(Instant::now());
        match TcpStream::connect_timeout(address, (time_left / remaining).max(MIN_SHARE)) {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[cfg(target_os = "linux")]
    const LIMIT: Duration = Duration::from_secs(2);

    #[cfg(unix)]
    #[test]
    fn hanging_call_times_out() {
        let (sender, receiver) = mpsc::channel::<()>();
        let error = with_timeout(MIN_SHARE, move || Ok(receiver.recv())).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(sender);

        // Longer than any machine takes to start a thread.
        let limit = Duration::from_secs(60);
        assert_eq!(with_timeout(limit, || Ok(7)).unwrap(), 7);
        let error =
            with_timeout(limit, || Err::<(), _>(io::ErrorKind::NotFound.into())).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        // A panic is reported as well.
        let error = with_timeout::<()>(limit, || panic!("it breaks off")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Other);
    }

    /// Returns a listener with a full queue, and the connections that fill it.
    #[cfg(target_os = "linux")]
    fn full() -> (TcpListener, Vec<TcpStream>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut streams = Vec::new();
        while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(200)) {
            streams.push(stream);
        }
        (listener, streams)
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn silent_address_leaves_time_for_the_next() {
        let (silent_address, _waiting) = full();
        let open_address = TcpListener::bind("127.0.0.1:0").unwrap();
        let [silent_address, open_address] =
            [&silent_address, &open_address].map(|at| at.local_addr().unwrap());
        let deadline = || Instant::now() + LIMIT;
        let stream = connect(&[silent_address, open_address], deadline()).unwrap();
        assert_eq!(stream.peer_addr().unwrap(), open_address);
        let stream = connect(&[silent_address, silent_address, open_address], deadline()).unwrap();
        assert_eq!(stream.peer_addr().unwrap(), open_address);
        let error = connect(&[silent_address, silent_address], deadline()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let error = connect(&[silent_address], Instant::now()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(connect(&[], deadline()).is_err());
    }
}
